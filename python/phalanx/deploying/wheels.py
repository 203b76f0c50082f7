"""Which wheels go to a machine: that of phalanx which fits it, and those of the libraries that phalanx needs.

The wheels come from a file or folder that the user names. By default they come from this installation. One in a source
tree takes those in ``dist`` of this tree. An installed distribution is packed again: its record names its files, and
its tags say where it runs.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from phalanx.errors import DeployError

NAME = "phalanx-grid"
#: Where ``make dist`` puts wheels, if this installation is a source tree.
_DIST = Path(__file__).parents[3] / "dist"
_WHEEL = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<pythons>[^-]+)-(?P<abis>[^-]+)-(?P<platforms>[^-]+)\.whl"
)
_MANYLINUX = re.compile(r"manylinux_2_(?P<glibc>\d+)_(?P<machine>\w+)")
#: Names of older rules for the versions of glibc.
_OLDER_GLIBC = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: Files of an installation that are no part of its wheel.
_NOT_OF_WHEEL = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
#: The oldest time that a zip file can tell: wheels of equal files are equal.
_TIME = (1980, 1, 1, 0, 0, 0)


class Machine(NamedTuple):
    """What decides whether a wheel fits: the version of Python, the kind of processor, and the version of glibc.

    ``glibc`` is empty where another C library is.
    """

    python: tuple[int, int]
    kind: str
    glibc: str

    def __str__(self) -> str:
        glibc = f"glibc {self.glibc}" if self.glibc else "no glibc"
        return f"Python {self.python[0]}.{self.python[1]}, {self.kind}, {glibc}"


class Bundle(NamedTuple):
    """The wheels for a machine. ``needs_index``: some libraries are missing, and come from a package index there."""

    version: str
    files: list[Path]
    needs_index: bool

    @property
    def digest(self) -> str:
        """The digest of all files: equal bundles make equal environments."""
        digest = hashlib.sha256(str(self.needs_index).encode())
        for file in sorted(self.files):
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        return digest.hexdigest()


def bundle(wheel: Path | None, machine: Machine, folder: Path) -> Bundle:
    """The wheels for a machine.

    Parameters
    ----------
    wheel
        A wheel of phalanx, or a folder of wheels. None: those of this installation, or of ``dist`` in its source tree.
    machine
        Where they are to run.
    folder
        Where wheels may be made.

    Raises
    ------
    DeployError
        No wheel of phalanx fits.
    """
    own = packed(NAME, folder) if wheel is None else None
    place = wheel or _DIST
    named = [own] if own else [place] if place.is_file() else sorted(place.glob("*.whl"))
    candidates = [it for it in named if _is_of(it, NAME)]
    fitting = [it for it in candidates if fits(it.name, machine)]
    if not fitting:
        raise DeployError(_none(wheel, candidates, machine))
    chosen = max(fitting, key=lambda it: _numbers(_field(it, "version")))
    beside = [it for it in named if fits(it.name, machine) and not _is_of(it, NAME)]
    libraries, missing = _libraries(chosen, beside, machine, folder)
    return Bundle(_field(chosen, "version"), [chosen, *libraries], missing)


def fits(name: str, machine: Machine) -> bool:
    """Whether a wheel of this file name runs on a machine.

    Example
    -------
    >>> fits("phalanx_grid-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl", Machine((3, 13), "x86_64", "2.36"))
    True
    """
    match = _WHEEL.fullmatch(name)
    if match is None:
        return False
    pythons, abis, platforms = (match[part].split(".") for part in ("pythons", "abis", "platforms"))
    return any(_is_python(python, abi, machine) for python in pythons for abi in abis) and any(
        _is_platform(platform, machine) for platform in platforms
    )


def _is_python(python: str, abi: str, machine: Machine) -> bool:
    major, minor = machine.python
    if python in (f"py{major}", f"py{major}{minor}"):
        return abi == "none"
    if abi == "abi3":
        found = re.fullmatch(rf"cp{major}(\d+)", python)
        return found is not None and int(found[1]) <= minor
    return python == f"cp{major}{minor}" and abi in (python, "none")


def _is_platform(platform: str, machine: Machine) -> bool:
    if platform in ("any", f"linux_{machine.kind}"):
        return True
    older, _, kind = platform.partition("_")
    match = _MANYLINUX.fullmatch(platform)
    needed = int(match["glibc"]) if match else _OLDER_GLIBC.get(older)
    kind = match["machine"] if match else kind
    return needed is not None and kind == machine.kind and _numbers(machine.glibc) >= (2, needed)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _none(wheel: Path | None, candidates: list[Path], machine: Machine) -> str:
    where = f"this installation or {_DIST}" if wheel is None else str(wheel)
    found = f"only {', '.join(it.name for it in candidates)}" if candidates else "none at all"
    python = f"{machine.python[0]}.{machine.python[1]}"
    ask = f"pip download --dest wheels --only-binary :all: --platform manylinux_2_28_{machine.kind} --python-version"
    advice = f"make one with: make dist; or collect them with: {ask} {python} {NAME}; then name the folder with --wheel"
    return f"no wheel of {NAME} for {machine} is in {where} ({found}); {advice}"


def _is_of(wheel: Path, name: str) -> bool:
    match = _WHEEL.fullmatch(wheel.name)
    return match is not None and _plain(match["name"]) == _plain(name)


def _field(wheel: Path, part: str) -> str:
    match = _WHEEL.fullmatch(wheel.name)
    return match[part] if match else ""


def _plain(name: str) -> str:
    """The name of a distribution, as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _libraries(wheel: Path, beside: list[Path], machine: Machine, folder: Path) -> tuple[list[Path], bool]:
    """The wheels of all libraries that a wheel needs; and whether some are missing.

    They are those beside it, or those that are installed here if they run everywhere.
    """
    todo, found, missing = _required(_metadata(wheel)), dict[str, Path](), False
    while todo:
        name = todo.pop()
        if name in found:
            continue
        named = [it for it in beside if _is_of(it, name)]
        library = named[-1] if named else packed(name, folder)
        if library is None or not fits(library.name, machine):
            # What is not installed here need not be: markers say for which systems and versions it is.
            missing = missing or library is not None or _is_installed(name)
            continue
        found[name] = library
        todo += _required(_metadata(library))
    return list(found.values()), missing


