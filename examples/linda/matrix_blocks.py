"""Matrix multiplication by blocks, paper 002, listing 5: C = A · B, with all blocks in the owner's space.

python -m examples.linda.matrix_blocks --crew 4 --place processes --size 50 --block 10
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import phalanx as px

from examples.linda.matrices import Matrix, matrices
from examples.linda.places import main


@dataclass(frozen=True)
class MatrixBlocks:
    """Square matrices of ``size`` rows, cut into square blocks of ``block`` rows, a divisor of ``size``."""

    size: int = 30
    block: int = 10

    def __post_init__(self) -> None:
        if self.block < 1 or self.size % self.block:
            raise ValueError(f"{self.size} rows cannot be cut into blocks of {self.block}")

    def given(self) -> tuple[Matrix, Matrix]:
        """Returns A and B."""
        return matrices(self.size)

    def portion(self, me: int, crew: int) -> None:
        """A member of the crew begins with no data."""

    def owner(self, space: px.Space, crew: int, given: tuple[Matrix, Matrix]) -> Matrix:
        """Puts all blocks and tasks, and collects the blocks of C that are complete."""
        a, b = given
        c = np.zeros_like(a)
        blocks = self.size // self.block
        for i in range(blocks):
            for j in range(blocks):
                space.out("matrix_a", i, j, a[self.at(i, j)])
                space.out("matrix_b", i, j, b[self.at(i, j)])
                space.out("matrix_c", i, j, 0, c[self.at(i, j)])
                for k in range(blocks):
                    space.out("task", i, j, k)

        for _ in range(blocks * blocks):
            _, i, j, _, block = space.in_("matrix_c", int, int, blocks, np.ndarray)
            c[self.at(i, j)] = block

        for _ in range(crew):
            space.out("task", -1, -1, -1)
        return c

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: None) -> None:
        """Takes tasks: for each, adds the product of two blocks to a block of C."""
        while True:
            _, i, j, k = owner.in_("task", int, int, int)
            if i == -1:
                break
            _, _, _, block_a = owner.rd("matrix_a", i, k, np.ndarray)
            _, _, _, block_b = owner.rd("matrix_b", k, j, np.ndarray)
            product = block_a @ block_b
            _, _, _, count, block_c = owner.in_("matrix_c", i, j, int, np.ndarray)
            owner.out("matrix_c", i, j, count + 1, block_c + product)

    def at(self, i: int, j: int) -> tuple[slice, slice]:
        """The rows and columns of block (i, j) in a matrix."""
        return slice(i * self.block, (i + 1) * self.block), slice(j * self.block, (j + 1) * self.block)

    def check(self, given: tuple[Matrix, Matrix], product: Matrix) -> None:
        """Raises AssertionError unless it equals numpy's product exactly (all numbers are whole)."""
        assert np.array_equal(product, given[0] @ given[1])


if __name__ == "__main__":
    main(MatrixBlocks)
