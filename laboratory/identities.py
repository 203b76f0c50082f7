"""Identity files of tests: only their owner may read them, or phalanx refuses them."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str) -> Path:
    """Writes an identity file. Returns its path."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path
