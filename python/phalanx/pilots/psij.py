"""Executors on the nodes of clusters that PSI/J submits to: PBS, LSF, Flux and others."""

from __future__ import annotations

import logging
import shlex
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from phalanx.errors import RecruitError
from phalanx.pilots._order import Order, check_count, check_time, command
from phalanx.pilots._orders import Orders, last_lines
from phalanx.pilots._pilot import Pilot
from phalanx.words import Cage, StrPath

_log = logging.getLogger("phalanx")

#: Seconds between two questions of PSI/J to the scheduler, where its own default is 30. It tells how soon the end of an
#: allocation is known; one question is about all allocations.
_POLLING = 5
#: Seconds until its first question.
_FIRST_POLLING = 1
#: Executors of PSI/J that do not give whole nodes: their ways to submit have no word for it, or ignore it.
_WITHOUT_WHOLE_NODES = ("flux", "lsf")
#: Seconds that executors on this machine may take to end what they run. Then PSI/J kills them.
_PATIENCE = 5.0
#: What each executor runs: it becomes the executor of phalanx, whose output goes into a file. PSI/J's own redirection
#: does not quote the file's name.
_SCRIPT = 'exec >>"$1" 2>&1; shift; exec "$@"'


class PsiJ(Pilot):
    """Executors on the nodes of a cluster that PSI/J submits to, one in each allocation.

    PSI/J is one interface for PBS, LSF, Flux, Slurm and other batch systems (https://exaworks.org/psij). Each node is a
    job of its own, so that executors begin as nodes become free, and the loss of one touches no other one. Work is
    handed back 15 seconds before the end of a job. :class:`phalanx.Slurm` needs no PSI/J, and gets allocations started
    again that Slurm requeues.

    The order for the executors, with its secret, is a file that only your account reads, in ``$PHALANX_HOME`` or
    ``~/.phalanx``. Nodes must see this folder, and the Python of this program. The secret is in no command line, in no
    environment, and in no submitted script.

    Parameters
    ----------
    executor : str
        The batch system, by PSI/J's name: ``"pbs"``, ``"pbs_classic"``, ``"lsf"``, ``"flux"``, ``"slurm"``,
        ``"cobalt"``. ``"local"`` starts processes on this machine. Packages can bring others.
    nodes : int
        The number of nodes.
    time : str or float
        The time limit of each job: ``"1:30:00"``, ``"2-00:00:00"``, or minutes as a number. Default: an hour.
    queue, account : str, optional
        The queue, or the partition, and the account or project to which the jobs belong.
    cores : int, optional
        The number of cores of each job, which may then share its node with others. By default whole nodes. ``"lsf"``
        and ``"flux"`` need a number, because PSI/J asks them for no whole nodes.
    attributes : mapping of str to str, optional
        Further options, as PSI/J's custom attributes: ``{"pbs.l": "mem=8gb"}``, ``{"slurm.constraint": "skylake"}``.
    prologue : str
        Lines of the shell that run before each executor, like ``"module load cuda"``.
    folder : path, optional
        Where the order and PSI/J's scripts are, if nodes do not see the home folder.
    python : str, optional
        The Python of the nodes that has phalanx. By default that of this program.
    interpreters : int, optional
        How many interpreters each executor offers. By default ``cores``, or one for each core of its node.
    at_least : int
        The number of executors that are waited for. Others are recruited as they come. Default: 1.
    at_most : int, optional
        The most nodes. With it, the manager asks for one more while its contract lacks interpreters, and gives nodes
        back where it has had none for 30 s, down to ``at_least``. By default ``nodes``, and the number stays.
    wait : float
        Maximum seconds to wait for them. Default: 600.
    address : str or iterable of str
        By which hosts nodes reach this machine. By default by all addresses that it has.
    cage : {"none", "limits", "files", "full"}
        What keeps your processes on the nodes from the rest of your account. Default: ``"none"``.
    export : str or iterable of str
        Folders there that copies may read, or read and write, like ``"/scratch:rw"``. Default: none.

    Raises
    ------
    RecruitError
        An option is wrong.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(px.PsiJ("pbs", nodes=4, time="1:00:00")) as manager:  # doctest: +SKIP
    ...     print(sum(manager.map(abs, range(-1000, 0))))
    500500
    """

    def __init__(
        self,
        executor: str,
        nodes: int = 1,
        *,
        time: str | float = 60,
        queue: str | None = None,
        account: str | None = None,
        cores: int | None = None,
        attributes: Mapping[str, str] | None = None,
        prologue: str = "",
        folder: StrPath | None = None,
        python: str | None = None,
        interpreters: int | None = None,
        at_least: int = 1,
        at_most: int | None = None,
        wait: float = 600.0,
        address: str | Iterable[str] = (),
        cage: Cage = "none",
        export: str | Iterable[str] = (),
    ) -> None:
        if cores is not None:
            check_count("cores", cores)
        super().__init__(
            interpreters=interpreters or cores,
            at_least=at_least,
            at_most=at_most,
            wait=wait,
            address=address,
            cage=cage,
            export=export,
        )
        self._name, self._nodes = _word("executor", executor).lower(), self._check_places("nodes", nodes, 65536)
        if cores is None and self._name in _WITHOUT_WHOLE_NODES:
            raise RecruitError(f"px.PsiJ({self._name!r}) needs cores=: PSI/J asks {self._name} for no whole nodes")
        self._seconds, self._cores = check_time(time), cores
        self._queue = None if queue is None else _word("queue", queue)
        self._account = None if account is None else _word("account", account)
        self._attributes = {_word("attributes", it): _word("attributes", to) for it, to in (attributes or {}).items()}
        self._prologue, self._folder, self._python = prologue, folder, python
        self._orders: Orders | None = None
        self._engine: Any = None
        self._jobs: list[Any] = []

    def _start(self, order: Order) -> None:
        psij = _psij()
        name = self._started().joined.name
        order = order._replace(seconds=float(self._seconds))
        self._orders = Orders("psij", name, self._folder, order)
        work = self._orders.folder / "work"
        if self._name != "local" and shlex.quote(str(work)) != str(work):
            raise RecruitError(f"PSI/J's scripts cannot name {work}: name another folder that nodes see with folder=")
        try:
            engine = psij.JobExecutor.get_instance(self._name, config=_config(work))
        except ValueError as error:
            why = f": {error.__cause__}" if error.__cause__ else ""
            raise RecruitError(f"PSI/J: {error}{why}") from None
        self._engine = engine
        for _ in range(self._nodes):
            self._more(order)

    def _more(self, order: Order) -> None:
        psij = _psij()
        assert self._orders is not None
        job = psij.Job(self._spec(psij, self._orders, len(self._jobs)))
        try:
            self._engine.submit(job)
        except Exception as error:  # PSI/J's own, and those of the library behind it
            said = last_lines(str(error)) or type(error).__name__
            raise RecruitError(f"PSI/J's {self._name} refuses: {said}") from error
        self._jobs.append(job)

    def _renew(self, order: Order) -> None:
        assert self._orders is not None
        self._orders.renew(order._replace(seconds=float(self._seconds)))

    def _left(self) -> int:
        return sum(not job.status.final for job in self._jobs)

    def _spec(self, psij: Any, orders: Orders, number: int) -> Any:
        """What PSI/J is to submit."""
        cores = self._cores or 1
        if self._name == "flux":  # it starts one process, or one for each of the processes of a node
            resources = psij.ResourceSpecV1(node_count=1, process_count=1, cpu_cores_per_process=cores)
        else:  # batch systems count cores by processes; the launcher starts one
            whole = self._cores is None
            resources = psij.ResourceSpecV1(node_count=1, processes_per_node=cores, exclusive_node_use=whole)
        script = f"{self._prologue}\n{_SCRIPT}" if self._prologue else _SCRIPT
        words = ["-c", script, "sh", str(orders.folder / f"{number}.txt"), *command(self._python), str(orders.order)]
        return psij.JobSpec(
            name="phalanx",
            executable="/bin/sh",
            arguments=words,
            resources=resources,
            launcher="single",
            attributes=psij.JobAttributes(
                duration=timedelta(seconds=self._seconds),
                queue_name=self._queue,
                account=self._account,
                custom_attributes={**self._attributes} or None,
            ),
        )

    def _end(self) -> None:
        jobs, self._jobs, self._engine = self._jobs, [], None
        try:
            if self._name == "local":
                _end_gently(jobs)
            for job in jobs:
                try:
                    job.cancel()
                except Exception as error:
                    if not job.status.final:
                        _log.warning("the job %s ends when its executor misses this program: %s", job.native_id, error)
        finally:
            if self._orders is not None:
                self._orders.remove()

    def _failure(self, here: int) -> str | None:
        ended = [job.status for job in self._jobs if job.status.final]
        if (left := self._left()) > here:
            return None
        why = next((f": {last_lines(it.message)}" for it in ended if it.message), "")
        count = (
            f"{left} of {len(self._jobs)} jobs of {self._name} are left" if left else f"{self._name}'s jobs have ended"
        )
        return f"{count}{why}{self._said()}"

    def _state(self) -> str:
        states = dict.fromkeys(job.status.state.name.lower() for job in self._jobs)
        return f"{self._name}'s jobs are {', '.join(states)}{self._said()}"

    def _said(self) -> str:
        return self._orders.said() if self._orders else ""

    def __repr__(self) -> str:
        return f"PsiJ({self._name!r}, nodes={self._nodes})"


