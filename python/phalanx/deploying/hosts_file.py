"""A machine's line in a hosts file, ``NAME = address:port``: written when it is deployed, removed with it."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from phalanx.errors import DeployError, RecruitError
from phalanx.hosts import Hosts

_NAMED = re.compile(r"\s*(?P<name>[\w.-]+)\s*=[^#]*?(?P<comment>\s*#.*)?")


def add(file: Path, name: str, address: str) -> bool:
    """Writes the line of a machine, in place of one with its name.

    Parameters
    ----------
    file
        The hosts file; it is made if there is none.
    name, address
        The machine, and ``host:port``.

    Returns
    -------
    bool
        Whether the file changed.

    Raises
    ------
    DeployError
        The file cannot be written, or would be none with the line.
    """
    lines = _read(file)
    kept = [line for line in lines if _name(line) != name]
    before = [number for number, line in enumerate(lines) if _name(line) == name]
    comment = _comment(lines[before[0]]) if before else ""
    kept.insert(before[0] if before else len(kept), f"{name} = {address}{comment}")
    return _replace(file, lines, kept)


def address(file: Path, name: str) -> str:
    """The address of a machine in a hosts file; empty if there is none of that name."""
    lines = [line for line in _read(file) if _name(line) == name]
    return Hosts.of([lines[0].partition("#")[0].strip()]).addresses[0] if lines else ""


def remove(file: Path, name: str) -> bool:
    """Removes the line of a machine, and a file without further lines; returns whether there was one."""
    lines = _read(file)
    kept = [line for line in lines if _name(line) != name]
    if any(line.strip() for line in kept) or not lines:
        return _replace(file, lines, kept, checks=False)
    file.unlink()
    return True


def _read(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise DeployError(f"the hosts file {file} cannot be read: {error}") from None


def _name(line: str) -> str:
    match = _NAMED.fullmatch(line)
    return match["name"] if match else ""


def _comment(line: str) -> str:
    match = _NAMED.fullmatch(line)
    return (match["comment"] or "") if match else ""


def _replace(file: Path, before: list[str], lines: list[str], *, checks: bool = True) -> bool:
    if lines == before:
        return False
    target = file.resolve()
    try:
        descriptor, new = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                opened.write("".join(f"{line}\n" for line in lines))
            if checks:
                Hosts(new)
            Path(new).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o644)
            Path(new).replace(target)
        finally:
            with suppress(FileNotFoundError):
                Path(new).unlink()
    except RecruitError as error:
        said = str(error).replace(new, str(file))
        raise DeployError(f"{file} would be no hosts file with the line {lines[-1]!r}: {said}") from None
    except OSError as error:
        raise DeployError(f"the hosts file {file} cannot be written: {error}") from None
    return True
