"""Fetches the tests of comms of Dask's distributed, which are in its repository only.

``python -m suites.distributed_tests FOLDER`` takes them from GitHub, at the version that is installed. On machines that
do not reach GitHub, ``DISTRIBUTED_SOURCES`` names a copy of the repository, whose newest commit is taken.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import urllib.request
from importlib.metadata import version
from pathlib import Path

#: The tests: of comms, and of clusters over TLS.
FILES = ("distributed/comm/tests/test_comms.py", "distributed/tests/test_tls_functional.py")
#: The certificates that the tests are about.
CERTIFICATES = "distributed/tests"
_NAMES = ("ca-cert", "cert", "key", "key-cert", "self-signed-cert", "self-signed-key")
NEEDED = (*FILES, *(f"{CERTIFICATES}/tls-{name}.pem" for name in _NAMES))
FOLDER = Path(sys.prefix) / "distributed-tests"
ARCHIVE = "https://codeload.github.com/dask/distributed/tar.gz/refs/tags/{}"
PATIENCE = 60


def files() -> list[str]:
    """The fetched tests; none if they are not here."""
    return [str(path) for name in FILES if (path := FOLDER / name).exists()]


def fetch(folder: Path) -> None:
    """Makes the folder.

    Raises
    ------
    OSError
        GitHub cannot be reached.
    """
    copy = os.environ.get("DISTRIBUTED_SOURCES")
    for name, text in (_of_copy(copy) if copy else _of_github()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def _of_copy(repository: str) -> dict[str, bytes]:
    show = ["git", "-C", repository, "show"]
    return {name: subprocess.run([*show, f"HEAD:{name}"], check=True, capture_output=True).stdout for name in NEEDED}


def _of_github() -> dict[str, bytes]:
    with urllib.request.urlopen(ARCHIVE.format(version("distributed")), timeout=PATIENCE) as answer:
        archive = io.BytesIO(answer.read())
    with tarfile.open(fileobj=archive) as sources:
        top = sources.getnames()[0].partition("/")[0]
        members = {name: sources.extractfile(f"{top}/{name}") for name in NEEDED}
        return {name: member.read() for name, member in members.items() if member is not None}


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"the tests of Dask's distributed are left out: {error}; DISTRIBUTED_SOURCES=FOLDER names a copy")