def _metadata(wheel: Path) -> list[str]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            [name] = [it for it in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", it)]
            text = archive.read(name).decode()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DeployError(f"{wheel} is no wheel: {error}") from None
    head = text.partition("\n\n")[0]
    return [line.partition(":")[2].strip() for line in head.splitlines() if line.startswith("Requires-Dist:")]


def _required(requirements: Iterable[str]) -> list[str]:
    """The names in requirements, without those of extras."""
    named = [_REQUIREMENT.match(it) for it in requirements if "extra" not in it.partition(";")[2]]
    return [_plain(match[0]) for match in named if match]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def packed(name: str, folder: Path) -> Path | None:
    """The wheel of an installed distribution, packed again in a folder.

    None if it is not installed, is installed from a source tree, or has no record of its files.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    info, tags = _info(found), re.findall(r"^Tag: *(\S+)-(\S+)-(\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    files = dict(_files(found, info)) if info and tags else {}
    has_code = any(not it.startswith(f"{info}/") and not it.endswith(".pth") for it in files)
    if not has_code or any("/" not in it and it.endswith(".pth") for it in files):
        return None
    parts = (".".join(dict.fromkeys(column)) for column in zip(*tags, strict=True))
    wheel = folder / f"{info.removesuffix('.dist-info')}-{'-'.join(parts)}.whl"
    if not wheel.exists():
        _pack(wheel, info, files)
    return wheel


def _info(found: Distribution) -> str:
    """The name of the folder with the metadata of a distribution."""
    named = (it.parts[0] for it in found.files or [] if len(it.parts) == 2 and it.name == "METADATA")
    return next((it for it in named if it.endswith(".dist-info")), "")


def _files(found: Distribution, info: str) -> Iterator[tuple[str, Path]]:
    """The files of a distribution by their paths in its wheel."""
    for it in found.files or []:
        path, place = PurePosixPath(it), Path(str(it.locate()))
        if path.suffix == ".pyc" or (path.parts[0] == info and path.name in _NOT_OF_WHEEL):
            continue
        if path.parts[0] == "..":
            # Scripts are made from the entry points. What else is outside belongs into the folder of the environment.
            outside = [part for part in path.parts if part != ".."]
            if outside[0] == "share":
                yield f"{info.removesuffix('.dist-info')}.data/data/{'/'.join(outside)}", place
        elif place.is_file():
            yield str(path), place


def _pack(wheel: Path, info: str, files: dict[str, Path]) -> None:
    record = []
    new = wheel.with_suffix(".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, place in sorted(files.items()):
            data = place.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
            archive.writestr(_entry(path, place.stat().st_mode), data)
        archive.writestr(_entry(f"{info}/RECORD", 0o644), "".join([*record, f"{info}/RECORD,,\n"]))
    new.replace(wheel)


def _entry(path: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if mode & 0o100 else 0o100644) << 16
    return entry
