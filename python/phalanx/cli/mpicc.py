"""``phalanx mpicc``, ``phalanx mpicxx`` and ``phalanx bspcc``: the C and C++ compilers, told where MPI and BSP are."""

from __future__ import annotations

import os
import shlex
import shutil

import click

from phalanx._commands import LIBRARIES
from phalanx.cli._examples import examples
from phalanx.errors import PhalanxError

MPI, BSP = "libmpi_abi.so.1", "libphalanx_bsp.so"
#: With one of these nothing is linked.
NOT_LINKED = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"}
SHOW = {"-show", "--show", "-showme", "--showme"}


def compiler_command(compiler: str, arguments: list[str], library_name: str = MPI) -> list[str]:
    """What is run to compile: the compiler with the headers, and with the library where something is linked."""
    header, library = LIBRARIES / "include", LIBRARIES / library_name
    if not library.exists():
        raise PhalanxError(f"{library} does not exist: this phalanx was built without MPI; `make setup` builds it")
    command = [compiler, f"-I{header}", *arguments]
    inputs = [argument for argument in arguments if not argument.startswith("-")]
    if inputs and not NOT_LINKED.intersection(arguments):
        # The path to run with is that of this installation; `phalanx mpirun` and LD_LIBRARY_PATH say another.
        command += [str(library), f"-Wl,-rpath,{LIBRARIES}"]
    return command


def _compile(compiler: str, arguments: tuple[str, ...], library_name: str = MPI) -> None:
    chosen = [argument.split("=", 1)[1] for argument in arguments if argument.startswith(("-cc=", "-cxx="))]
    compiler = chosen[-1] if chosen else compiler
    rest = [argument for argument in arguments if argument not in SHOW and not argument.startswith(("-cc=", "-cxx="))]
    command = compiler_command(compiler, rest, library_name)
    if SHOW.intersection(arguments):
        click.echo(shlex.join(command))
        return
    if shutil.which(compiler) is None:
        raise PhalanxError(f"there is no compiler {compiler!r}: install one, or name yours with -cc=NAME")
    os.execvp(command[0], command)


SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}


@click.command(
    context_settings=SETTINGS, epilog=examples("phalanx mpicc -O2 -o ring ring.c", "phalanx mpicc -show -c ring.c")
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[COMPILER'S ARGUMENTS]...")
def mpicc(arguments: tuple[str, ...]) -> None:
    """Compile a C program that uses MPI.

    It calls cc, or the compiler NAME with -cc=NAME. -show prints the command without running it. The program runs with
    `phalanx mpirun`, and with every MPI library that has the standard's binary interface.
    """
    _compile("cc", arguments)


@click.command(
    context_settings=SETTINGS,
    epilog=examples("phalanx mpicxx -O2 -o ring ring.cpp", "phalanx mpicxx -cc=clang++ -c ring.cpp"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[COMPILER'S ARGUMENTS]...")
def mpicxx(arguments: tuple[str, ...]) -> None:
    """Compile a C++ program that uses MPI.

    It calls c++, or the compiler NAME with -cc=NAME. Otherwise it works like `phalanx mpicc`.
    """
    _compile("c++", arguments)


@click.command(
    context_settings=SETTINGS, epilog=examples("phalanx bspcc -O2 -o shift shift.c", "phalanx bspcc -show -c shift.c")
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[COMPILER'S ARGUMENTS]...")
def bspcc(arguments: tuple[str, ...]) -> None:
    """Compile a C program that uses BSPlib.

    It works like `phalanx mpicc`. The program runs with `phalanx bsprun`.
    """
    _compile("cc", arguments, BSP)
