"""Sorting, paper 002, listing 2: the crew sorts parts of an array, and their owner merges them.

python -m examples.linda.sorting --crew 4 --place processes --numbers 1000000
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import phalanx as px
from numpy.typing import NDArray

from examples.linda.places import main

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Sorting:
    """``numbers`` integers, cut into ``parts``."""

    numbers: int = 100_000
    parts: int = 200

    def given(self) -> Numbers:
        """Returns the owner's numbers, the same in each run."""
        return np.random.default_rng(0).integers(-(2**62), 2**62, self.numbers)

    def portion(self, me: int, crew: int) -> None:
        """A member of the crew begins with no data."""

    def owner(self, space: px.Space, crew: int, unsorted: Numbers) -> Numbers:
        """Puts the parts, and merges them when all are sorted."""
        for part in np.array_split(unsorted, self.parts):
            space.out("sort_array", part, "unsorted")

        count, sorted_parts = 0, []
        while count != self.numbers:
            _, part = space.in_("sorted_parts", np.ndarray)
            sorted_parts.append(part)
            count += len(part)

        for _ in range(crew):
            space.out("sort_array", None, "finished")
        return reconstructed(sorted_parts)

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: None) -> None:
        """Sorts part after part."""
        _, part, status = owner.in_("sort_array", px.space.ANY, str)
        while status != "finished":
            owner.out("sorted_parts", np.sort(part))
            _, part, status = owner.in_("sort_array", px.space.ANY, str)

    def check(self, unsorted: Numbers, result: Numbers) -> None:
        """Raises AssertionError unless it equals numpy's sort of the whole array."""
        assert np.array_equal(result, np.sort(unsorted))


def reconstructed(parts: Sequence[Numbers]) -> Numbers:
    """Merges sorted arrays. numpy's default sort is vectorised, and takes half the time of its merge sort."""
    return np.sort(np.concatenate(parts))


if __name__ == "__main__":
    main(Sorting)
