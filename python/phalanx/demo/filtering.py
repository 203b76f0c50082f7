"""The first stage of paper 000's sample program: the filter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import ndimage
from skimage.restoration import denoise_nl_means

from phalanx.demo.slices import Plane, Slab, Slice

#: Pixels a side of the surroundings that are compared.
PATCH = 5
#: How far away like surroundings are looked for, in pixels.
REACH = 2
#: How different surroundings may be that are averaged, in standard deviations of the noise.
STRENGTH = 0.8


def denoise(slice_: Slice) -> Slice:
    """The same slice without its noise, by non-local means (Buades 2005, Darbon 2008); one thread.

    It keeps edges, which a renderer's gradients need, and removes what a light would show as gravel.
    """
    noise = noise_of(slice_.pixels)
    if not noise:
        return slice_
    return replace(slice_, pixels=np.stack([_smoothed(layer, noise) for layer in slice_.pixels]))


def _smoothed(plane: Plane, noise: float) -> Plane:
    smooth = denoise_nl_means(plane, PATCH, REACH, h=STRENGTH * noise, sigma=noise, fast_mode=True)
    return np.asarray(smooth, np.float32)


def noise_of(pixels: Slab) -> float:
    """Standard deviation of the noise in the body, which is the brighter part.

    From second differences as Immerkær (1996), but by their median, which ignores edges.
    """
    mask = np.array([[[1, -2, 1], [-2, 4, -2], [1, -2, 1]]], np.float32)
    differences = np.abs(ndimage.convolve(pixels, mask))
    return float(np.median(differences[pixels >= pixels.mean()])) / (6 * 0.6745)
