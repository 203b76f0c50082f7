"""The ranks of the survey: they take a job from the board and measure the light of its star, each in some of the rows.

It is started by survey.py, at machines of the grid. The ranks act for the user as far as ``delegate="all"`` says.
"""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from tempfile import TemporaryDirectory

import phalanx as px
from mpi4py import MPI

#: Frames are squares with so many pixels a side, of 16 bits each.
SIDE = 64
#: The light of a star is that of the pixels which are at most so far away, in rows and in columns.
AROUND = 5


def light_in(pixels: array[int], x: int, y: int, rank: int, size: int) -> int:
    """The light around a pixel, in the rows that belong to a rank."""
    rows = range(max(y - AROUND, 0), min(y + AROUND + 1, SIDE))
    columns = slice(max(x - AROUND, 0), min(x + AROUND + 1, SIDE))
    return sum(sum(pixels[row * SIDE : (row + 1) * SIDE][columns]) for row in rows if row % size == rank)


def main(store: str, board_name: str) -> None:
    """Measures one star."""
    world = MPI.COMM_WORLD
    with TemporaryDirectory() as folder, px.Space(board_name) as board:
        name, x, y = world.bcast(board.in_("job", str, int, int)[1:] if world.rank == 0 else None)
        px.copy(f"{store}/frames/{name}", f"{folder}/frame")
        pixels = array("H", Path(folder, "frame").read_bytes())
        light = world.reduce(light_in(pixels, x, y, world.rank, world.size))
        if light is not None:
            Path(folder, "light").write_text(f"{x} {y} {light}\n")
            px.copy(f"{folder}/light", f"{store}/frames/{name}.txt")
            board.out("light", name, light)


if __name__ == "__main__":
    main(*sys.argv[1:])
