"""The main job: paper 000's sample program on real scans, a filter and then a farmed rendering.

`denoise` and `render` are plain functions: a remote interpreter imports them from here.
"""

from phalanx.demo.filtering import denoise
from phalanx.demo.rendering import render
from phalanx.demo.slices import Picture, Slice, View

__all__ = ["Picture", "Slice", "View", "denoise", "render"]
