"""Figures 2, 3 and 4: how much faster matrices are multiplied by several processes than by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.papers.alchemi.looks import LOOKS
from bench.papers.alchemi.runs import Library
from bench.papers.muskel.drawing import FAINT, legend

#: What phalanx wants to reach with two processes that compute, by the matrices' order.
REACH = {1500: 1.6, 2000: 1.7, 2500: 1.75}
#: BSP within so much of MPI, both ours.
BSP_REACH = 0.9
#: Before the multiplications that count: libraries are loaded, and memory is touched. One is not enough on a virtual
#: machine: memory that it had given back to its host costs 150 µs for each 2 MB that are touched again, which is 50 ms
#: for the B of figure 2, with any library.
_WARM_UP = 4


@dataclass
class Speedup:
    """One order of matrices. ``samples[library][processes]``: speedups, one a round."""

    order: int
    libraries: Mapping[str, Library]
    processes: Sequence[int]
    alone: list[float] = field(default_factory=list)
    samples: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def measure(self, rounds: int, times: int, say: Callable[[str], None]) -> None:
        """All in turn, so that what is compared was measured within seconds."""
        for number in range(rounds):
            base = self._taken("mpi", 1, times)
            self.alone.append(base)
            say(f"round {number + 1} of {rounds}: alone {base:.3f} s")
            for name, count in self._points():
                taken = self._taken(name, count + 1, times)
                self.samples.setdefault(name, {}).setdefault(count, []).append(base / taken)
                say(f"    {self.libraries[name].title}, {count}: {taken:.3f} s, speedup {base / taken:.2f}")

    def _taken(self, name: str, processes: int, times: int) -> float:
        return median(self.libraries[name].seconds(processes, self.order, times + _WARM_UP)[_WARM_UP:])

    def _points(self) -> Iterator[tuple[str, int]]:
        for count in self.processes:
            yield from ((name, count) for name in self.libraries)

    def speedup(self, name: str, count: int) -> float:
        """The median of the rounds."""
        return median(self.samples[name][count])

    @property
    def title(self) -> str:
        """As the paper's caption."""
        return f"Speedup for matrices with {self.order} x {self.order} elements"

    @property
    def size(self) -> tuple[float, float]:
        """Of the plot."""
        return 7.5, 5.0

    def tables(self) -> list[list[list[str]]]:
        """Speedups, and what was to be reached."""
        head = ["speedup", *(f"{count} computing" for count in self.processes)]
        rows = [[library.title, *(self._shown(name, count) for count in self.processes)]
                for name, library in self.libraries.items()]  # fmt: skip
        reached = [[*each] for each in self._reached()]
        return [[head, *rows], *([[["with two", "is", "reach", ""], *reached]] if reached else [])]

    def _shown(self, name: str, count: int) -> str:
        samples = self.samples[name][count]
        return f"{median(samples):.2f} ({min(samples):.2f} to {max(samples):.2f})"

    def _reached(self) -> Iterator[tuple[str, str, str, str]]:
        if 2 not in self.processes:
            return
        mpi, bsp = self.speedup("mpi", 2), self.speedup("bsp", 2)
        if reach := REACH.get(self.order):
            yield "MPI", f"{mpi:.2f}", f"{reach:g}", "met" if mpi >= reach else "missed"
        yield "BSP over MPI", f"{bsp / mpi:.2f}", f"{BSP_REACH:g}", "met" if bsp >= BSP_REACH * mpi else "missed"

    def words(self) -> list[str]:
        """What was measured."""
        return [
            f"A process alone takes {median(self.alone):.3f} s. Process 0 distributes and collects, and does "
            "not count, as in the paper. Products of numpy, one thread each; the time is that of process 0, "
            "from its first send to its last result. Medians of the rounds, with the least and the most."
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {"title": self.title, "order": self.order, "alone_seconds": self.alone, "speedups": self.samples}

    def draw(self, canvas: Any) -> None:
        """The paper's axes."""
        axes, most = canvas.subplots(), max(self.processes)
        axes.set(xlabel="number of processes that compute", ylabel="speedup")
        axes.set_xticks(list(self.processes))
        axes.plot([1, most], [1, most], color=FAINT, linestyle=(0, (2, 2)), linewidth=1.2, label="ideal")
        for name, counts in self.samples.items():
            values = [median(samples) for samples in counts.values()]
            axes.plot(list(counts), values, **LOOKS[name], label=self.libraries[name].title)
        axes.set_ylim(bottom=0)
        legend(axes)
