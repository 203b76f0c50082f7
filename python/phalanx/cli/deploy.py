"""``phalanx deploy``: executors on machines that are reached over ssh."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from phalanx import _native
from phalanx._identities import USER, home, read_private
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import IDENTITY
from phalanx.cli._numbers import Count
from phalanx.cli._streams import printable
from phalanx.cli._there import explain_at_end
from phalanx.cli._words import SSH, split_words
from phalanx.cli.grid import DAYS, PASSPHRASE, Signer
from phalanx.deploying.ssh import Gate, for_each
from phalanx.deploying.steps import Deployment, Done, Settings, name_of
from phalanx.errors import DeployError, PhalanxError
from phalanx.members import is_name


@click.command(
    epilog=examples(
        "phalanx deploy --executor '--interpreters 4' ada@labpc1 ada@labpc2",
        "phalanx deploy --ssh 'ssh -p 2222 -i ~/.ssh/lab' --name ws7 ada@10.0.0.7",
        "phalanx deploy --remove ada@labpc1",
    )
)
@click.argument("machines", metavar="[USER@]HOST...", nargs=-1, required=True)
@click.option(
    "--hosts",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("hosts.txt"),
    show_default=True,
    help="Write the machines into this hosts file, a line NAME = ADDRESS:PORT for each.",
)
@click.option(
    "--wheel",
    type=click.Path(exists=True, path_type=Path),
    help="A wheel of phalanx-grid, or a folder of wheels. [default: that of this installation; in a source tree, that "
    "in its folder dist]",
)
@click.option(
    "--name", metavar="NAME", help="The name of the only machine in the grid. [default: the first part of HOST]"
)
@click.option(
    "--address", metavar="HOST", help="Where the only machine is reached from here. [default: the host that ssh uses]"
)
@click.option(
    "--port",
    type=Count(1, 65535),
    metavar="PORT",
    default=7400,
    show_default=True,
    help="The executors' port, at most 65535.",
)
@click.option(
    "--executor",
    "words",
    default="",
    callback=split_words,
    metavar="OPTIONS",
    help="Further options of phalanx executor there, like '--interpreters 4 --export /data:ro'.",
)
@click.option(
    "--python",
    metavar="PROGRAM",
    help="The Python there. [default: the same minor version as here]",
)
@click.option(
    "--uv",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A static uv, which makes the environment there. [default: Python's venv, or a uv where that is missing]",
)
@SSH
@DAYS
@PASSPHRASE
@IDENTITY
@click.option("--remove", is_flag=True, help="Take away all that was deployed, and the lines in the hosts file.")
@click.option("--with-spaces", is_flag=True, help="With --remove: remove durable spaces too.")
def deploy(
    machines: tuple[str, ...],
    hosts: Path,
    wheel: Path | None,
    name: str | None,
    address: str | None,
    port: int,
    words: tuple[str, ...],
    python: str | None,
    uv: Path | None,
    ssh: tuple[str, ...],
    days: int,
    passphrase_file: Path | None,
    identity: Path | None,
    remove: bool,
    with_spaces: bool,
) -> int:
    """Start executors on other machines, over ssh.

    For each machine it copies the wheels that fit, makes a virtual environment, makes the machine a member of the grid
    of which you have the authority, starts the executor, waits until it answers here, and writes the hosts file. The
    private key of a machine is made there and stays there. Run it again to upgrade; where nothing changed, it does
    nothing. The executors serve you only, unless --executor has --accept for each user. Machines are worked on at the
    same time. The exit code is 1 if one of them failed.
    """
    if len(machines) > 1 and (name or address):
        raise click.UsageError("--name and --address are for one machine")
    if with_spaces and not remove:
        raise click.UsageError("--with-spaces belongs to --remove")
    if name is not None:
        name = name.lower()
        if not is_name(name):
            raise click.UsageError(f"{printable(name)!r} is no name for a member: use letters, digits and -")
    for machine in machines:
        if machine.startswith("-") or not machine.isprintable() or any(sign.isspace() for sign in machine):
            raise click.UsageError(f"{printable(machine)!r} is no machine: write HOST or USER@HOST, as for ssh")
    names = [name_of(machine) for machine in dict.fromkeys(machines)]
    if name is None and len(set(names)) < len(names):
        raise click.UsageError(
            f"two machines would have one name ({', '.join(names)}): deploy them one by one with --name"
        )
    signer = Signer(passphrase_file, days=days, reads=not remove)
    if not remove:
        words = _serving(words, identity or home() / USER)
    gate = Gate()
    settings = Settings(signer, hosts, wheel, uv, python, port, words, ssh, name, address, identity, gate)
    with tempfile.TemporaryDirectory(prefix="phalanx-deploy-") as folder:
        deployments = {it: Deployment(it, settings, Path(folder), _say) for it in dict.fromkeys(machines)}
        removes: Callable[[Deployment], None] = lambda it: it.remove(with_spaces=with_spaces)  # noqa: E731
        return _all(deployments, removes if remove else Deployment.run, gate)


def _serving(words: tuple[str, ...], identity: Path) -> tuple[str, ...]:
    """The options of the executors. They serve their user only, unless these say who else.

    The account at a machine may have a user manager of systemd. That starts processes outside of the cage for whoever
    reaches its socket, as tasks do before Linux 7.1.
    """
    given = _parsed(words)
    if given.get("accept") or given.get("accounts"):
        return words
    advice = "an executor serves who is named in its options --accept"
    _, name, _ = _native.check_member(read_private(identity, "identity", advice), str(identity))
    return (*words, "--accept", name)


def _parsed(words: tuple[str, ...]) -> dict[str, Any]:
    """The options of an executor by their parameters. A wrong one is the executor's own usage error.

    Paths are not looked at: they are those of the other machine.
    """
    from phalanx.cli.executor import executor

    with click.Context(executor, info_name="phalanx executor") as context:
        given, rest, _ = executor.make_parser(context).parse_args([*words])
        if rest or given.get("help"):
            raise click.UsageError(f"--executor takes options only, and not {' '.join(rest) or '--help'!r}", context)
        for option in executor.params:
            if option.name in given and not isinstance(option.type, click.Path):
                option.process_value(context, given[option.name])
    return given


def _all(deployments: dict[str, Deployment], work: Callable[[Deployment], None], gate: Gate) -> int:
    """Works on all machines at the same time; returns 1 if one failed."""
    failed = threading.Event()

    def one(deployment: Deployment) -> None:
        try:
            work(deployment)
        except PhalanxError as error:
            failed.set()
            _complain(str(error))
        except Exception as error:  # one machine must not stop the others
            failed.set()
            if gate.is_shut:  # the connection was cut, which may fail in any way
                return
            _complain(f"{deployment.machine}: {type(error).__name__}: {error}")

    began = time.monotonic()
    for_each(one, [*deployments.values()], gate)
    if failed.is_set():
        explain_at_end(DeployError)
    elif len(deployments) > 1:
        click.echo(f"{time.monotonic() - began:6.1f} s  all {len(deployments)} machines are done")
    return int(failed.is_set())


def _say(done: Done) -> None:
    lines = [printable(line) for line in done.text.split("\n")]
    click.echo(f"{done.seconds:6.1f} s  {printable(done.machine)}: {lines[0]}")
    for line in lines[1:]:
        click.echo(f"{'':10}{line}")


def _complain(text: str) -> None:
    """Says what failed. The machine may have chosen the words."""
    first, *more = [printable(line) for line in text.split("\n")]
    click.echo("\n".join([f"phalanx: {first}", *(f"  {line}" for line in more)]), err=True)
