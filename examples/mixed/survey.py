"""Four models over one identity: frames of a telescope are copied to a machine, searched by a farm, measured by ranks.

1. Bulk transfer: the frames are copied from this machine to the store, a folder that a machine of the grid exports.
2. A farm: each task copies a frame from the store, and looks for a star in it.
3. A tuple space: where a task finds one, it puts a job on the board.
4. Message passing: for each job a program is started, whose ranks take the job from the board, copy the frame from the
   store, and measure the star together. Rank 0 copies the measurement beside the frame, and reports to the board.
5. Bulk transfer: the measurements are copied home.

Tasks and ranks run at other machines, and reach the store and the board there as the user. The user's key stays here:
``delegate=`` says what they may do, and machines have the same names everywhere.

    python examples/mixed/survey.py hosts.txt ws7:/scratch frames measured
"""

from __future__ import annotations

import argparse
import os
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import phalanx as px

#: Frames are squares with so many pixels a side, of 16 bits each.
SIDE = 64
#: A pixel that is brighter belongs to a star.
BRIGHT = 20_000
#: The program of the ranks.
EXAMINE = Path(__file__).with_name("examine.py")


def look(store: str, board: px.Space, name: str) -> bool:
    """A task: looks for a star in a frame of the store. Puts a job on the board if there is one.

    Parameters
    ----------
    store
        The folder of the survey, as in ``ws7:/scratch``.
    board
        The space that has the jobs.
    name
        The file name of the frame.

    Returns
    -------
    bool
        Whether there is a star.
    """
    with TemporaryDirectory() as folder:
        px.copy(f"{store}/frames/{name}", f"{folder}/frame")
        pixels = array("H", Path(folder, "frame").read_bytes())
    brightest = max(range(SIDE * SIDE), key=pixels.__getitem__)
    if pixels[brightest] <= BRIGHT:
        return False
    board.out("job", name, brightest % SIDE, brightest // SIDE)
    return True


def survey(grid: px.Grid, store: str, frames: Path, measured: Path, ranks: int) -> Iterator[tuple[str, int]]:
    """Copies the frames to the store, has them searched and measured, and copies the measurements home.

    Parameters
    ----------
    grid
        The machines, and who the user is to them. The first machine has the board.
    store
        A folder that a machine exports to read and write. The frames will be in a folder in it.
    frames, measured
        The folder with the frames, and the one for measurements, on this machine.
    ranks
        The number of processes that measure a star.

    Yields
    ------
    tuple of str and int
        The name of a frame with a star, and the light of the star.
    """
    names = sorted(entry.name for entry in frames.iterdir())
    if failures := grid.copy(frames, f"{store}/frames").failures:
        raise px.TransferError(f"not all frames are at {store}: {failures[0]}")
    with grid.space("survey") as board:
        with grid.manager(delegate="copies") as manager:  # the board is in the tasks, so that they may use it too
            stars = sum(manager.map(partial(look, store, board), names))
        first = next(iter(grid.machines))
        for _ in range(stars):
            grid.mpirun([os.fspath(EXAMINE), store, f"{first}/survey"], ranks, delegate="all")
            _, name, light = board.in_("light", str, int)
            yield name, light
    if stars:
        grid.copy(f"{store}/frames", measured, include="*.txt")


def main() -> None:
    """Runs the survey, and prints each star that was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("hosts", type=Path, help="a hosts file")
    parser.add_argument("store", help="a folder at a machine, as in ws7:/scratch")
    parser.add_argument("frames", type=Path, help="the folder with the frames")
    parser.add_argument("measured", type=Path, help="a folder for the measurements")
    parser.add_argument("--ranks", type=int, default=2, help="the processes for each star")
    options = parser.parse_args()
    for name, light in survey(px.Grid(options.hosts), options.store, options.frames, options.measured, options.ranks):
        print(f"{name}: a star of light {light}", flush=True)


if __name__ == "__main__":
    main()
