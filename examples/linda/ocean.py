"""Ocean model, paper 002, listing 3: an enclosed body of water, divided into panels that the crew computes.

    python -m examples.linda.ocean --crew 4 --place processes --grid 300

The water is shallow: each point of the grid has an elevation and a current, which wind and bottom change.
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
INNER = slice(1, -1), slice(1, -1)
OPPOSITE = {"left": "right", "right": "left"}
GRAVITY, CELL, STEP, FRICTION, WIND = 9.81, 1000.0, 5.0, 1e-4, 1e-4  # m/s², m, s, 1/s, m²/s²


@dataclass(frozen=True)
class Ocean:
    """A square of ``grid`` by ``grid`` points over ``steps`` time-steps; ``order`` as in :class:`Search`."""

    grid: int = 100
    steps: int = 20
    order: str = "listing"

    def given(self) -> Water:
        """Returns a hill of water in the middle, at rest."""
        water = np.zeros((3, self.grid, self.grid))
        distance = np.hypot(*(np.indices((self.grid, self.grid)) - self.grid / 2))
        water[0] = np.exp(-((8 * distance / self.grid) ** 2))
        return water

    def portion(self, me: int, crew: int) -> None:
        """A member of the crew begins with no data."""

    def owner(self, space: px.Space, crew: int, water: Water) -> Water:
        """Splits the water into a panel for each member, and joins the panels when all are done."""
        for number, panel in enumerate(np.array_split(water, crew, axis=2)):
            space.out("ocean_model", "panel", number, panel)
        panels = {}
        for _ in range(crew):
            _, _, number, panel = space.in_("ocean_model", "ready_panel", int, np.ndarray)
            panels[number] = panel
        return np.concatenate([panels[number] for number in range(crew)], axis=2)

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: None) -> None:
        """Takes a panel, and at each step exchanges its borders with the members that have the neighbouring panels."""
        search = Search(spaces, me, self.order, "3")
        _, _, number, panel = owner.in_("ocean_model", "panel", int, np.ndarray)
        borders = [("left", number - 1, 0)] if number > 0 else []
        borders += [("right", number + 1, -1)] if number < len(spaces) - 1 else []
        for step in range(self.steps):
            for side, neighbour, column in borders:
                to = border(neighbour, OPPOSITE[side])
                search.home.out("ocean_model", "border", step, to, panel[:, :, column])
            sides = {}
            for side, _, _ in borders:
                mine = border(number, side)
                sides[side] = search.inp(mine, "ocean_model", "border", step, mine, np.ndarray)[-1]
            panel = advanced(panel, **sides)
        owner.out("ocean_model", "ready_panel", number, panel)

    def check(self, water: Water, result: Water) -> None:
        """Raises AssertionError unless it equals, bit by bit, the result of computing the undivided grid."""
        for _ in range(self.steps):
            water = advanced(water)
        assert np.array_equal(result, water)


def border(number: int, side: str) -> int:
    """The number of the border at this side of a panel."""
    return 2 * number + (side == "right")


def advanced(water: Water, left: Water | None = None, right: Water | None = None) -> Water:
    """The panel after one step; ``left`` and ``right`` are the neighbours' columns beside it, None at the shore."""
    elevation, along, across = _widened(water, left, right)
    depth = 50.0 + elevation
    after = np.empty_like(water)
    # In place where it can be: new memory costs as much as the arithmetic.
    spread = _rise_along(along * depth)
    spread += _rise_across(across * depth)
    spread *= STEP / (2 * CELL)
    np.subtract(elevation[INNER], spread, out=after[0])
    for moved, current, rise in ((after[1], along, _rise_along), (after[2], across, _rise_across)):
        slope = rise(elevation)
        slope *= STEP * GRAVITY / (2 * CELL)
        np.multiply(current[INNER], 1 - STEP * FRICTION, out=moved)
        moved -= slope
    after[1] += STEP * WIND / depth[INNER]
    return after


def _rise_along(field: NDArray[np.float64]) -> NDArray[np.float64]:
    """The difference between the columns after and before each inner point."""
    return field[1:-1, 2:] - field[1:-1, :-2]


def _rise_across(field: NDArray[np.float64]) -> NDArray[np.float64]:
    return field[2:, 1:-1] - field[:-2, 1:-1]


def _widened(water: Water, left: Water | None, right: Water | None) -> Water:
    """Adds a row and a column on each side: the neighbour's, or a copy of the edge at the shore."""
    wide = np.empty((3, water.shape[1] + 2, water.shape[2] + 2))
    wide[:, 1:-1, 1:-1] = water
    wide[:, 1:-1, 0] = water[:, :, 0] if left is None else left
    wide[:, 1:-1, -1] = water[:, :, -1] if right is None else right
    wide[:, 0], wide[:, -1] = wide[:, 1], wide[:, -2]
    return wide


if __name__ == "__main__":
    main(Ocean)
