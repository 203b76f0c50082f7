"""The mutations of the models. To run them takes long, so that a line that has changed would stay unnoticed."""

import runpy
from pathlib import Path

MUTATIONS = Path(__file__).parents[2] / "crates" / "phalanx-models" / "mutations.py"


def test_every_mutation_applies_to_the_sources() -> None:
    """A mutation is one line of a file, which must be there once, and another one in its place."""
    module = runpy.run_path(str(MUTATIONS))
    assert module["stale"]() == []
    assert all(it.line != it.other for it in module["MUTATIONS"])
