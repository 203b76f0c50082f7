"""Commands of message passing programs: the files and variables that they need, and where they run."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from phalanx.errors import LaunchError, PhalanxError

#: The folder of the libraries that programs are linked against and that mpi4py loads.
LIBRARIES = Path(__file__).with_name("_mpi")
#: Commands that an executor runs with its own Python.
PYTHONS = ("python", "python3")
MOST = 65536


@dataclass
class Program:
    """A command and its number of processes. None: as many as there are places."""

    processes: int | None
    command: list[str]


def library_variables() -> dict[str, str]:
    """The environment variables by which a program on this machine finds the library."""
    path = [str(LIBRARIES), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"MPI4PY_LIBMPI": str(LIBRARIES / "libmpi.so.12"), "LD_LIBRARY_PATH": os.pathsep.join(path)}


def asked_variables(asked: Iterable[str]) -> dict[str, str]:
    """The variables of ``--env``: ``NAME=VALUE``, or ``NAME`` for what it is here. Raises LaunchError."""
    found = {} if "PYTHONUNBUFFERED" in os.environ else {"PYTHONUNBUFFERED": "1"}  # so that output appears at once
    return found | named_variables(asked, LaunchError)


def named_variables(words: Iterable[str], wrong: type[PhalanxError]) -> dict[str, str]:
    """The variables of ``NAME=VALUE``, or ``NAME`` for what it is here, as far as they are set. Raises ``wrong``."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise wrong(f"--env {word}: write NAME=VALUE, or NAME")
        if equals or name in os.environ:
            found[name] = value if equals else os.environ[name]
    return found


def read_programs(processes: int | None, words: Sequence[str]) -> list[Program]:
    """The programs between colons: ``./a : -n 2 ./b``. Those of the first were read before. Raises LaunchError."""
    first, *others = _between_colons(words)
    programs = [Program(processes, first)]
    for command in others:
        count = 1
        if command[:1] in (["-n"], ["-np"]):
            number = command[1] if len(command) > 1 else ""
            if not re.fullmatch("[0-9]{1,5}", number) or not 1 <= int(number) <= MOST:
                raise LaunchError(f"behind {command[0]} comes a number of processes, from 1 to {MOST}")
            count, command = int(number), command[2:]
        programs.append(Program(count, command))
    if any(not program.command or program.command[0].startswith("-") for program in programs):
        raise LaunchError("between colons comes: -n NUMBER PROGRAM ARGUMENTS")
    return programs


def _between_colons(words: Sequence[str]) -> Iterator[list[str]]:
    rest = list(words)
    while ":" in rest:
        at = rest.index(":")
        yield rest[:at]
        rest = rest[at + 1 :]
    yield rest


def find_here(command: list[str], folder: Path) -> list[str]:
    """A command with its program where it is on this machine, seen from ``folder``. A script of Python need not be
    executable. Raises LaunchError."""
    program, *arguments = command
    path = _which(program, folder)
    if path is None and _is_script(program, folder):
        return [sys.executable, _seen(program, folder), *arguments]
    # The Python of an environment that is not activated. In a job, that of PATH may be outside of the cage.
    if program in PYTHONS and (path is None or "PHALANX_JOB" in os.environ):
        path = sys.executable
    if path is None:
        raise LaunchError(
            f"the program {program} {'may not be executed' if (folder / program).is_file() else 'is not found'}"
        )
    return [path, *arguments]


def _which(program: str, folder: Path) -> str | None:
    return shutil.which(_seen(program, folder) if "/" in program else program)


def _seen(program: str, folder: Path) -> str:
    """A path below ``folder``, as a process here finds it: as it was written where that is the current folder."""
    return program if folder == Path.cwd() else str(folder / program)


def stage(command: list[str], files: dict[str, Path], folder: Path) -> list[str]:
    """A command as executors run it, in the folder of its files.

    The program, or the script behind it, is added to ``files``: paths on this machine, by their names at the executor.
    The executor looks for a program that is neither a file nor a folder here. Raises LaunchError.
    """
    if _is_script(command[0], folder):
        command = ["python", *command]
    program, *arguments = command
    if "/" in program:
        if _which(program, folder) is None:
            find_here(command, folder)  # raises the error that says what is wrong
        return ["./" + add_file(program, files, folder), *arguments]
    script = next((word for word in arguments if not word.startswith("-")), None)
    if script is not None and arguments[0] == script and (folder / script).is_file():
        arguments[0] = add_file(script, files, folder)
    return [program, *arguments]


def stage_all(
    programs: Sequence[Program], files: Sequence[str], folder: Path
) -> tuple[list[list[str]], dict[str, Path]]:
    """The commands of programs as executors run them, and the files that they need. Raises LaunchError."""
    staged: dict[str, Path] = {}
    for word in files:
        add_file(word, staged, folder)
    return [stage(program.command, staged, folder) for program in programs], staged


def add_file(word: str, files: dict[str, Path], base: Path) -> str:
    """Adds a file, or what is in a folder; its name there: the same below ``base``, else its last part.

    Raises LaunchError."""
    path = base / word
    name = _name(path, base)
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if inner.is_file():
                _add(str(Path(name) / inner.relative_to(path)), inner, files)
    elif path.is_file():
        _add(name, path, files)
    else:
        raise LaunchError(f"the file {word} is not found")
    return name


def _add(name: str, path: Path, files: dict[str, Path]) -> None:
    if files.setdefault(name, path).resolve() != path.resolve():
        raise LaunchError(f"{files[name]} and {path} would both be called {name} on the executors")


def _name(path: Path, base: Path) -> str:
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 names, not what links lead to
    try:
        name = absolute.relative_to(base)
    except ValueError:
        name = Path(absolute.name)
    return str(name)


def _is_script(word: str, folder: Path) -> bool:
    return word.endswith(".py") and (folder / word).is_file()
