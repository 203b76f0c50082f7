"""Decoding scans into a lazy stream of slices."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydicom import Dataset
from pydicom.multival import MultiValue
from pydicom.pixels.processing import apply_rescale
from pydicom.pixels.utils import pixel_array
from scipy import ndimage

from phalanx.demo.finding import Scan, Skipped, quietly
from phalanx.demo.planning import Shot
from phalanx.demo.slices import Plane, Sides, Slab, Slice

#: How many frames a projection looks through: the one asked for and those before it.
LAYERS = 5
#: ImageOrientationPatient and SequenceOfUltrasoundRegions, which are read along with the elements that describe pixels.
GEOMETRY = [0x00200037, 0x00186011]
#: The unit of an ultrasound region's pixels.
CENTIMETRES = 3
#: The sides of the patient against and along each axis of the patient's coordinates.
SIDES = ("RL", "AP", "FH")
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def decodable(scans: Iterable[Scan], skipped: Skipped) -> list[Scan]:
    """The scans in encodings that can be decoded here. One scan of each encoding is tried, not every one."""
    understood: set[str] = set()
    kept = []
    for scan in scans:
        try:
            if scan.encoding not in understood:
                _opened(scan)
        except _Undecodable as error:
            skipped.add(scan.copies[0], f"cannot be decoded ({error})")
            continue
        understood.add(scan.encoding)
        kept.append(scan)
    return kept


def slices(shots: Iterable[Shot], skipped: Skipped | None = None) -> Iterator[Slice]:
    """The tasks, decoded when they are asked for. Shots of one scan stand together.

    What cannot be decoded is noted in `skipped`, and the stream goes on with the next scan.
    """
    skipped = skipped or Skipped()
    numbers = itertools.count(1)
    for scan, group in itertools.groupby(shots, key=lambda shot: shot.scan):
        try:
            frames = _opened(scan)
            for shot in group:
                yield frames.slice_of(shot, next(numbers))
        except _Undecodable as error:
            skipped.add(scan.copies[0], f"cannot be decoded ({error})")


class _Undecodable(Exception):
    """Decoders raise whatever they like: this is what they mean."""


class _Frames:
    """The frames of one file. Raises _Undecodable for a file without a decoder here, or a broken one."""

    def __init__(self, scan: Scan, path: Path) -> None:
        self._path = path
        self._header = Dataset()
        self.plane = functools.lru_cache(maxsize=LAYERS)(self._plane)
        self._crop: tuple[slice, slice] = np.s_[:, :]
        if scan.modality == "US":
            self._crop = scanned_part(self._plane(0))
        self._window = window_of(self._header, self.plane(0))
        self._geometry = _geometry(self._header)

    def slice_of(self, shot: Shot, number: int) -> Slice:
        """The task for `shot`."""
        scan = shot.scan
        pixels = self._slab(shot.frame, LAYERS if shot.view.projection else 1)
        origin = (scan.name, scan.title, shot.frame + 1, scan.frames)
        return Slice(pixels, number, *origin, self._window, *self._geometry, shot.view)

    def _slab(self, frame: int, layers: int) -> Slab:
        return np.stack([self.plane(index) for index in range(max(0, frame + 1 - layers), frame + 1)])

    def _plane(self, frame: int) -> Plane:
        try:
            with quietly():
                values = pixel_array(self._path, index=frame, ds_out=self._header, specific_tags=GEOMETRY)
            return brightness(values, self._header)[self._crop]
        except Exception as error:
            raise _Undecodable(" ".join(str(error).split())[-100:] or type(error).__name__) from error


def _opened(scan: Scan) -> _Frames:
    """The first of the scan's copies that can be decoded."""
    for path in scan.copies[:-1]:
        try:
            return _Frames(scan, path)
        except _Undecodable:
            continue
    return _Frames(scan, scan.copies[-1])


def brightness(values: npt.NDArray[Any], header: Dataset) -> Plane:
    """One value a pixel, brighter is more: Hounsfield units in a CT, luminance of a frame with colours."""
    if values.ndim == 3:
        return np.asarray(values[..., :3] @ LUMINANCE, np.float32)
    plane = np.asarray(apply_rescale(values, header), np.float32)
    return plane.max() - plane if header.PhotometricInterpretation == "MONOCHROME1" else plane


def scanned_part(plane: Plane) -> tuple[slice, slice]:
    """Where the picture is: the largest connected bright area, without the text around it."""
    bright = ndimage.uniform_filter(plane, 5) > 0.03 * plane.max()
    labels, count = ndimage.label(bright)
    if not count:
        return np.s_[:, :]
    largest = int(np.argmax(np.bincount(labels.ravel())[1:]))
    found: tuple[slice, slice] = ndimage.find_objects(labels)[largest]
    return found


def window_of(header: Dataset, plane: Plane) -> tuple[float, float]:
    """Values to be shown black and white: the header's first window, else the frame's own."""
    centre, width = _first(header.get("WindowCenter")), _first(header.get("WindowWidth"))
    if centre is not None and width:
        return centre - width / 2, centre + width / 2
    low, high = np.percentile(plane, (1, 99.8))
    return float(low), float(max(high, low + 1))


def _first(value: Any) -> float | None:
    if isinstance(value, MultiValue):
        value = value[0] if value else None
    return None if value in (None, "") else float(value)


def _geometry(header: Dataset) -> tuple[float, float | None, Sides | None]:
    """Height of a pixel / its width, its width in mm if that is known, and the sides of the patient if they are."""
    if region := _region(header):
        height, width = 10 * float(region.PhysicalDeltaY), 10 * float(region.PhysicalDeltaX)
        return height / width, width, None
    spacing = header.get("PixelSpacing")
    down, right = map(float, spacing or header.get("PixelAspectRatio") or (1, 1))
    return down / right, right if spacing else None, sides_of(header)


def _region(header: Dataset) -> Dataset | None:
    """The first region of an ultrasound picture, if its size in cm is known."""
    regions = header.get("SequenceOfUltrasoundRegions")
    region: Dataset | None = regions[0] if regions else None
    if region is None or {region.get("PhysicalUnitsXDirection"), region.get("PhysicalUnitsYDirection")} != {
        CENTIMETRES
    }:
        return None
    return region if region.get("PhysicalDeltaX") and region.get("PhysicalDeltaY") else None


def sides_of(header: Dataset) -> Sides | None:
    """The side of the patient towards each edge, from the directions of rows and columns (DICOM PS3.3, C.7.6.2.1.1)."""
    cosines = header.get("ImageOrientationPatient")
    if not cosines or len(cosines) != 6:
        return None
    right, down = np.array(cosines[:3], float), np.array(cosines[3:], float)
    return _side(-right), _side(right), _side(-down), _side(down)


def _side(towards: npt.NDArray[np.float64]) -> str:
    axis = int(np.argmax(np.abs(towards)))
    return SIDES[axis][int(towards[axis] > 0)]
