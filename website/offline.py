"""Finds what a page of the site would load from elsewhere: the site must work from the disk, without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LOADED = re.compile(r'<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]*)"')


def foreign(page: str) -> list[str]:
    """The addresses from which a page, in HTML, loads scripts, styles or pictures. Links to follow do not count."""
    return LOADED.findall(page)


def foreign_in(site: Path) -> Iterator[str]:
    """What the pages of a built site load from elsewhere, as ``PAGE: ADDRESS``."""
    for page in sorted(site.rglob("*.html")):
        yield from (f"{page.relative_to(site)}: {address}" for address in foreign(page.read_text()))
