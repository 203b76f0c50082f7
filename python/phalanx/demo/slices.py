"""What travels: a slice of a scan goes to the stages, a picture comes back."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

#: Shape (rows, columns).
Plane: TypeAlias = npt.NDArray[np.float32]
#: Shape (layers, rows, columns); one layer, or the neighbours that a projection looks through.
Slab: TypeAlias = npt.NDArray[np.float32]
Window: TypeAlias = Literal["scan", "soft tissue", "bone", "wide", "narrow"]
#: Sides of the patient at the left, right, top and bottom of a picture, each a letter: R, L, A, P, H or F.
Sides: TypeAlias = tuple[str, str, str, str]
PaletteName: TypeAlias = Literal["gray", "inverse", "bone", "copper", "hot iron", "sepia"]


@dataclass(frozen=True)
class View:
    """How a slice is to be looked at. Angles in degrees, counter-clockwise from the right."""

    name: str
    window: Window = "scan"
    palette: PaletteName = "gray"
    #: How much the light models the surface: 0 is a flat picture, 1 a sculpture.
    relief: float = 0.45
    light: float = 135.0
    #: Of the slice, when it is seen from the side.
    turn: float = 25.0
    #: Seen from the side, as a landscape, instead of from above.
    oblique: bool = False
    #: Made of several layers: the brightest along the line of sight (MIP).
    projection: bool = False


@dataclass(frozen=True)
class Slice:
    """A task: one frame of a scan and the view that is wanted of it."""

    pixels: Slab
    number: int
    #: The file's name, without its folder and suffix.
    scan: str
    #: Modality and body part, as a caption says them.
    title: str
    frame: int
    frames: int
    #: The scan's own window: the values shown black and white, in the unit of the pixels (CT: Hounsfield).
    window: tuple[float, float]
    #: Height of a pixel / its width.
    aspect: float
    #: Width of a pixel in mm, if the header says it.
    pixel: float | None
    #: Where the sides of the patient are, if the header says it.
    sides: Sides | None
    view: View


@dataclass(frozen=True)
class Picture:
    """A result: a rendered slice, already compressed where it was made, since that is work too."""

    png: bytes
    number: int
    scan: str
    title: str
    frame: int
    frames: int
    view: View

    @property
    def name(self) -> str:
        """The file's name: `003-CT_small-1-bone.png`."""
        return f"{self.number:03}-{self.scan}-{self.frame}-{self.view.name.replace(' ', '-')}.png"

    def pixels(self) -> npt.NDArray[np.uint8]:
        """The picture itself, of shape (rows, columns, 3)."""
        return np.asarray(Image.open(io.BytesIO(self.png)))

    def save(self, folder: Path) -> Path:
        """Write the PNG into `folder` and say where."""
        path = folder / self.name
        path.write_bytes(self.png)
        return path
