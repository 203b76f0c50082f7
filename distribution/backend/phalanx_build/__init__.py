"""The build backend of phalanx: maturin's wheel, made complete.

maturin builds the extension `phalanx._native` and packs it with the Python sources. The libraries of MPI and BSP are
other crates, which it does not know. This backend builds them with the same settings, and adds them to the wheel. It
also adds their headers, the licences of all crates, and a bill of materials. pip, uv and `make dist` call this
backend, and get the same wheel.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maturin
from maturin import build_sdist, get_requires_for_build_sdist, prepare_metadata_for_build_wheel

from phalanx_build import contents, libraries, needs, wheels

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
# maturin would say that it is not the backend.
os.environ.setdefault("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1")
#: Backends are called in the folder of pyproject.toml.
ROOT = Path()
Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Nothing: Rust and a C compiler cannot be installed by pip. Exits with words if they are not there."""
    needs.check()
    return []


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """The requirements of an editable installation: those of a wheel."""
    return get_requires_for_build_wheel(config_settings)


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the complete wheel; returns its name."""
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    wheel = Path(wheel_directory, name)
    incomplete = wheel.rename(wheel.with_suffix(".incomplete"))
    try:
        options = libraries.Options.read(maturin.get_maturin_pep517_args(config_settings))
        wheels.complete(incomplete, wheel, contents.collect(ROOT, options))
    finally:
        incomplete.unlink()
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Builds the extension and the libraries into the sources; returns the name of a wheel that leads there."""
    name: str = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    options = libraries.Options.read(maturin.get_maturin_pep517_args(config_settings), profile="release")
    for path, source in contents.interfaces(ROOT, options).items():
        target = ROOT / "python" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # a process that runs the old library keeps it
        shutil.copyfile(source, target)
    debian = ROOT / "python" / contents.FOLDER / libraries.DEBIAN
    debian.unlink(missing_ok=True)
    debian.symlink_to(libraries.CRATES["phalanx-mpi-mpich"])
    return name
