"""What is published beside the files: their hashes, and the notes of the release."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from distribution.release.toolchain import ROOT


def write(files: Iterable[Path], folder: Path) -> None:
    """Writes ``SHA256SUMS``, as sha256sum reads it, and ``release-notes.md``."""
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files)]
    (folder / "SHA256SUMS").write_text("".join(sums))
    version = re.findall(r'(?m)^version = "(.+)"$', (ROOT / "Cargo.toml").read_text())[0]
    (folder / "release-notes.md").write_text(notes((ROOT / "CHANGELOG.md").read_text(), version))


def notes(changelog: str, version: str) -> str:
    """The section of a version. Raises ValueError where there is none."""
    found = re.search(rf"(?ms)^## {re.escape(version)}\b.*?(?=^## |\Z)", changelog)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section of {version}")
    return found[0].strip() + "\n"
