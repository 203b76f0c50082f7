"""Executors on the nodes of a cluster that Slurm gives."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from phalanx.errors import RecruitError
from phalanx.pilots._order import Order, check_count, command
from phalanx.pilots._orders import Orders
from phalanx.pilots._pilot import Pilot
from phalanx.words import Cage, StrPath

_log = logging.getLogger("phalanx")

#: Seconds that a command of Slurm's may take. A controller that is busy or away makes it wait.
_PATIENCE = 60.0
#: Seconds before the end of an allocation at which Slurm sends SIGTERM, so that work is handed back.
_BEFORE_END = 30
#: Slurm's words for a job that has ended a while ago.
_FORGOTTEN = "Invalid job id"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


class Slurm(Pilot):
    """Executors on the nodes of a cluster that Slurm gives, one in each allocation.

    Each node is an allocation of its own, a task of a job array. So executors begin as nodes become free, and the loss
    of a node, its preemption or its drain touches no other one. Slurm starts an allocation that it has requeued again.
    30 seconds before the end of an allocation, its work is handed back.

    The order for the executors, with its secret, is a file that only your account reads, in ``$PHALANX_HOME`` or
    ``~/.phalanx``. Nodes must see this folder, and the Python of this program. The secret is in no command line, in no
    environment, and not in the script that Slurm keeps.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    time : str or float, optional
        The time limit of each allocation, as Slurm writes it: ``"1:00:00"``, ``"2-0"``, or minutes as a number. By
        default that of the partition.
    partition, account : str, optional
        As for ``sbatch``.
    cores : int, optional
        The number of cores of each allocation, which may then share its node with others. By default whole nodes.
    memory : str, optional
        The memory of each allocation, as ``sbatch --mem`` takes it.
    options : str or iterable of str
        Further options of ``sbatch``, like ``"--gres=gpu:1 --constraint=skylake"``.
    prologue : str
        Lines of the shell that run before each executor, like ``"module load cuda"``.
    folder : path, optional
        Where the order is, if nodes do not see the home folder.
    python : str, optional
        The Python of the nodes that has phalanx. By default that of this program.
    interpreters : int, optional
        How many interpreters each executor offers. By default one for each core of its allocation.
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
    >>> with px.Manager(px.Slurm(nodes=4, time="1:00:00")) as manager:  # doctest: +SKIP
    ...     print(sum(manager.map(abs, range(-1000, 0))))
    500500
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        time: str | float | None = None,
        partition: str | None = None,
        account: str | None = None,
        cores: int | None = None,
        memory: str | None = None,
        options: str | Iterable[str] = (),
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
        super().__init__(
            interpreters=interpreters,
            at_least=at_least,
            at_most=at_most,
            wait=wait,
            address=address,
            cage=cage,
            export=export,
        )
        self._nodes = self._check_places("nodes", nodes, 65536)
        self._time = None if time is None else _minutes(time)
        self._words = ["--nodes=1", "--ntasks=1", "--requeue", "--job-name=phalanx"]
        self._words += ["--exclusive"] if cores is None else [f"--cpus-per-task={check_count('cores', cores)}"]
        self._words += [f"--signal=B:TERM@{_BEFORE_END}"]
        self._words += [] if self._time is None else [f"--time={self._time}"]
        for name, value in (("partition", partition), ("account", account), ("mem", memory)):
            if value is not None:
                self._words.append(f"--{name}={_word(name, value)}")
        self._words += shlex.split(options) if isinstance(options, str) else [_word("options", it) for it in options]
        self._prologue, self._folder, self._python = prologue, folder, python
        self._jobs: list[str] = []
        self._asked = 0
        self._orders: Orders | None = None

    def _start(self, order: Order) -> None:
        self._orders = Orders("slurm", self._started().joined.name, self._folder, order)
        self._submit(self._nodes)

    def _more(self, order: Order) -> None:
        self._submit(1)

    def _renew(self, order: Order) -> None:
        assert self._orders is not None
        self._orders.renew(order)

    def _left(self) -> int:
        return len(self._queue())

    def _submit(self, count: int) -> None:
        """Asks for some more allocations. Each has a number, by which its output is called."""
        assert self._orders is not None
        words = [*command(self._python), os.fspath(self._orders.order)]
        # The shell becomes the executor: the signals of Slurm are for the shell of the batch script.
        script = f"#!/bin/sh\n{self._prologue}\nexec {shlex.join(words)}\n"
        array = f"--array={self._asked}-{self._asked + count - 1}"
        output = [f"--output={self._orders.folder}/%a.txt", "--open-mode=append", "--parsable"]
        job = _call(["sbatch", array, *output, *self._words], script).strip().partition(";")[0]
        if not job.isdigit():
            raise RecruitError(f"sbatch has named no job: {job!r:.200}")
        self._jobs.append(job)
        self._asked += count

    def _end(self) -> None:
        jobs, self._jobs, self._asked = self._jobs, [], 0
        try:
            if jobs:
                _call(["scancel", *jobs])
        except RecruitError as error:
            if _FORGOTTEN not in str(error):
                _log.warning("the job %s ends when its executors miss this program: %s", jobs[0], error)
        finally:
            if self._orders is not None:
                self._orders.remove()

    def _failure(self, here: int) -> str | None:
        try:
            left = len(self._queue())
        except RecruitError:  # a controller that is away for a moment is asked again
            return None
        if left > here:
            return None
        count = f"{left} of {self._asked} allocations left" if left else "ended"
        return f"the job {self._jobs[0]} has {count}{self._said()}"

    def _state(self) -> str:
        job = self._jobs[0]
        try:
            rows = self._queue()
        except RecruitError as error:
            return f"the job {job} was submitted, and then: {error}"
        words = dict.fromkeys(f"{state.lower()} ({why})" if why != "None" else state.lower() for state, why in rows)
        return f"the job {job} is {', '.join(words) or 'over'}{self._said()}"

    def _queue(self) -> list[tuple[str, str]]:
        """The state and the reason of each allocation that has not ended."""
        words = ["squeue", "--array", "--noheader", "--jobs", ",".join(self._jobs), "--format", "%T %r"]
        try:
            lines = _call(words).splitlines()
        except RecruitError as error:
            if _FORGOTTEN in str(error):
                return []
            raise
        return [(state, why) for state, _, why in (line.partition(" ") for line in lines)]

    def _said(self) -> str:
        """The last lines that an executor has printed, as the end of a sentence."""
        return self._orders.said() if self._orders else ""

    def __repr__(self) -> str:
        return f"Slurm(nodes={self._nodes})"


