"""``phalanx pilot``: the executor that an engine starts for one program."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path

import click

from phalanx import _native
from phalanx._grids import Joined, dialler_of
from phalanx._identities import read_private
from phalanx._voluntary.rules import ALWAYS
from phalanx.cli import _voluntary
from phalanx.cli._donating import Donating, announce, start_executor
from phalanx.cli._examples import examples
from phalanx.cli._joined import host_name, machine_facts
from phalanx.cli._stopping import Stop
from phalanx.cli._voluntary import Voluntary
from phalanx.cli.join import _join
from phalanx.errors import IdentityError, PhalanxError, RecruitError
from phalanx.members import to_name
from phalanx.pilots._order import LONGEST, Order
from phalanx.pilots._own_grid import remove_left, write_maker

#: Seconds before the end of an allocation at which work is handed back, and the longest that this may take.
_BEFORE_END = 15.0
#: Seconds between two looks at the hub and the clock.
_LOOK = 0.2
#: Seconds between two looks at the certificate, which read it.
_LOOK_AT_CERTIFICATE = 5.0
#: Seconds that Slurm may take to say when an allocation ends.
_SLURM_PATIENCE = 10.0
#: How the names of executors' folders begin.
_PREFIX = "phalanx-pilot-"
#: The words of an executor that a hub knows.
_KNOWN = "known to the hub"
#: The hub's words for a name that another executor has, or had before it was started again.
_TAKEN = "is a member already"
#: Variables of the process that asked the engine, which mean nothing to users' processes here.
_OURS = {"PHALANX_DELEGATED", "PHALANX_HOME", "PHALANX_PROGRAM", "PHALANX_RANK", "PHALANX_UNIVERSE"}
#: What the sensors of a machine see whose work is handed back.
_HANDED_BACK = {
    "idle": None,
    "load": None,
    "minute": 0,
    "on_battery": False,
    "is_metered": False,
    "is_paused": True,
}


@click.command(
    epilog=examples(
        "phalanx pilot order.json",
        "phalanx pilot -",
    )
)
@click.argument("order", metavar="FILE|-")
def pilot(order: str) -> int:
    """Run an executor for one program.

    It is for places that an engine gives. Slurm, ssh, Dask, Ray, PSI/J and Kubernetes start this command for px.Slurm,
    px.Ssh, px.Dask, px.Ray, px.PsiJ and px.Kubernetes. FILE has the order that the program has written: a file that
    nobody else may read, or - for standard input, whose end ends the executor.

    The executor joins the grid of the program with the secret in the order. Its private key is made here, in a folder
    that is gone at the end. It ends when the program ends, when the program is not heard of for a while, and before the
    end of the allocation: at the signal SIGTERM, or 15 s before the time that SLURM_JOB_END_TIME or squeue tells. What
    it runs is handed back then, and the program fires it elsewhere. In a pod of an Indexed Job (JOB_COMPLETION_INDEX),
    the exit code after SIGTERM is 143, so that Kubernetes starts the pod again.
    """
    stop = Stop()  # from the beginning on
    told = Order.read(_read(order))
    ends = _end_of_place(told)
    if order == "-":
        _end_with_input(stop)
    with _own_home() as scratch:
        own = told.member is None
        capacity = told.interpreters or _cores()
        # In a program's own grid, all of the place is the user's: the environment that its engine has made, and the
        # account.
        donating = Donating(
            interpreters=capacity,
            accept=("me",) if told.member is None else told.member,
            no_jobs=own,
            cage=told.cage,  # type: ignore[arg-type]
            exports=told.exports,
            allow_root=own or os.environ.get("PHALANX_ALLOW_ROOT") == "1",
            variables=(*_variables(),) if own else (),
            directory=scratch / "spaces",
            log_level="warning",
        )
        try:
            joined = _joined(told)
        except (IdentityError, RecruitError) as error:
            if not _is_of_job():
                raise
            # A pod that fails is started again. There is no program any more, or it cannot be reached from there.
            click.echo(f"ended: {error}", err=True)
            return 0
        with nullcontext() if own else _leaving(joined):
            why = _serve(told, joined, donating, stop, ends)
    click.echo(f"ended: {why}")
    # Kubernetes starts a pod again that it has evicted, unless the pod ends well.
    return 128 + signal.SIGTERM if why == signal.SIGTERM.name and _is_of_job() else 0


def _is_of_job() -> bool:
    """Whether this is a pod of an Indexed Job of Kubernetes."""
    return "JOB_COMPLETION_INDEX" in os.environ


def _serve(told: Order, joined: Joined, donating: Donating, stop: Stop, ends: datetime | None) -> str:
    """Runs the executor until it is to end. Returns why."""
    facts = machine_facts(donating) | ({"ends": ends.isoformat()} if ends else {})
    stays: tuple[list[str], list[str], dict[str, str]] = ([*joined.hubs], [], facts)
    rules = _voluntary.native(ALWAYS, Voluntary())
    with closing(start_executor("0.0.0.0:0", joined.executor, donating, grid=stays, **rules)) as service:
        announce(service)
        sys.stdout.flush()
        why = _until_end(service, stop, told, ends)
        service.observe(_HANDED_BACK)
    return why


@contextmanager
def _leaving(joined: Joined) -> Iterator[None]:
    """Tells the hub at the end that this member is gone. A hub that does not hear it sees the certificate's end."""
    try:
        yield
    finally:
        try:
            _native.hub_leave(*dialler_of(joined, joined.executor))
        except PhalanxError as error:
            click.echo(f"the hub was not told: {error}", err=True)


