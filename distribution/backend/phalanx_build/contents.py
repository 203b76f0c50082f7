"""What is added to maturin's wheel."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from phalanx_build import crates, libraries, materials, notices

FOLDER = "phalanx/_mpi"
HEADERS = ("crates/phalanx-mpi/include/mpi.h", "crates/phalanx-bsp/include/bsp.h")


@dataclass(frozen=True)
class Contents:
    """Files of the package by their paths, and the crates that libraries are made of."""

    files: dict[str, bytes]
    crates: list[crates.Crate]

    def about(self, version: str, extension: dict[str, bytes]) -> dict[str, bytes]:
        """The texts beside the metadata: licences, and a bill that also covers the extension."""
        built = extension | {path: content for path, content in self.files.items() if is_library(path)}
        return {
            f"licenses/{notices.NAME}": notices.text(self.crates).encode(),
            f"sboms/{materials.NAME}": materials.bill(version, self.crates, built).encode(),
        }


def is_library(path: str) -> bool:
    """Whether a path in a wheel is that of a library."""
    return ".so" in Path(path).suffixes


def collect(root: Path, options: libraries.Options) -> Contents:
    """Builds and reads everything that is added for a machine."""
    placed = interfaces(root, options)
    files = {path: source.read_bytes() for path, source in placed.items()}
    with tempfile.TemporaryDirectory() as folder:
        mpich = placed[f"{FOLDER}/{libraries.CRATES['phalanx-mpi-mpich']}"]
        debian = libraries.link_debian_name(mpich, options, Path(folder))
        files[f"{FOLDER}/{debian.name}"] = debian.read_bytes()
    return Contents(files, crates.read(root, options))


def interfaces(root: Path, options: libraries.Options) -> dict[str, Path]:
    """Builds the libraries of MPI and BSP; returns where they and their headers are, by their paths in the wheel."""
    built = {f"{FOLDER}/{name}": path for name, path in libraries.build(root, options).items()}
    return built | {f"{FOLDER}/include/{Path(header).name}": root / header for header in HEADERS}
