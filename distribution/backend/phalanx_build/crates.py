"""The crates that libraries are made of, as `cargo metadata` and `Cargo.lock` tell."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phalanx_build.libraries import CRATES, Options

EXTENSION = "phalanx-py"


@dataclass(frozen=True)
class Crate:
    """A crate, and the names of those of which it is made."""

    name: str
    version: str
    licence: str
    folder: Path
    checksum: str | None
    repository: str | None
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its name in bills of materials."""
        return f"pkg:cargo/{self.name}@{self.version}"


def rustc(field: str) -> str:
    """What `rustc -vV` prints for a field: ``host`` is the machine that cargo builds for by default."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line.removeprefix(f"{field}: ") for line in told.splitlines() if line.startswith(f"{field}: "))


def read(root: Path, options: Options) -> list[Crate]:
    """The crates of all libraries for a machine, with those that run while they are built. Sorted."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += ["--filter-platform", options.target or rustc("host")]
    told = json.loads(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node["deps"] for node in told["resolve"]["nodes"]}
    roots = [id for id, package in packages.items() if package["name"] in {*CRATES, EXTENSION}]
    sums = checksums((root / "Cargo.lock").read_text())
    found = {id: _needed(nodes[id]) for id in _reached(roots, nodes)}
    crates = (_crate(packages[id], [packages[it] for it in needed], sums) for id, needed in found.items())
    return sorted(crates, key=lambda crate: (crate.name, crate.version))


def _reached(roots: Iterable[str], nodes: dict[str, list[dict[str, object]]]) -> set[str]:
    seen: set[str] = set()
    todo = [*roots]
    while todo:
        id = todo.pop()
        if id not in seen:
            seen.add(id)
            todo += _needed(nodes[id])
    return seen


def _needed(dependencies: list[dict[str, object]]) -> list[str]:
    """What a crate is built of; not what its tests need."""
    return [str(it["pkg"]) for it in dependencies if any(kind["kind"] != "dev" for kind in it["dep_kinds"])]  # type: ignore[attr-defined]


def _crate(package: dict[str, str], needed: list[dict[str, str]], sums: dict[tuple[str, str], str]) -> Crate:
    name, version = package["name"], package["version"]
    needs = tuple(sorted(f"pkg:cargo/{it['name']}@{it['version']}" for it in needed))
    # Some crates write the old form of OR.
    licence = (package["license"] or "").replace("/", " OR ")
    folder = Path(package["manifest_path"]).parent
    return Crate(name, version, licence, folder, sums.get((name, version)), package["repository"], needs)


def checksums(lock: str) -> dict[tuple[str, str], str]:
    """The SHA-256 of each crate of a registry, by name and version."""
    pattern = r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "([0-9a-f]{64})"'
    return {(name, version): checksum for name, version, checksum in re.findall(pattern, lock)}