def _call(words: Sequence[str], script: str = "") -> str:
    """What a command of Slurm's prints. Raises RecruitError if it fails."""
    if shutil.which(words[0]) is None:
        raise RecruitError(
            f"there is no {words[0]} here: run the program where Slurm's commands are, on a login node of the cluster"
        )
    try:
        done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=_PATIENCE, errors="replace")
    except subprocess.TimeoutExpired:
        raise RecruitError(f"{words[0]} does not answer within {_PATIENCE:g} s: is slurmctld there?") from None
    if done.returncode:
        said = "; ".join(line for line in done.stderr.splitlines() if line.strip())
        raise RecruitError(f"Slurm refuses: {said or f'{words[0]} has ended with status {done.returncode}'}")
    return done.stdout


def _minutes(time: str | float) -> str:
    """A time limit as sbatch takes it. Raises RecruitError for another one."""
    if isinstance(time, str) and _TIME.fullmatch(time):
        return time
    if isinstance(time, (int, float)) and not isinstance(time, bool) and 1 <= time < 1e7:
        return f"{time:.0f}"
    raise RecruitError(f"time is like '1:00:00', or a number of minutes, not {time!r:.40}")


def _word(option: str, value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise RecruitError(f"{option} is a word for sbatch, not {value!r:.40}")
    return value
