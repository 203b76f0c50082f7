"""The second stage of paper 000's sample program: the rendering, several times the filter's work."""

from __future__ import annotations

import io
import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from phalanx.demo.annotating import annotate
from phalanx.demo.lighting import illuminate
from phalanx.demo.slices import PaletteName, Picture, Plane, Slab, Slice

#: Shape (rows, columns, 3), red, green and blue, 0 to 1.
Colours: TypeAlias = npt.NDArray[np.float32]
#: Pixels of a picture, whatever the size of the frame.
AREA = 448 * 448
#: Height of white above black in the strongest relief, in pixels of the picture.
DEPTH = 60.0
#: Elevation of the eye in an oblique view, in degrees.
TILT = 42.0
#: Centre and width of usual CT windows, in Hounsfield units.
PRESETS = {"soft tissue": (40.0, 400.0), "bone": (500.0, 2000.0)}
PERCENTILES = {"wide": (1.0, 99.9), "narrow": (25.0, 99.0)}
PALETTES: dict[PaletteName, list[tuple[float, str]]] = {
    "gray": [(0, "#000000"), (1, "#ffffff")],
    "inverse": [(0, "#f4f6f8"), (1, "#06080c")],
    "bone": [(0, "#000000"), (0.25, "#28323d"), (0.6, "#8fa6b2"), (1, "#ffffff")],
    "copper": [(0, "#000000"), (0.3, "#4a1d12"), (0.65, "#c4763f"), (0.88, "#f3d3a2"), (1, "#fffaf0")],
    "hot iron": [(0, "#000000"), (0.3, "#8c1200"), (0.6, "#f06a00"), (0.85, "#ffd24a"), (1, "#ffffff")],
    "sepia": [(0, "#000000"), (0.4, "#5b3a1e"), (0.75, "#c9a06a"), (1, "#fff4dc")],
}


def render(slice_: Slice) -> Picture:
    """The picture that `slice_.view` asks for, as a compressed PNG; one thread."""
    view = slice_.view
    plane = projected(slice_.pixels)
    limits = limits_of(plane, slice_)
    shown = fit(windowed(plane, limits), slice_.aspect)
    heights = ndimage.gaussian_filter(shown, 1.4) * np.float32(DEPTH * view.relief)
    brightness, highlight = illuminate(heights, view.light)
    colour = coloured(shown, view.palette)
    lit = colour * (1 - view.relief + view.relief * brightness)[..., None]
    lit += (np.float32(0.35 * view.relief) * highlight * shown)[..., None]
    if view.oblique:
        lit = seen_from_the_side(lit, heights, view.turn)
    image = _image(lit)
    if view.oblique:  # a landscape has no scale
        annotate(image, window_text(limits, slice_))
    else:
        pixel = slice_.pixel and slice_.pixel * plane.shape[1] / image.width
        annotate(image, window_text(limits, slice_), pixel, slice_.sides)
    return Picture(_png(image), slice_.number, slice_.scan, slice_.title, slice_.frame, slice_.frames, view)


def projected(slab: Slab) -> Plane:
    """Maximum intensity projection; layers further from the last one are dimmer, which shows depth."""
    layers = len(slab)
    weights = np.linspace(0.7, 1.0, layers, dtype=np.float32) if layers > 1 else np.ones(1, np.float32)
    plane: Plane = np.max(slab * weights[:, None, None], axis=0)
    return plane


def windowed(plane: Plane, limits: tuple[float, float]) -> Plane:
    """The plane's values as brightness from 0 to 1 (DICOM PS3.3, C.11.2.1.2)."""
    low, high = limits
    shown: Plane = np.clip((plane - np.float32(low)) / np.float32(max(high - low, 1e-6)), 0, 1)
    return shown


def limits_of(plane: Plane, slice_: Slice) -> tuple[float, float]:
    """The values that are shown black and white."""
    window = slice_.view.window
    if window in PRESETS:
        centre, width = PRESETS[window]
        return centre - width / 2, centre + width / 2
    if window in PERCENTILES:
        low, high = np.percentile(plane, PERCENTILES[window])
        return float(low), float(high)
    return slice_.window


def window_text(limits: tuple[float, float], slice_: Slice) -> str:
    """Centre and width of the window: `C 40 W 400 HU`."""
    low, high = limits
    unit = " HU" if slice_.title.startswith("CT") else ""
    return f"C {(low + high) / 2:.0f} W {high - low:.0f}{unit}"


def fit(plane: Plane, aspect: float) -> Plane:
    """Resample to `AREA` square pixels by cubic splines."""
    rows, columns = plane.shape
    scale = math.sqrt(AREA / (rows * aspect * columns))
    fitted: Plane = np.clip(ndimage.zoom(plane, (scale * aspect, scale), order=3), 0, 1)
    return fitted


def coloured(plane: Plane, palette: PaletteName) -> Colours:
    """The plane's values, 0 to 1, in the palette's colours."""
    stops = PALETTES[palette]
    colours = np.array([[int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)] for _, code in stops])
    places = [place for place, _ in stops]
    channels = [np.interp(plane, places, colours[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).astype(np.float32)


def seen_from_the_side(picture: Colours, heights: Plane, turn: float) -> Colours:
    """The lit height field as a landscape: turned, tilted, what is behind a hill hidden by it."""
    picture = ndimage.rotate(picture, turn, order=1, mode="constant")
    heights = np.maximum(ndimage.rotate(heights, turn, order=1, mode="constant"), 0)
    rows, columns = heights.shape
    flat, up = math.sin(math.radians(TILT)), math.cos(math.radians(TILT))
    ground = np.arange(rows, dtype=np.float32)[:, None] * np.float32(flat)
    # From the front row backwards: a row is seen only above the highest one before it.
    tops = np.minimum.accumulate((ground - heights * np.float32(up))[::-1], axis=0)
    tall = math.ceil(rows * flat)
    reached = np.clip(np.ceil(tops), 0, tall).astype(np.intp)
    # For a pixel, the visible row is the number of rows whose tops are all below it.
    counts = np.bincount((reached * columns + np.arange(columns)).ravel(), minlength=(tall + 1) * columns)
    hidden = np.cumsum(counts.reshape(tall + 1, columns)[::-1], axis=0)[::-1][1:]
    visible = rows - 1 - np.minimum(hidden, rows - 1)
    return _trimmed(picture[visible, np.arange(columns)])


def _trimmed(picture: Colours) -> Colours:
    """Without the dark margins that turning and tilting left."""
    seen = picture.max(axis=2) > 0.06
    down, right = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return picture[down[0] : down[-1] + 1, right[0] : right[-1] + 1] if len(down) else picture


def _image(picture: Colours) -> Image.Image:
    levels = (np.clip(picture, 0, 1) * np.float32(255) + np.float32(0.5)).astype(np.uint8)
    return Image.fromarray(levels)


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
