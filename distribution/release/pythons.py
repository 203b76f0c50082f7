"""The Pythons in which wheels are tried out: those of this machine, and those of other Debians."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from distribution.release.roots import Root

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: Debians that have a Python which this machine may lack. None has 3.10 any more.
ROOTS = {
    "3.11": Root("amd64", "bookworm", "python3.11"),
    "3.13": Root("amd64", "trixie", "python3.13"),
    "3.14": Root("amd64", "sid", "python3.14"),
}
#: What runs wheels for aarch64.
EMULATED = Root("arm64", "bookworm", "python3.11")
_ASK = (
    "import json, platform, sys; "
    "print(json.dumps([platform.python_implementation(), '%d.%d' % sys.version_info[:2], sys.base_prefix]))"
)


def find(version: str) -> Path | None:
    """CPython of a version on this machine, that of no environment."""
    places = [Path(it) for it in [shutil.which(f"python{version}")] if it]
    # The folders of pyenv and of uv, which are in nobody's PATH.
    for folder in (Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"):
        places += sorted(folder.glob(f"*/bin/python{version}"))
    return next((place for place in places if _is(place, version)), None)


def _is(python: Path, version: str) -> bool:
    done = subprocess.run([python, "-c", _ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.returncode == 0 and json.loads(done.stdout)[:2] == ["CPython", version]
