"""The main job: paper 000's sample program on real scans, a filter and then a farmed rendering.

`denoise` and `render` are plain functions: a remote interpreter imports them from here.
"""

from .filtering import denoise
from .rendering import render
from .slices import Picture, Slice, View

__all__ = ["Picture", "Slice", "View", "denoise", "render"]
