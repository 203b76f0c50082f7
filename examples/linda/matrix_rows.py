"""Matrix multiplication by rows, paper 002, listing 4: C = A · B, with the rows of B in the spaces of the crew.

python -m examples.linda.matrix_rows --crew 4 --place processes --size 50
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import phalanx as px

from examples.linda.matrices import Matrix, matrices
from examples.linda.places import main, meet
from examples.linda.search import Search


@dataclass(frozen=True)
class MatrixRows:
    """Square matrices of ``size`` rows.

    B is ``spread`` over the crew or at one member; ``order`` as in :class:`Search`.
    """

    size: int = 30
    spread: bool = True
    order: str = "listing"

    def given(self) -> tuple[Matrix, Matrix]:
        """Returns A and B."""
        return matrices(self.size)

    def portion(self, me: int, crew: int) -> None:
        """A member of the crew begins with no data."""

    def owner(self, space: px.Space, crew: int, given: tuple[Matrix, Matrix]) -> Matrix:
        """Puts the rows of both matrices, and collects the rows of the product."""
        a, b = given
        for row in range(self.size):
            space.out("matrix_a", row, a[row], self.size)
            space.out("matrix_b", row, b[row], self.size)
        c = np.empty_like(a)
        for row in range(self.size):
            _, _, c[row], _ = space.in_("matrix_c", row, np.ndarray, self.size)
        return c

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: None) -> None:
        """Takes its share of both matrices, then computes its rows of C, step by step as in the paper."""
        local, crew = spaces[me], len(spaces)
        search = Search(spaces, me, self.order, "1" if self.spread else "0")
        share = self.size // crew + (me < self.size % crew)
        for _ in range(share if self.spread else self.size if me == 0 else 0):
            _, row, values, size = owner.in_("matrix_b", int, np.ndarray, int)
            search.home.out("matrix_b", row, values, size)
        tasks = [owner.in_("matrix_a", int, np.ndarray, int) for _ in range(share)]
        meet(owner, "loaded", me, crew)

        for _, row, factors, _ in tasks:
            for k in range(self.size):
                _, _, values, _ = search.rdp(k if self.spread else 0, "matrix_b", k, np.ndarray, int)
                partial, count = values * factors[k], 1
                found = local.inp("matrix_c", row, np.ndarray, int)
                if found:
                    partial, count = partial + found[2], found[3] + 1
                (owner if count == self.size else local).out("matrix_c", row, partial, count)

    def check(self, given: tuple[Matrix, Matrix], product: Matrix) -> None:
        """Raises AssertionError unless it equals numpy's product exactly (all numbers are whole)."""
        assert np.array_equal(product, given[0] @ given[1])


if __name__ == "__main__":
    main(MatrixRows)
