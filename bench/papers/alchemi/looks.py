"""One look for each library, in all figures."""

from __future__ import annotations

from typing import Any

from bench.papers.muskel.drawing import SHADES

_NAP = {"linestyle": "--", "markerfacecolor": "white"}
#: What matplotlib's `plot` takes.
LOOKS: dict[str, dict[str, Any]] = {
    "mpi": {"color": SHADES[1], "marker": "o"},
    "bsp": {"color": SHADES[2], "marker": "s"},
    "mpich": {"color": SHADES[3], "marker": "^"},
    "mpich-nap": {"color": SHADES[3], "marker": "^", **_NAP},
    "openmpi": {"color": SHADES[4], "marker": "D"},
    "openmpi-nap": {"color": SHADES[4], "marker": "D", **_NAP},
}
