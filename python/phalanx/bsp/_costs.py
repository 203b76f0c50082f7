"""The costs of supersteps in the BSP cost model, w + g h + l (paper 001, section 2).

w is the longest computing time of a process in seconds. h is the largest number of bytes that a process sends or
receives. g, in seconds per byte, and l, in seconds, belong to the machine.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from phalanx.bsp._program import program
from phalanx.errors import BspError

_STEP = struct.Struct("<ddQQ")


@dataclass(frozen=True)
class Machine:
    """The machine as :func:`probe` measures it: number of processes, g in seconds per byte, l in seconds.

    Examples
    --------
    >>> from phalanx import bsp
    >>> bsp.Machine(processes=4, g=1e-9, l=5e-6).processes
    4
    """

    processes: int
    g: float
    l: float  # noqa: E741 (its name in the model)

    def __str__(self) -> str:
        return f"p = {self.processes}, g = {self.g * 1e9:.3f} ns/byte, l = {self.l * 1e6:.1f} µs"


@dataclass(frozen=True)
class SuperstepCost:
    """A superstep over all processes.

    ``work`` (w) and ``sync`` are the longest times, in seconds, of computing and of the synchronisation at the end.
    ``sent`` and ``received`` are the most bytes that a process sent to and received from others.

    Examples
    --------
    >>> from phalanx import bsp
    >>> bsp.SuperstepCost(work=0.002, sync=0.0001, sent=800, received=800).sent
    800
    """

    work: float
    sync: float
    sent: int
    received: int

    @property
    def h(self) -> int:
        """The h-relation: the most bytes that a process sent or received."""
        return max(self.sent, self.received)


@dataclass(frozen=True)
class Costs:
    """The supersteps of a program, in their order. Printed, it is a table.

    Examples
    --------
    >>> from phalanx import bsp
    >>> costs = bsp.Costs([bsp.SuperstepCost(work=0.002, sync=0.0001, sent=800, received=800)])
    >>> len(costs.supersteps)
    1
    """

    supersteps: Sequence[SuperstepCost]

    def table(self, machine: Machine | None = None) -> str:
        """A line for each superstep. With a machine, it also shows the time of the sync that the model predicts.

        Parameters
        ----------
        machine : Machine, optional
            As :func:`probe` measured it.

        Returns
        -------
        str
        """
        titles = ["superstep", "w µs", "h bytes", "in", "out", "sync µs"] + ["g h + l µs"] * (machine is not None)
        lines = [" ".join(f"{title:>10}" for title in titles)]
        for number, step in enumerate(self.supersteps):
            cells = [f"{number}", f"{step.work * 1e6:.1f}", f"{step.h}", f"{step.received}", f"{step.sent}"]
            cells.append(f"{step.sync * 1e6:.1f}")
            if machine is not None:
                cells.append(f"{(machine.g * step.h + machine.l) * 1e6:.1f}")
            lines.append(" ".join(f"{cell:>10}" for cell in cells))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def plot(self, path: str | os.PathLike[str], machine: Machine | None = None) -> None:
        """Draws the table into the file ``path``. Needs matplotlib.

        Parameters
        ----------
        path : str or path
            The picture, like ``costs.png``.
        machine : Machine, optional
            As :func:`probe` measured it.

        Raises
        ------
        BspError
            matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise BspError("plot: matplotlib is not installed: pip install matplotlib") from None
        figure: Any = Figure(figsize=(8, 5), layout="constrained")
        times, data = figure.subplots(2, 1, sharex=True)
        numbers = range(len(self.supersteps))
        work = [step.work * 1e6 for step in self.supersteps]
        times.bar(numbers, work, label="w")
        times.bar(numbers, [step.sync * 1e6 for step in self.supersteps], bottom=work, label="sync")
        if machine is not None:
            model = [w + (machine.g * step.h + machine.l) * 1e6 for w, step in zip(work, self.supersteps, strict=True)]
            times.plot(numbers, model, "k_", label="w + g h + l")
        times.set_ylabel("µs")
        times.legend()
        data.bar(numbers, [step.h for step in self.supersteps], color="gray")
        data.set_ylabel("h in bytes")
        data.set_xlabel("superstep")
        figure.savefig(path)


def note_costs(wanted: bool = True) -> None:
    """Starts or stops recording the costs of each superstep. Recording takes less than a microsecond per superstep.

    Parameters
    ----------
    wanted : bool
        Whether supersteps are recorded from now on.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.note_costs()
    ...     bsp.sync()
    ...     bsp.note_costs(False)
    """
    program().note_costs(wanted)


def costs() -> Costs:
    """The recorded costs of all processes. All processes call this together and must have recorded the same
    supersteps.

    Returns
    -------
    Costs
        The same at all processes.

    Raises
    ------
    BspError
        Processes noted different supersteps.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.note_costs()
    ...     bsp.sync()
    ...     print(len(bsp.costs().supersteps))
    1
    """
    own = b"".join(_STEP.pack(*step) for step in program().costs())
    said = [list(_STEP.iter_unpack(one)) for one in program().everybody_says(own)]
    if len({len(one) for one in said}) > 1:
        raise BspError("costs: processes noted different supersteps: call note_costs at the same place in all of them")
    each = zip(*said, strict=True)
    return Costs([SuperstepCost(*(max(values) for values in zip(*step, strict=True))) for step in each])


#: The h-relations that the probe tries, in bytes, and how often it tries each.
_RELATIONS = [0, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20]
_TIMES = 10


def probe() -> Machine:
    """Measures g and l. All processes call this together, in a superstep of its own, and get the same result.

    Each process sends the bytes of an h-relation evenly to all others. g and l are the line through the best times
    ("bspprobe", Bisseling, "Parallel Scientific Computation", 1.5). It takes some milliseconds.

    Returns
    -------
    Machine
        The same at all processes.

    Raises
    ------
    BspError
        Messages are left in the queue.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     print(bsp.probe().processes)
    1
    """
    bsp = program()
    if bsp.qsize()[0]:
        raise BspError("probe: messages are left in the queue, which would be lost")
    others = [pid for pid in range(bsp.nprocs()) if pid != bsp.pid()]
    points = [(h if others else 0, _best(h // max(len(others), 1), others)) for h in _RELATIONS]
    said = [struct.unpack(f"<{len(points)}d", one) for one in bsp.everybody_says(_times(points))]
    times = [max(column) for column in zip(*said, strict=True)]
    g = _slope([h for h, _ in points], times)
    return Machine(bsp.nprocs(), g, times[0])


def _times(points: list[tuple[int, float]]) -> bytes:
    return struct.pack(f"<{len(points)}d", *(time for _, time in points))


def _best(length: int, others: list[int]) -> float:
    """Seconds of the fastest superstep with ``length`` bytes for each of the others."""
    bsp, payload, best = program(), bytes(length), float("inf")
    for _ in range(_TIMES):
        for pid in others if length else []:
            bsp.send(pid, b"", payload)
        begun = perf_counter()
        bsp.sync()
        best = min(best, perf_counter() - begun)
    bsp.sync()  # removes the messages of the probe from the queue
    return best


def _slope(lengths: list[int], times: list[float]) -> float:
    """The slope, at least 0, of the line through the first point that fits the others best (least squares)."""
    squares = sum(length * length for length in lengths)
    product = sum(length * (time - times[0]) for length, time in zip(lengths, times, strict=True))
    return max(product / squares, 0.0) if squares else 0.0
