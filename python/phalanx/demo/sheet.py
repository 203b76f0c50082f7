"""The contact sheet: the most different pictures of every scan on one dark page."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from PIL import Image, ImageDraw, ImageFont

from phalanx.demo.slices import Picture

T = TypeVar("T")

COLUMNS = 6
#: Pictures on a sheet; of more scans, some are shown.
MOST = 60
SIDE, GAP, CAPTION, HEAD, MARGIN = 250, 14, 46, 84, 32
PAGE, MAT, BRIGHT, DIM = "#14161a", "#000000", "#e8eaed", "#8b929c"


def contact_sheet(pictures: Sequence[Picture], folder: Path, subtitle: str) -> Path:
    """Write `contact-sheet.png` into `folder`, where the pictures were saved before, and say where it is."""
    shown = choose(pictures)
    rows = -(-len(shown) // COLUMNS)
    width = 2 * MARGIN + COLUMNS * SIDE + (COLUMNS - 1) * GAP
    sheet = Image.new("RGB", (width, HEAD + rows * (SIDE + CAPTION + GAP) + MARGIN), PAGE)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, 24), "phalanx", BRIGHT, ImageFont.load_default(30))
    draw.text((width - MARGIN, 36), subtitle, DIM, ImageFont.load_default(17), anchor="ra")
    for place, picture in enumerate(shown):
        row, column = divmod(place, COLUMNS)
        corner = (MARGIN + column * (SIDE + GAP), HEAD + row * (SIDE + CAPTION + GAP))
        _put(sheet, corner, picture, folder)
    path = folder / "contact-sheet.png"
    sheet.save(path)
    return path


def choose(pictures: Sequence[Picture]) -> list[Picture]:
    """At most `MOST`, as many of each scan, of each scan as many different looks and frames as possible."""
    scans = [list(group) for _, group in itertools.groupby(pictures, key=lambda picture: picture.scan)]
    each = min(COLUMNS, max(1, MOST // max(len(scans), 1)))
    return [picture for scan in evenly(scans, MOST // each) for picture in _different(scan, each)]


def _different(pictures: Sequence[Picture], most: int) -> list[Picture]:
    looks: defaultdict[str, list[Picture]] = defaultdict(list)
    for picture in pictures:
        looks[picture.view.name].append(picture)
    ends = [most * end // len(looks) for end in range(len(looks) + 1)]
    shares = [end - start for start, end in itertools.pairwise(ends)]
    chosen = (evenly(look, share) for look, share in zip(looks.values(), shares, strict=True))
    return list(itertools.chain.from_iterable(chosen))


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of the items, evenly spread."""
    count = min(most, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def _put(sheet: Image.Image, corner: tuple[int, int], picture: Picture, folder: Path) -> None:
    left, top = corner
    draw = ImageDraw.Draw(sheet)
    draw.rectangle((left, top, left + SIDE - 1, top + SIDE - 1), MAT)
    with Image.open(folder / picture.name) as image:
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        sheet.paste(image, (left + (SIDE - image.width) // 2, top + (SIDE - image.height) // 2))
    below = top + SIDE + 8
    draw.text((left, below), picture.title, BRIGHT, ImageFont.load_default(15))
    frame = f"frame {picture.frame} of {picture.frames}"
    draw.text((left + SIDE, below + 2), frame, DIM, ImageFont.load_default(13), anchor="ra")
    look = f"{picture.view.name}, light {picture.view.light:.0f}°"
    draw.text((left, below + 19), look, DIM, ImageFont.load_default(13))
