"""The frames of the survey in examples/mixed, and what must come of them. On one machine and on several."""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random

PROGRAM = Path(__file__).parents[2] / "examples" / "mixed" / "survey.py"
#: As in the example: pixels a side, and how far the light of a star reaches.
SIDE, AROUND = 64, 5


def frames_in(folder: Path, stars: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Writes frames of noise, with a star at the place that is told for some of them, and one without.

    Returns
    -------
    dict
        The light of each star, by the name of its frame.
    """
    folder.mkdir()
    random, light = Random(0), {}
    for name in ("dark.raw", *stars):
        pixels = array("H", (random.randrange(1000) for _ in range(SIDE * SIDE)))
        if name in stars:
            x, y = stars[name]
            pixels[y * SIDE + x] = 60_000
            near = [(a, b) for a in range(SIDE) for b in range(SIDE) if max(abs(a - x), abs(b - y)) <= AROUND]
            light[name] = sum(pixels[b * SIDE + a] for a, b in near)
        (folder / name).write_bytes(pixels.tobytes())
    return light


#: Stars in the middle and at a corner.
STARS = {"frame-1.raw": (20, 40), "frame-2.raw": (0, SIDE - 1)}


def check(printed: str, measured: Path, light: dict[str, int]) -> None:
    """Raises AssertionError unless the survey has printed each star, and brought its measurement home."""
    assert sorted(printed.splitlines()) == sorted(f"{name}: a star of light {light[name]}" for name in light)
    files = {entry.name: entry.read_text().split() for entry in measured.iterdir()}
    assert files == {f"{name}.txt": [str(x), str(y), str(light[name])] for name, (x, y) in STARS.items()}
