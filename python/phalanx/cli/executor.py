"""``phalanx executor``: the service on a donated machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from phalanx.cli import _voluntary
from phalanx.cli._donating import Donating, Ending, announce, donates, start_executor
from phalanx.cli._examples import examples


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
@donates
def executor(listen: str, identity: Path | None, donating: Donating) -> None:
    """Donate this machine to the users of its grid.

    The executor starts interpreters and message passing processes for them. It also serves tuple spaces, and the
    folders named with --export.

    Data links are at least safe, so that no attacker can alter what this machine runs. Clear links are accepted only
    from networks named with --trusted. A user may ask for more protection.

    Users' processes run in a cage. They read the system and Python, and write in a folder of their own. They open
    nothing else unless you --grant it. As root, name --accounts, so that the processes of each user have an account
    of their own.

    Where the machine joins its grid with a token, phalanx join starts the executor.
    """
    rules = _voluntary.rules_of(None, donating.voluntary)
    with closing(start_executor(listen, identity, donating, **_voluntary.native(rules, donating.voluntary))) as service:
        ending = Ending()
        with _voluntary.watching(service, rules):
            announce(service)
            ending.wait(service)
