"""Links of pages, as the site needs them.

On a code host, a page links to pages and to sources by their paths in the repository. In the site, pages have other
places, and sources are not there: their names stay as text, with the path as a tooltip.
"""

from __future__ import annotations

import html
import posixpath
import re

from website.pages import ROOT, place_of, source_of

#: Code keeps its text: fenced blocks, and code within a line. The label of a link may have code in it.
CODE = r"^```.*?^```$|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
LINK = r"(?P<image>!?)\[(?P<label>(?:`[^`]*`|[^\[\]`]|\[[^\[\]]*\])+)\]\((?P<target>[^)\s]+)\)"
CODE_OR_LINK = re.compile(f"{CODE}|{LINK}", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"^<!-- run: .*? -->\n+", re.MULTILINE)


def for_site(text: str, place: str) -> str:
    """A page of the repository as the site shows it.

    Parameters
    ----------
    text : str
        The page, in Markdown.
    place : str
        Its place in the site, like ``guide/grids.md``.

    Returns
    -------
    str
        The page with the links of the site, and without the comments that say how blocks are run.
    """
    text = COMMENT.sub("", text)
    return CODE_OR_LINK.sub(lambda found: _link(found, place) if found["target"] else found[0], text)


def _link(link: re.Match[str], place: str) -> str:
    label, (target, sharp, anchor) = link["label"], link["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source_of(place)), target))
    found = place_of(path)
    if found:
        return f"{link['image']}[{label}]({posixpath.relpath(found, posixpath.dirname(place) or '.')}{sharp}{anchor})"
    if (ROOT / path).exists():
        return f'<span class="source" title="{html.escape(path)}">{label}</span>'
    return link[0]  # mkdocs says that it is dead
