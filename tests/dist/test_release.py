"""What `make dist` writes beside wheels: hashes, and the notes of the release."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from distribution.release import publishing

CHANGELOG = "# Changelog\n\n## 1.1.0, not released yet\n\n- new\n\n## 1.0.0\n\n- old\n"


def test_notes_are_the_section_of_the_version() -> None:
    assert publishing.notes(CHANGELOG, "1.1.0") == "## 1.1.0, not released yet\n\n- new\n"
    assert publishing.notes(CHANGELOG, "1.0.0") == "## 1.0.0\n\n- old\n"
    with pytest.raises(ValueError, match=r"no section of 1\.2\.0"):
        publishing.notes(CHANGELOG, "1.2.0")


def test_hashes_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "it.whl").write_text("content")
    publishing.write([tmp_path / "it.whl"], tmp_path)
    assert hashlib.sha256(b"content").hexdigest() in (tmp_path / "SHA256SUMS").read_text()
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True)
    assert (tmp_path / "release-notes.md").read_text().startswith("## ")