def _end_gently(jobs: Sequence[Any]) -> None:
    """Ends processes of this machine as a batch system does, by SIGTERM first. PSI/J kills them at once."""
    import psutil

    for job in jobs:
        with suppress(psutil.Error):
            for process in psutil.Process(int(job.native_id)).children():
                process.terminate()
    end = monotonic() + _PATIENCE
    for job in jobs:
        job.wait(timedelta(seconds=max(0.0, end - monotonic())))


def _psij() -> Any:
    """The library. Its import sets a handler for SIGCHLD, which makes it notice the end of local processes 0.1 s
    earlier; the program's own handler is kept instead."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGCHLD)
    try:
        import psij
    except ImportError:
        raise RecruitError("px.PsiJ needs PSI/J: pip install psij-python") from None
    finally:
        if is_main:
            with suppress(TypeError):  # a handler that was not set by Python
                signal.signal(signal.SIGCHLD, before)
    return psij


def _config(work: Path) -> Any:
    """Where PSI/J writes its scripts, and how often it asks."""
    from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

    return BatchSchedulerExecutorConfig(
        work_directory=work, queue_polling_interval=_POLLING, initial_queue_polling_delay=_FIRST_POLLING
    )


def _word(option: str, value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise RecruitError(f"{option} is a word for PSI/J, not {value!r:.40}")
    return value