def _end_with_input(stop: Stop) -> None:
    """Ends the executor with standard input, of which one line was read."""

    def read() -> None:
        while os.read(0, 4096):
            pass
        stop.ask("the program has ended")

    threading.Thread(target=read, daemon=True).start()


def _read(order: str) -> bytes:
    """The line with the order. Raises IdentityError if there is none, or it is not for this account alone."""
    if order != "-":
        advice = "px.Slurm and others write one, and remove it at the end"
        return read_private(Path(order), "order", advice, own=True).encode()
    line = b""
    while not line.endswith(b"\n") and len(line) < LONGEST and (part := os.read(0, 1)):
        line += part
    return line


def _until_end(service: _native.Executor, stop: Stop, told: Order, ends: datetime | None) -> str:
    """Waits until the executor is to end. Returns why."""
    heard = time.monotonic()
    looked = heard
    while not stop.wait(_LOOK):
        now = time.monotonic()
        if (service.hub_status or "").startswith(_KNOWN):
            heard = now
        if now - heard >= told.silence:
            return f"the program was not heard of for {told.silence:g} s"
        if (why := service.expelled) is not None:
            if told.member is None:
                return "the program has given this place back"
            raise IdentityError(f"this is no executor of its program any more: {why}")
        if ends is not None and (ends - datetime.now(timezone.utc)).total_seconds() <= _BEFORE_END:
            return f"the allocation ends at {ends:%H:%M:%S} UTC"
        if now - looked >= _LOOK_AT_CERTIFICATE:
            looked = now
            service.look_at_certificate()
    return stop.why


@contextmanager
def _own_home() -> Iterator[Path]:
    """A folder of identities for this process alone. Those of executors that were killed here go."""
    remove_left(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    write_maker(folder)
    os.environ["PHALANX_HOME"] = os.fspath(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _joined(order: Order) -> Joined:
    """The grid of the program, of which this becomes a member."""
    # The name of Slurm's node may not be the host name. An allocation that is started again is another executor.
    node, times = os.environ.get("SLURMD_NODENAME", ""), os.environ.get("SLURM_RESTART_COUNT", "")
    again = f"-{times}" if node and times.isdigit() and int(times) else ""
    name = to_name(order.name or f"{node}{again}", host_name())[:50].strip("-")
    try:
        return _join(order.token, name, None)[0]
    except (IdentityError, RecruitError) as error:
        if _TAKEN not in str(error):
            raise
    return _join(order.token, f"{name}-{secrets.token_hex(3)}", None)[0]


def _cores() -> int:
    """How many cores the engine gives to this process."""
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    cores = _native.cores()
    return min(cores, int(given)) if re.fullmatch("[1-9][0-9]{0,4}", given) else cores


def _variables() -> Iterator[str]:
    """The names of the environment variables that users' processes get: all that the engine has given."""
    return (name for name in os.environ if name not in _OURS)


def _end_of_place(order: Order) -> datetime | None:
    """When the place ends, as far as its engine or its user tells."""
    if order.seconds is not None:
        return datetime.fromtimestamp(time.time() + order.seconds, timezone.utc)
    told = os.environ.get("SLURM_JOB_END_TIME", "")
    if re.fullmatch("[0-9]{9,11}", told):
        return datetime.fromtimestamp(int(told), timezone.utc)
    job = os.environ.get("SLURM_JOB_ID", "")
    return _asked_slurm(job) if job.isdigit() else None


def _asked_slurm(job: str) -> datetime | None:
    """When a job ends, as Slurm says. None: it has no limit, or Slurm does not answer; SIGTERM comes all the same."""
    squeue = shutil.which("squeue")
    if squeue is None:
        return None
    words = [squeue, "--noheader", "--jobs", job, "--format", "%e"]
    try:
        told = subprocess.run(words, capture_output=True, text=True, timeout=_SLURM_PATIENCE).stdout.split()
        return datetime.fromisoformat(told[0]).astimezone(timezone.utc)  # Slurm's times are local
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return None
