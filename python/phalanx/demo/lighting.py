"""Light on a height field: what makes a slice look like a body instead of a print.

Heights are in pixels, like the distances. Only additions, multiplications, divisions and square roots are
used: their results are the same on every processor, so two machines render the same picture.
"""

from __future__ import annotations

import math

import numpy as np

from phalanx.demo.slices import Plane

DIRECTIONS = 12
DISTANCES = (1, 2, 3, 5, 8, 12, 18, 27)
SHADOW_STEPS = 24
#: Of the light above the horizon, in degrees.
ELEVATION = 42.0


def illuminate(heights: Plane, azimuth: float) -> tuple[Plane, Plane]:
    """Brightness (1 is a flat surface in full light) and highlight (0 to 1) of every pixel."""
    light = _light_from(azimuth)
    down, right = np.gradient(heights)
    length = np.sqrt(down * down + right * right + np.float32(1))
    diffuse = np.maximum((light[2] - light[0] * right + light[1] * down) / length, 0)
    glance = np.maximum(((light[2] + 1) - light[0] * right + light[1] * down) / length, 0)
    glance /= np.float32(math.sqrt(2 + 2 * light[2]))
    lit = diffuse * shadow(heights, azimuth) / np.float32(light[2])
    brightness = np.float32(0.45) * ambient(heights) + np.float32(0.55) * lit
    return brightness.astype(np.float32), _to_the_32nd(glance) * (lit > 0)


def ambient(heights: Plane) -> Plane:
    """How much of the sky each point sees, 0 to 1: horizon-based ambient occlusion (Bavoil 2008)."""
    reach = DISTANCES[-1] + 1
    padded = np.pad(heights, reach, mode="edge")
    # All steps write to the same few planes: fresh memory for each would take longer than the arithmetic.
    sky, slope, rise = (np.zeros_like(heights) for _ in range(3))
    for turn in range(DIRECTIONS):
        slope.fill(0)
        for distance in DISTANCES:
            np.subtract(_moved(padded, reach, 360 * turn / DIRECTIONS, distance), heights, out=rise)
            np.maximum(slope, np.multiply(rise, np.float32(1 / distance), out=rise), out=slope)
        sky += 1 - slope / np.sqrt(1 + slope * slope)
    return np.asarray(sky / np.float32(DIRECTIONS), np.float32)


def shadow(heights: Plane, azimuth: float) -> Plane:
    """1 where the light arrives, 0 in the core of a cast shadow, soft between."""
    padded = np.pad(heights, SHADOW_STEPS + 1, mode="edge")
    above, over = np.zeros_like(heights), np.zeros_like(heights)
    for distance in range(1, SHADOW_STEPS + 1):
        ray = np.float32(distance * math.tan(math.radians(ELEVATION)))
        np.subtract(_moved(padded, SHADOW_STEPS + 1, azimuth, distance), heights, out=over)
        np.maximum(above, np.subtract(over, ray, out=over), out=above)
    return np.asarray(1 / (1 + np.float32(0.5) * above), np.float32)


def _light_from(azimuth: float) -> tuple[float, float, float]:
    """Unit vector to the light: right, up, towards the eye."""
    across = math.cos(math.radians(ELEVATION))
    turn = math.radians(azimuth)
    return across * math.cos(turn), across * math.sin(turn), math.sin(math.radians(ELEVATION))


def _moved(padded: Plane, reach: int, azimuth: float, distance: int) -> Plane:
    """What lies `distance` pixels away towards `azimuth`, for every pixel; a view, no copy."""
    turn = math.radians(azimuth)
    top = reach - round(distance * math.sin(turn))
    left = reach + round(distance * math.cos(turn))
    return padded[top : top + padded.shape[0] - 2 * reach, left : left + padded.shape[1] - 2 * reach]


def _to_the_32nd(value: Plane) -> Plane:
    for _ in range(5):
        value = value * value
    return value
