"""What was measured, and on what."""

from __future__ import annotations

import os
import platform
from importlib import metadata

#: How phalanx is called on PyPI.
_DISTRIBUTION = "phalanx-grid"
_PACKAGES = ("phalanx", "dask", "distributed", "ray", "parsl", "numpy", "trustme", "redis", "hiredis")


def versions() -> dict[str, str]:
    """Return the versions of Python and of every peer that is installed, and the machine."""
    found = {
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}",
    }
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(_DISTRIBUTION if package == "phalanx" else package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
