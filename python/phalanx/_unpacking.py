"""Unpacks the packages that came with a program, where they are imported from."""

from __future__ import annotations

import importlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

#: Maximum characters of a path in an archive.
LONGEST = 1000


def is_inside(name: str) -> bool:
    """Whether a path of an archive stays beneath the folder into which the archive is unpacked, on every system."""
    path = PurePosixPath(name)
    if not path.parts or len(name) > LONGEST or path.is_absolute():
        return False
    return ".." not in path.parts and not set(name) & set("\\:\0")


def unpack_into(folder: Path, archive: bytes) -> None:
    """Unpacks an archive into a folder, and nothing beside it."""
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        for entry in packed.infolist():
            if not is_inside(entry.filename):
                raise ValueError(f"the path {entry.filename!r:.100} leads out of the folder of packages")
            file = folder / entry.filename
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(packed.read(entry))


def unpack_at_interpreter(archive: bytes, digest: str) -> None:
    """Makes packages importable at this interpreter. The first one of a program on a machine unpacks them for all."""
    folder = _own_folder() / f".phalanx-packages-{digest}"
    if not folder.is_dir():
        fresh = Path(tempfile.mkdtemp(prefix=".phalanx-unpacking-", dir=folder.parent))
        try:
            unpack_into(fresh, archive)
            fresh.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another interpreter was faster
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    use(str(folder))


def use(folder: str) -> None:
    """Imports from a folder first."""
    sys.path.insert(0, folder)
    importlib.invalidate_caches()


def _own_folder() -> Path:
    """The folder that the executor has made for this program, and removes with it."""
    folder = os.environ.get("TMPDIR")
    if not folder or folder != os.environ.get("HOME"):
        raise OSError("this executor gives programs no folder of their own, as on Linux: install the packages there")
    return Path(folder)
