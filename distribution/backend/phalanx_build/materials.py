"""The bill of materials (CycloneDX, PEP 770): every library of the wheel, and the crates of which it is made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from phalanx_build.crates import EXTENSION, Crate, rustc
from phalanx_build.libraries import CRATES, DEBIAN

NAME = "phalanx-grid.cdx.json"
#: The licence of phalanx, which is also that of Rust's standard library.
OWN = "MIT OR Apache-2.0"
#: The crate of each library, by the library's name; Debian's name only loads another library.
_CRATE_OF = {library: crate for crate, library in CRATES.items()}


def bill(version: str, crates: Iterable[Crate], libraries: Mapping[str, bytes]) -> str:
    """The bill for some libraries, which are given by their paths in the wheel."""
    crates, libraries = [*crates], dict(sorted(libraries.items()))  # cargo names them in the order in which they end
    purl = f"pkg:pypi/phalanx-grid@{version}"
    standard = _standard_library()
    components = [_file(path, content) for path, content in libraries.items()]
    components += [_component(crate) for crate in crates] + [standard]
    edges: dict[str, list[str]] = {purl: [*libraries], **{crate.purl: [*crate.needs] for crate in crates}}
    edges |= {path: _made_of(path, [*libraries], crates, standard["purl"]) for path in libraries}
    told = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _library(purl, "phalanx-grid", version) | _licences(OWN)},
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": needs} for ref, needs in edges.items()],
    }
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def _made_of(path: str, paths: list[str], crates: list[Crate], standard: str) -> list[str]:
    name = Path(path).name
    if name == DEBIAN:
        return [it for it in paths if Path(it).name == CRATES["phalanx-mpi-mpich"]]
    crate = _CRATE_OF.get(name, EXTENSION)
    return [*(it.purl for it in crates if it.name == crate), standard]


def _file(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "bom-ref": path, "name": path} | _hash(hashlib.sha256(content).hexdigest())


def _component(crate: Crate) -> dict[str, Any]:
    told = _library(crate.purl, crate.name, crate.version) | _licences(crate.licence)
    if crate.checksum:
        told |= _hash(crate.checksum)
    if crate.repository:
        told["externalReferences"] = [{"type": "vcs", "url": crate.repository}]
    return told


def _standard_library() -> dict[str, Any]:
    """Rust's own library, which is linked into each of ours."""
    release = rustc("release")
    purl = f"pkg:generic/rust-std@{release}"
    return _library(purl, "rust-std", release) | _licences(OWN)


def _library(purl: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _licences(expression: str) -> dict[str, Any]:
    return {"licenses": [{"expression": expression}]}


def _hash(sha256: str) -> dict[str, Any]:
    return {"hashes": [{"alg": "SHA-256", "content": sha256}]}
