"""Paths as words of the command line."""

from __future__ import annotations

import os
from typing import Any

import click


class SomePath(click.Path):
    """A path. The empty word is none: Python would take it for the current folder, and it is often the value of an
    unset variable."""

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; an error if the word is empty."""
        if value == "":
            self.fail("'' is no path: name a file or folder; . is the current folder.", param, ctx)
        return super().convert(value, param, ctx)
