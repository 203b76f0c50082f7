"""What a reader of scans expects on a picture: its window, a scale, and which side of the patient is where.

The letters come from a bitmap font, scaled by whole numbers, so two machines draw the same picture.
"""

from __future__ import annotations

import math

from PIL import Image, ImageDraw, ImageFont

from phalanx.demo.slices import Sides

#: How many pixels of the picture a pixel of the font takes: letters stay readable on the contact sheet.
SCALE = 2
#: Distance of all marks from the edges, in pixels.
MARGIN = 8
#: Of the scale bar, in pixels.
THICKNESS = 4
#: The longest scale bar is this part of the picture's width.
LONGEST = 0.25
WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def annotate(image: Image.Image, window: str, pixel: float | None = None, sides: Sides | None = None) -> None:
    """Write on the picture: its window, a scale bar if the size of a pixel in mm is known, and letters of the sides."""
    _write(image, window, (0, 1))
    if pixel:
        _draw_scale(image, pixel)
    if sides:
        for letter, place in zip(sides, ((0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1)), strict=True):
            _write(image, letter, place)


def scale_bar(width: int, pixel: float) -> tuple[int, str]:
    """The length in pixels and the text of the longest bar that is short enough: 1, 2 or 5 times a power of ten mm."""
    most = LONGEST * width * pixel
    power = 10.0 ** math.floor(math.log10(most))
    length = max(digit * power for digit in (1, 2, 5) if digit * power <= most)
    return round(length / pixel), f"{length / 10:g} cm" if length >= 10 else f"{length:g} mm"


def _draw_scale(image: Image.Image, pixel: float) -> None:
    length, text = scale_bar(image.width, pixel)
    right, bottom = image.width - MARGIN, image.height - MARGIN
    image.paste(BLACK, (right - length - 1, bottom - THICKNESS - 1, right + 1, bottom + 1))
    image.paste(WHITE, (right - length, bottom - THICKNESS, right, bottom))
    label = _label(text)
    _put(image, label, (right - label.width, bottom - THICKNESS - 4 - label.height))


def _write(image: Image.Image, text: str, place: tuple[float, float]) -> None:
    """Write at a place, from 0 to 1 across and down between the margins."""
    label = _label(text)
    across, down = place
    room = image.width - 2 * MARGIN - label.width, image.height - 2 * MARGIN - label.height
    _put(image, label, (MARGIN + round(across * room[0]), MARGIN + round(down * room[1])))


def _label(text: str) -> Image.Image:
    """The text as a mask."""
    font = ImageFont.load_default_imagefont()
    left, top, right, bottom = map(round, font.getbbox(text))
    mask = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(mask).text((-left, -top), text, 255, font)
    mask = mask.crop(mask.getbbox())
    return mask.resize((SCALE * mask.width, SCALE * mask.height), Image.Resampling.NEAREST)


def _put(image: Image.Image, label: Image.Image, corner: tuple[int, int]) -> None:
    """White with a dark rim, which is readable on every palette."""
    left, top = corner
    for across, down in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        image.paste(BLACK, (left + across, top + down), label)
    image.paste(WHITE, corner, label)
