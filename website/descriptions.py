"""What a search engine shows of a page: the beginning of its first paragraph, in ``<meta name="description">``."""

from __future__ import annotations

import re

#: Search engines cut a longer text.
MOST = 160
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
#: Headings, tables, lists, comments, code, and names of docstrings.
NO_PROSE = ("#", "|", "- ", "<!--", "    ", ":::", "![")


def description(markdown: str) -> str | None:
    """The description of a page; None if it has no paragraph.

    Parameters
    ----------
    markdown : str
        The page.

    Returns
    -------
    str or None
        At most 160 characters, without signs of Markdown, and without a part of a word.
    """
    for block in re.split(r"\n\s*\n", FENCED.sub("", markdown)):
        if block.strip() and not block.startswith(NO_PROSE):
            text = " ".join(re.sub(r"[*`]", "", LINK.sub(r"\1", block)).split())
            return text if len(text) <= MOST else text[: MOST - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"
    return None
