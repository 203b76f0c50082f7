"""What a wheel must hold, and what it must not, without running it."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile

from distribution.release.toolchain import ROOT, Machine

#: Bytes: a wheel as it is downloaded, and all of its files.
MOST_PACKED, MOST_INSTALLED = 15_000_000, 45_000_000
LIBRARIES = {
    "phalanx/_mpi/libmpi_abi.so.1",
    "phalanx/_mpi/libmpi.so.12",
    "phalanx/_mpi/libmpich.so.12",
    "phalanx/_mpi/libphalanx_bsp.so",
}
FILES = {"phalanx/_mpi/include/mpi.h", "phalanx/_mpi/include/bsp.h", "phalanx/py.typed", "phalanx/_native.pyi"}
LICENCES = {"licenses/LICENSE-MIT", "licenses/LICENSE-APACHE", "licenses/THIRD-PARTY-LICENSES.txt"}
BILL = "sboms/phalanx-grid.cdx.json"
MAN = "data/share/man/man1/phalanx.1"


class Flaw(Exception):
    """What is wrong with a wheel."""


def inspect(wheel: Path, machine: Machine) -> list[str]:
    """The names of all checks, which have passed. Raises Flaw."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    about = next(name for name in files if name.endswith(".dist-info/RECORD")).removesuffix("RECORD")
    _sizes(wheel, files)
    _complete(files, about)
    _recorded(files, about)
    _stripped(files)
    _bill(json.loads(files[about + BILL]), files)
    _licences(files[about + "licenses/THIRD-PARTY-LICENSES.txt"].decode(), json.loads(files[about + BILL]))
    _old_systems(wheel, machine)
    _tool("twine", "check", "--strict", str(wheel))
    passed = ["complete", "stripped", "sbom", "licences", machine.tag, "twine"]
    if "-abi3-" in wheel.name:
        _tool("abi3audit", "--strict", str(wheel))
        passed.append("abi3audit")
    return passed


def installed_size(wheel: Path) -> int:
    """The bytes of all files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(info.file_size for info in archive.infolist())


def is_library(path: str) -> bool:
    """Whether a path in a wheel is that of a library."""
    return ".so" in Path(path).suffixes


def _sizes(wheel: Path, files: dict[str, bytes]) -> None:
    packed, installed = wheel.stat().st_size, sum(map(len, files.values()))
    if packed > MOST_PACKED or installed > MOST_INSTALLED:
        raise Flaw(f"{packed} bytes, {installed} installed: the most are {MOST_PACKED} and {MOST_INSTALLED}")


def _complete(files: dict[str, bytes], about: str) -> None:
    expected = LIBRARIES | FILES | {about + it for it in LICENCES | {BILL}}
    expected.add(about.replace(".dist-info", ".data") + MAN)
    if missing := expected - set(files):
        raise Flaw(f"without {', '.join(sorted(missing))}")
    natives = {name for name in files if is_library(name)} - LIBRARIES
    if len(natives) != 1:
        raise Flaw(f"one extension is expected, and there are: {', '.join(sorted(natives))}")


def _recorded(files: dict[str, bytes], about: str) -> None:
    record = files[about + "RECORD"].decode().splitlines()
    told = {path: (digest, size) for path, digest, size in (line.rsplit(",", 2) for line in record)}
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if path != about + "RECORD" and told.get(path) != (f"sha256={digest}", str(len(content))):
            raise Flaw(f"RECORD tells something else of {path}")
    if set(told) != set(files):
        raise Flaw(f"RECORD and the wheel differ: {set(told) ^ set(files)}")


def _stripped(files: dict[str, bytes]) -> None:
    """No symbols for debuggers, and no folder of the machine that built it."""
    import io

    private = [str(ROOT).encode(), str(Path.home()).encode() + b"/"]
    for path in filter(is_library, files):
        sections = {section.name for section in ELFFile(io.BytesIO(files[path])).iter_sections()}
        if extra := sections & {".symtab", ".debug_info", ".debug_line"}:
            raise Flaw(f"{path} has {', '.join(sorted(extra))}")
        if found := [it for it in private if it in files[path]]:
            raise Flaw(f"{path} names folders of this machine: {found[0].decode()}")


def _bill(bill: dict[str, object], files: dict[str, bytes]) -> None:
    """The bill of materials is valid CycloneDX. It lists all libraries as they are, and the crates of each."""
    if error := JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(bill)):
        raise Flaw(f"the bill of materials is not valid: {error}")
    components = {it["bom-ref"]: it for it in bill["components"]}  # type: ignore[attr-defined]
    edges = {it["ref"]: it["dependsOn"] for it in bill["dependencies"]}  # type: ignore[attr-defined]
    for path in filter(is_library, files):
        found = components.get(path, {}).get("hashes", [{}])[0].get("content")
        if found != hashlib.sha256(files[path]).hexdigest():
            raise Flaw(f"the bill of materials lists another {path}")
        if "pkg:cargo/ring@" not in " ".join(_reached(path, edges)):
            raise Flaw(f"the bill of materials does not say that {path} contains ring")


def _reached(ref: str, edges: dict[str, list[str]]) -> set[str]:
    seen, todo = set(), [ref]
    while todo:
        if (it := todo.pop()) not in seen:
            seen.add(it)
            todo += edges.get(it, [])
    return seen


def _licences(text: str, bill: dict[str, object]) -> None:
    """Every crate of others that the bill lists is in the text of licences."""
    for it in _crates_of_others(bill):
        if f"\n{it['name']} {it['version']}: " not in text:
            raise Flaw(f"{it['name']} {it['version']} is not among the licences")


def _crates_of_others(bill: dict[str, object]) -> Iterator[dict[str, str]]:
    for it in bill["components"]:  # type: ignore[attr-defined]
        if it.get("purl", "").startswith("pkg:cargo/") and not it["name"].startswith("phalanx-"):
            yield it


def _old_systems(wheel: Path, machine: Machine) -> None:
    """All libraries run with an old glibc, and need no other library of the system."""
    told = json.loads(_tool("auditwheel", "show", "--json", str(wheel)))
    if told["sym_tag"] != machine.tag or told["overall_tag"] != machine.tag or told["external_libs"]:
        raise Flaw(f"auditwheel calls it {told['overall_tag']}, and not {machine.tag}: {told['external_libs']}")


def _tool(name: str, *arguments: str) -> str:
    command = [str(Path(sys.executable).with_name(name)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Flaw(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout
