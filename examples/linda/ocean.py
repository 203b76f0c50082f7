"""Ocean model, paper 002, listing 3: an enclosed body of water, whose panels are computed by the crew.

    python -m examples.linda.ocean --crew 4 --place processes --grid 300

The water is shallow: at each point of the grid it has an elevation and a current, which wind and bottom move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import phalanx as px
from numpy.typing import NDArray

from examples.linda.places import main
from examples.linda.search import Search

#: Elevation and the two currents (m, m/s) by row and column: shape (3, rows, columns).
Water = NDArray[np.float64]
GRAVITY, CELL, STEP, FRICTION, WIND = 9.81, 1000.0, 5.0, 1e-4, 1e-4  # m/s², m, s, 1/s, m²/s²


@dataclass(frozen=True)
class Ocean:
    """A square of ``grid`` by ``grid`` points over ``steps`` time-steps; ``order`` as in :class:`Search`."""

    grid: int = 100
    steps: int = 20
    order: str = "listing"

    def given(self) -> Water:
        """A hill of water in the middle, at rest."""
        water = np.zeros((3, self.grid, self.grid))
        distance = np.hypot(*(np.indices((self.grid, self.grid)) - self.grid / 2))
        water[0] = np.exp(-((8 * distance / self.grid) ** 2))
        return water

    def portion(self, me: int, crew: int) -> None:
        """The crew begins with nothing."""

    def owner(self, space: px.Space, crew: int, water: Water) -> Water:
        """Splits the water into a panel for each of the crew, and puts it together when all are done."""
        for number, panel in enumerate(np.array_split(water, crew, axis=2)):
            space.out("ocean_model", "panel", number, panel)
        panels = {}
        for _ in range(crew):
            _, _, number, panel = space.in_("ocean_model", "ready_panel", int, np.ndarray)
            panels[number] = panel
        return np.concatenate([panels[number] for number in range(crew)], axis=2)

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: None) -> None:
        """Takes a panel, and at each step shares its borders with whoever has the panels beside it."""
        search = Search(spaces, me, self.order)
        _, _, number, panel = owner.in_("ocean_model", "panel", int, np.ndarray)
        left, right = number > 0, number < len(spaces) - 1
        for step in range(self.steps):
            # A border has the number of the panel that it is for.
            if left:
                name = f"{step} for {number - 1} from the right"
                spaces[search.home(number - 1, me)].out("ocean_model", "border", name, panel[:, :, 0])
            if right:
                name = f"{step} for {number + 1} from the left"
                spaces[search.home(number + 1, me)].out("ocean_model", "border", name, panel[:, :, -1])

            sides = [panel]
            if left:
                name = f"{step} for {number} from the left"
                sides.insert(0, search.inp("ocean_model", "border", name, np.ndarray, home=number)[-1][:, :, None])
            if right:
                name = f"{step} for {number} from the right"
                sides.append(search.inp("ocean_model", "border", name, np.ndarray, home=number)[-1][:, :, None])
            panel = advanced(np.concatenate(sides, axis=2), left=left, right=right)
        owner.out("ocean_model", "ready_panel", number, panel)

    def check(self, water: Water, result: Water) -> None:
        """AssertionError unless it is, bit by bit, what the whole grid becomes when it is not divided."""
        for _ in range(self.steps):
            water = advanced(water, left=False, right=False)
        assert np.array_equal(result, water)


def advanced(water: Water, *, left: bool, right: bool) -> Water:
    """The panel after one step; ``left`` and ``right``: the first and last column are a neighbour's, else the shore."""
    elevation, along, across = np.pad(water, ((0, 0), (1, 1), (0 if left else 1, 0 if right else 1)), mode="edge")
    depth = 50.0 + elevation
    slope_along = (elevation[1:-1, 2:] - elevation[1:-1, :-2]) / (2 * CELL)
    slope_across = (elevation[2:, 1:-1] - elevation[:-2, 1:-1]) / (2 * CELL)
    flow_along, flow_across = along * depth, across * depth
    spread = (flow_along[1:-1, 2:] - flow_along[1:-1, :-2] + flow_across[2:, 1:-1] - flow_across[:-2, 1:-1]) / (2 * CELL)
    inner = slice(1, -1), slice(1, -1)
    return np.stack(
        [
            elevation[inner] - STEP * spread,
            along[inner] + STEP * (WIND / depth[inner] - GRAVITY * slope_along - FRICTION * along[inner]),
            across[inner] - STEP * (GRAVITY * slope_across + FRICTION * across[inner]),
        ]
    )


if __name__ == "__main__":
    main(Ocean)
