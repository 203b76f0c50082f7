"""What is copied: made once for a site, the same for all."""

from __future__ import annotations

import os
from pathlib import Path

from bench.transfer.settings import Settings
from bench.transfer.site import Site

_PIECE = 1 << 24


def folder(site: Site) -> Path:
    """Where all of it is, and nothing else."""
    path = site.folder / "sources"
    path.mkdir(exist_ok=True)
    return path


def big_file(site: Site, settings: Settings) -> Path:
    """Random bytes, a quarter of what is copied from memory."""
    path = folder(site) / "big"
    if not path.exists():
        left = int(settings.gigabytes * 2.5e8)
        with path.open("wb") as file:
            while left:
                left -= file.write(os.urandom(min(_PIECE, left)))
    return path


def newer(site: Site, settings: Settings) -> Path:
    """The large file with another megabyte in the middle, and a byte more after a quarter."""
    older, path = big_file(site, settings), folder(site) / "newer"
    if not path.exists():
        data = older.read_bytes()
        quarter, middle = len(data) // 4, len(data) // 2
        changed = os.urandom(1_000_000)
        path.write_bytes(data[:quarter] + b"+" + data[quarter:middle] + changed + data[middle + len(changed) :])
    return path


def text(site: Site, settings: Settings) -> Path:
    """Python's own library, as one file, again and again up to an eighth of what the large one has."""
    path = folder(site) / "text"
    if not path.exists():
        left = int(settings.gigabytes * 2.5e8) // 8
        with path.open("wb") as file:
            while left:
                for source in sorted(Path(os.__file__).parent.rglob("*.py")):
                    left -= file.write(source.read_bytes()[:left])
    return path


def one_byte(site: Site) -> Path:
    """A file of that size."""
    path = folder(site) / "one"
    path.write_bytes(b"1")
    return path


def small_files(site: Site, settings: Settings) -> Path:
    """A folder with ten folders with files of 4 KB."""
    source = folder(site) / "small"
    if not source.exists():
        for number in range(settings.files):
            path = source / f"{number % 10}" / f"{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(4096))
    return source
