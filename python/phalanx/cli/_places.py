"""Options of commands that run in places that an engine gives, like ``--on slurm``."""

from __future__ import annotations

import inspect
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from phalanx.cli._numbers import Count, Duration
from phalanx.errors import RecruitError

if TYPE_CHECKING:
    from phalanx.pilots import Pilot

#: The batch systems that PSI/J submits to, beside Slurm.
_OF_PSIJ = ("pbs", "pbs_classic", "lsf", "flux", "cobalt")
ENGINES = ("slurm", *_OF_PSIJ, "kubernetes", "ssh:MACHINE,...")
#: The most nodes of an engine.
_MOST_NODES = 65536
#: The longest time limit: a year.
_LONGEST = 365 * 24 * 3600
#: Signals that end the command while it waits for executors.
_ENDING = (signal.SIGTERM, signal.SIGHUP)

OPTIONS = (
    click.option(
        "--on",
        metavar="ENGINE",
        help=f"Run in places that an engine gives, in place of --hosts: {', '.join(ENGINES)}. Executors start there "
        "and end with the program.",
    ),
    click.option(
        "--nodes",
        type=Count(1, _MOST_NODES),
        help=f"With --on: the number of executors, at most {_MOST_NODES}. All are waited for. [default: 1]",
    ),
    click.option(
        "--time",
        "seconds",
        type=Duration(60, _LONGEST),
        metavar="TIME",
        help="With --on: the time limit of the places, like 90m, 12h, 2d, from 1m to 365d. [default: the engine's]",
    ),
    click.option(
        "--place",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="With --on: another option of the engine's, like partition=work, cores=8, image=lab/phalanx:1 (may be "
        "repeated).",
    ),
)


def place(on: str, nodes: int | None, seconds: int | None, settings: Sequence[str]) -> Pilot:
    """The pilot that the options name. Raises a usage error if one has no meaning for it."""
    engine, colon, words = on.partition(":")
    machines = [word for word in words.split(",") if word]
    if (engine == "ssh") != bool(colon):
        raise click.UsageError(f"--on {on}: write --on ssh:ws7,ada@ws8 with machines, and other engines without")
    kind, first = _kind(engine)
    said = dict(_setting(word) for word in settings)
    if engine == "ssh":
        if nodes is not None or seconds is not None:
            raise click.UsageError("--nodes and --time are for engines that give places; --on ssh:… names machines")
        first = (machines,)
    else:
        said["nodes"], said["at_least"] = str(nodes or 1), said.get("at_least", str(nodes or 1))
    if engine == "kubernetes":
        if "image" not in said:
            raise click.UsageError("--on kubernetes needs --place image=IMAGE: an image that has phalanx")
        first = (said.pop("image"),)
    options = _read(kind, engine, said)
    if seconds is not None:
        options["time"] = seconds / 60
    try:
        pilot: Pilot = kind(*first, **options)
    except RecruitError as error:
        raise click.UsageError(f"--on {engine}: {error}") from error
    return pilot


@contextmanager
def placed(pilot: Pilot | None) -> Iterator[None]:
    """Has an engine start the executors for the block. Signals end the wait for them, and then the executors."""
    if pilot is None:
        yield
        return
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _end)
    with pilot:
        yield


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _kind(engine: str) -> tuple[Any, tuple[Any, ...]]:
    """The class of a pilot, and its first arguments."""
    from phalanx import pilots

    if engine in _OF_PSIJ:
        return pilots.PsiJ, (engine,)
    found = {"slurm": pilots.Slurm, "ssh": pilots.Ssh, "kubernetes": pilots.Kubernetes}.get(engine)
    if found is None:
        raise click.UsageError(f"--on {engine}: there are {', '.join(ENGINES)}")
    return found, ()


def _setting(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.isidentifier():
        raise click.UsageError(f"--place {word}: write NAME=VALUE, like partition=work")
    return name, value


def _read(kind: Any, engine: str, said: dict[str, str]) -> dict[str, Any]:
    """The values of options, each of the type that its parameter has."""
    known = {
        name: str(it.annotation)
        for name, it in inspect.signature(kind).parameters.items()
        if name not in ("machines", "executor", "image", "time") and "Mapping" not in str(it.annotation)
    }
    options: dict[str, Any] = {}
    for name, value in said.items():
        if name not in known:
            given = sorted(known.keys() - {"nodes", "at_least"})
            raise click.UsageError(f"--place {name}={value}: {engine} has the options {', '.join(given)}")
        types = set(re.findall(r"\w+", known[name]))
        if "int" in types and re.fullmatch(r"[0-9]{1,9}", value):
            options[name] = int(value)
        elif "float" in types and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            options[name] = float(value)
        elif types & {"str", "StrPath", "Cage"}:
            options[name] = value
        else:
            raise click.UsageError(f"--place {name}={value}: {name} is a number")
    return options
