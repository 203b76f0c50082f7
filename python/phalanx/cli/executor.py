"""``phalanx executor``: the service on a donated machine."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click

from phalanx import _native
from phalanx.hosts import COMMAND, PYTHON, read_identity


@click.command()
@click.option("--listen", metavar="HOST:PORT", default="0.0.0.0:7400", show_default=True, help="Port 0: any free one.")
@click.option(
    "--identity", type=click.Path(path_type=Path), help="By default executor.pem in $PHALANX_HOME or ~/.phalanx."
)
@click.option("--interpreters", type=click.IntRange(1, 4096), help="How many at a time; by default one a core.")
@click.option("--accept", multiple=True, metavar="USER", help="Run code only for this user (may be repeated).")
def executor(listen: str, identity: Path | None, interpreters: int | None, accept: tuple[str, ...]) -> None:
    """Donate this machine: start interpreters for the users of its grid."""
    service = _native.Executor(
        listen,
        identity_file=read_identity(identity, "executor.pem"),
        capacity=interpreters or os.cpu_count() or 1,
        accepted=list(accept),
        command=COMMAND,
        python=PYTHON,
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    click.echo(f"listening on {service.address} as {service.name}")
    while not stop.wait(0.5):  # a wait without an end would not hear signals on every system
        pass
    service.close()
