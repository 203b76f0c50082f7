"""The owner's limits for users' processes on a donated machine."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from phalanx import _native
from phalanx._grids import Joined, read_settings, replace
from phalanx.errors import ContractError, IdentityError
from phalanx.requirements import read_memory
from phalanx.space import _serve

#: The options that are remembered for the next start, with their types.
NAMES = {
    "interpreters": int,
    "memory": int,
    "program_memory": int,
    "cpu": int,
    "processes": int,
    "disk": int,
    "network": str,
}
#: Where users' processes may connect to if the owner says nothing.
EVERYWHERE = "all"
#: The file of the limits, in the folder of a grid.
_FILE = "limits.json"
#: Memory that the owner keeps by default: one part in ``_RESERVE``, and at least ``_LEAST`` bytes.
_RESERVE, _LEAST = 10, 1 << 30
#: The lowest limit for memory or disk, in bytes. An interpreter without any library has about 20 MB.
_LEAST_SIZE = 64 << 20


def size(word: str) -> int:
    """The bytes in a word like ``8GB``. Raises ValueError."""
    try:
        found = read_memory(word)
    except ContractError as error:
        raise ValueError(str(error)) from error
    if found < _LEAST_SIZE:
        raise ValueError(f"{word!r} is too little: write 64MiB or more")
    return found


def percent(word: str) -> int:
    """The number in a word like ``50%``. Raises ValueError."""
    if not re.fullmatch("[0-9]{1,3}%", word) or not 1 <= int(word[:-1]) <= 100:
        raise ValueError(f"{word!r} is no part of the processors: write one like 50%, from 1% to 100%")
    return int(word[:-1])


def before(joined: Joined) -> dict[str, Any]:
    """The limits that the owner has said at an earlier start. Raises IdentityError if their file is damaged."""
    file = joined.folder / _FILE
    told = read_settings(file)
    if told is None:
        return {}
    if not isinstance(told, dict) or any(type(value) is not NAMES.get(name) for name, value in told.items()):
        raise IdentityError(f"{file} is damaged: it has no limits; remove it, and say the limits of this machine again")
    return told


def remember(joined: Joined, said: Mapping[str, Any]) -> None:
    """Keeps the limits for the next start."""
    told = {name: value for name, value in said.items() if value is not None}
    if before(joined) != told:
        replace(joined.folder / _FILE, json.dumps(told) + "\n")


def settings(
    places: int,
    *,
    memory: int | None = None,
    program_memory: int | None = None,
    cpu: int | None = None,
    processes: int | None = None,
    disk: int | None = None,
) -> dict[str, int | None]:
    """The limits, in the form of the native core.

    Parameters
    ----------
    places
        The number of interpreters and ranks at a time.
    memory
        Bytes for all of them. None: the machine's memory without the owner's part.
    program_memory
        Bytes for each. None: an even part of ``memory``, if that is given.
    cpu
        Percent of all processors.
    processes
        Processes and threads.
    disk
        Bytes of files. None: nine tenths of the free space.
    """
    if memory is not None and program_memory is None:
        program_memory = memory // places
    return {
        "memory": memory or _left(_serve.memory()),
        "program_memory": program_memory,
        "cpu": None if cpu is None else cpu * _native.cores(),
        "processes": processes,
        "disk": disk or _free(),
        "places": places,
    }


def for_programs(memory: int | None, cpu: int | None) -> tuple[int, int]:
    """What users' programs may use of the machine, as the hub is told: whole cores, and bytes of memory.

    Parameters
    ----------
    memory, cpu
        As for :func:`settings`.
    """
    cores = _native.cores()
    return cores if cpu is None else max(1, cores * cpu // 100), min(memory or _left(_serve.memory()), _serve.memory())


def _left(memory: int) -> int:
    """The memory for users of a machine with so much memory."""
    return max(memory - max(memory // _RESERVE, _LEAST), memory // 2)


def _free() -> int | None:
    """The space for users on the disk with their programs' folders. None: the system does not report the free space."""
    with suppress(OSError):
        return max(shutil.disk_usage(tempfile.gettempdir()).free // 10 * 9, _LEAST_SIZE)
    return None
