"""``phalanx executor``: the service on a donated machine."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click

from phalanx import _cage, _native
from phalanx._accounts import read_accounts
from phalanx._commands import library_variables
from phalanx._identities import EXECUTOR, identity_file, read_identity, revoked_lists
from phalanx._program import VARIABLE
from phalanx.cli._examples import examples
from phalanx.cli._numbers import Count
from phalanx.hosts import COMMAND, PYTHON
from phalanx.security import Rules, policy_words
from phalanx.space import _serve
from phalanx.words import CAGES, Cage


def _read_accounts(context: click.Context, option: click.Parameter, word: str | None) -> tuple[int, int] | None:
    try:
        return read_accounts(word) if word else None
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


@click.command(
    epilog=examples(
        "phalanx executor --identity labpc.pem",
        "phalanx executor --accept alice --interpreters 4 --export /scratch:rw",
        "phalanx executor --listen 127.0.0.1:7421 --trusted 10.1.0.0/16",
    )
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="0.0.0.0:7400",
    show_default=True,
    help="Listen here; port 0: any free port.",
)
@click.option(
    "--identity",
    type=click.Path(path_type=Path),
    help="The certificate. [default: executor.pem in $PHALANX_HOME or ~/.phalanx]",
)
@click.option(
    "--interpreters", type=Count(1, 4096), help="The most interpreters at a time, at most 4096. [default: one per core]"
)
@click.option("--accept", multiple=True, metavar="USER", help="Serve only this user (may be repeated).")
@click.option("--no-spaces", is_flag=True, help="Serve no tuple spaces.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="The folder of durable spaces. [default: spaces/PORT in $PHALANX_HOME or ~/.phalanx]",
)
@click.option(
    "--access",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of rules that say what users may do in tuple spaces.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="FOLDER:ro|rw",
    help="Let users read this folder (ro), or read and write it (rw); may be repeated. [default: none]",
)
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="PATH:ro|rw|gpu",
    help="Let users' processes read this folder or file (ro), or read and write it (rw), or use the graphics "
    "processors (gpu); may be repeated. [default: the system and Python, ro, and a folder of their own, rw]",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Give users' processes this environment variable (may be repeated). [default: PATH, the locale, and those of "
    "Python and of libraries that compute]",
)
@click.option(
    "--cage",
    type=click.Choice(CAGES),
    help="none: users' processes have the rights of this account; limits: they cannot use system calls that no task "
    "needs, either; files: they also open only what is granted, and do not trace others; full: nor signal others or "
    "reach their unix sockets. Below files, and without --accounts, the executor serves one user only, named with "
    "--accept. [default: the most that the kernel can]",
)
@click.option(
    "--accounts",
    metavar="FIRST-LAST",
    callback=_read_accounts,
    help="As root, run each user's processes under an account of their own, with one of these numbers, which nothing "
    "else on this machine has, like 1900000000-1900000031.",
)
@click.option(
    "--allow-root",
    is_flag=True,
    envvar="PHALANX_ALLOW_ROOT",
    help="As root and without --accounts, let users' processes be root, too. PHALANX_ALLOW_ROOT=1 does the same.",
)
@click.option(
    "--trusted", multiple=True, metavar="NETWORK", help="Links from this network need no protection (may be repeated)."
)
@click.option(
    "--rules", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of rules for links."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="info",
    show_default=True,
    help="warning: refused peers; info: also users that come and go; debug: also peers that leave at once.",
)
def executor(
    listen: str,
    identity: Path | None,
    interpreters: int | None,
    accept: tuple[str, ...],
    no_spaces: bool,
    directory: Path | None,
    access: Path | None,
    exports: tuple[str, ...],
    grants: tuple[str, ...],
    variables: tuple[str, ...],
    cage: Cage | None,
    accounts: tuple[int, int] | None,
    allow_root: bool,
    trusted: tuple[str, ...],
    rules: Path | None,
    log_level: str,
) -> None:
    """Donate this machine to the users of its grid.

    The executor starts interpreters and message passing processes for them. It also serves tuple spaces, and the
    folders named with --export.

    Data links are at least safe, so that no attacker can alter what this machine runs. Clear links are accepted only
    from networks named with --trusted. A user may ask for more protection.

    Users' processes run in a cage. They read the system and Python, and write in a folder of their own. They open
    nothing else unless you --grant it. As root, name --accounts, so that the processes of each user have an account
    of their own.
    """
    os.environ.pop(VARIABLE, None)  # what it starts belongs to its users' programs, not to the one that started it
    policy = policy_words(Rules(rules) if rules else "links", trusted)
    directory = directory or _serve.directory_of(listen)
    service = _native.Executor(
        listen,
        identity_file=read_identity(identity, EXECUTOR, warns=False),
        file=identity_file(identity, EXECUTOR).absolute(),
        revoked=revoked_lists(identity),
        capacity=interpreters or _native.cores(),
        accepted=list(accept),
        command=COMMAND,
        python=PYTHON,
        policy=policy,
        spaces=None if no_spaces else _serve.serving(accept=accept, access=access, directory=directory),
        exports=list(exports),
        environment=list(library_variables().items()),
        cage=_cage.settings(
            cage,
            identity=identity,
            directory=directory,
            grants=grants,
            variables=variables,
            accounts=accounts,
            allow_root=allow_root,
        ),
        log_level=log_level,
    )
    for weaker in [*(f"{network} is trusted" for network in trusted), *_native.weaker(policy)]:
        click.echo(f"links may be weaker than by default: {weaker}", err=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    click.echo(f"listening on {service.address} as {service.name}")
    click.echo(f"cage: {service.cage}")
    while not stop.wait(0.5):  # a wait without an end would not hear signals on every system
        service.look_at_certificate()
    service.close()
