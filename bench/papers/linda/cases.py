"""The case studies with the paper's parameters, and which of its metrics it plots for each (section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from examples.linda.matrix_blocks import MatrixBlocks
from examples.linda.matrix_rows import MatrixRows
from examples.linda.ocean import Ocean
from examples.linda.password_search import PasswordSearch
from examples.linda.places import Program
from examples.linda.search import SEARCH_TIME, VISITED
from examples.linda.sorting import Sorting

TOTAL = "total time"
LOCAL_WRITING, LOCAL_READING = "local writing time", "local reading time"
REMOTE_WRITING, REMOTE_READING = "remote writing time", "remote reading time"
#: All of the paper's, in its order (section 3.3).
METRICS = (LOCAL_WRITING, LOCAL_READING, REMOTE_WRITING, REMOTE_READING, SEARCH_TIME, TOTAL, VISITED)


@dataclass(frozen=True)
class Size:
    """One workload: a column of plots."""

    label: str
    program: Program


@dataclass(frozen=True)
class Case:
    """A case study: ``plotted`` are the metrics that the paper has figures of, numbered in ``figures``."""

    title: str
    figures: str
    plotted: Sequence[str]
    sizes: Sequence[Size]
    crews: Sequence[int] = (1, 5, 10, 15)
    rounds: int = 3

    def quick(self) -> Case:
        """The same, over in seconds."""
        return replace(self, sizes=self.sizes[:1], crews=[crew for crew in self.crews if crew <= 5], rounds=1)

    def limited(self, crews: Sequence[int] | None, runs: int | None) -> Case:
        """With other crews and so many runs, where that is said; never a crew of one where none is to be measured."""
        chosen = self.crews if crews is None else [crew for crew in crews if crew >= min(self.crews)]
        return replace(self, crews=chosen, rounds=self.rounds if runs is None else max(1, runs))


def cases(order: str) -> dict[str, Case]:
    """By name; ``order`` is the one in which searches visit spaces."""
    return {
        "password-search": Case(
            "Password search",
            "6 to 10",
            (TOTAL, LOCAL_WRITING, LOCAL_READING, SEARCH_TIME, VISITED),
            [
                Size(f"{shown} passwords", PasswordSearch(count, order=order))
                for shown, count in (("10 thousand", 10_000), ("100 thousand", 100_000), ("1 million", 1_000_000))
            ],
        ),
        "sorting": Case(
            "Sorting",
            "11 to 14",
            (TOTAL, REMOTE_READING, LOCAL_WRITING),
            [
                Size(f"{shown} elements", Sorting(count))
                for shown, count in (("100 thousand", 100_000), ("1 million", 1_000_000), ("10 million", 10_000_000))
            ],
        ),
        "ocean": Case(
            "Ocean model",
            "15 to 18",
            (VISITED, TOTAL, REMOTE_READING),
            [Size(f"grid size {grid}", Ocean(grid, order=order)) for grid in (300, 600, 1200)],
            crews=(5, 10, 15),  # with one there is nobody to share with
        ),
        "matrix-rows": Case(
            "Matrix multiplication by rows",
            "19 to 22",
            (TOTAL, VISITED, SEARCH_TIME, REMOTE_READING),
            [
                Size(f"order {size}{'' if spread else ', B at one'}", MatrixRows(size, spread, order))
                for size in (50, 100)
                for spread in (True, False)
            ],
        ),
        "matrix-blocks": Case(
            "Matrix multiplication by blocks",
            "25 and 26",
            (TOTAL, REMOTE_READING),
            [
                Size(f"order {size}, blocks of {block}", MatrixBlocks(size, block))
                for size in (50, 100)
                for block in (10, 5)
            ],
        ),
    }
