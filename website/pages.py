"""Which pages the site has: where each is in the repository, and where in the site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Pages outside `docs`, and their places in the site. A `README.md` would be the index of its folder: it is renamed.
OUTSIDE = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "bench/README.md": "project/benchmarks.md",
}
_IN_REPOSITORY = {site: path for path, site in OUTSIDE.items()}
#: The index of a folder whose pages nobody lists by hand.
INDEX_OF_DECISIONS = "decisions/index.md"


def place_of(path: str) -> str | None:
    """The place in the site of a page of the repository.

    Parameters
    ----------
    path : str
        From the top of the repository, like ``docs/papers.md``.

    Returns
    -------
    str or None
        Like ``papers.md``; None if the site does not have it.
    """
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.rstrip("/") == "docs/decisions":
        return INDEX_OF_DECISIONS
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def source_of(place: str) -> str:
    """The path in the repository of a page of the site: the inverse of :func:`place_of`."""
    return _IN_REPOSITORY.get(place, f"docs/{place}")


def title_of(page: Path) -> str:
    """Its first heading."""
    return page.read_text().split("\n", 1)[0].removeprefix("# ")


def expanded(nav: list[Any]) -> list[Any]:
    """A navigation in which each folder, like ``decisions/``, is the list of its pages, the index first."""
    return [_expanded(item) for item in nav]


def _expanded(item: Any) -> Any:
    if isinstance(item, dict):
        return {title: _expanded(part) for title, part in item.items()}
    if isinstance(item, list):
        return expanded(item)
    return pages_in(item) if item.endswith("/") else item


def pages_in(folder: str) -> list[str]:
    """The pages of a folder of `docs`; the index comes first."""
    found = {f"{folder}{page.name}" for page in (DOCS / folder).glob("*.md")}
    if folder == "decisions/":
        found.add(INDEX_OF_DECISIONS)
    return sorted(found, key=lambda page: (not page.endswith("/index.md"), page))


def listed(nav: list[Any]) -> Iterator[str]:
    """The pages that an expanded navigation leads to."""
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            for part in item.values() if isinstance(item, dict) else item:
                yield from listed(part if isinstance(part, list) else [part])


def index_of_decisions() -> str:
    """The page that lists all decisions, from their titles."""
    titles = [(page.name, title_of(page)) for page in sorted((DOCS / "decisions").glob("[0-9]*.md"))]
    lines = [f"- [{title}]({name})" for name, title in titles]
    return "\n".join(
        ["# Decisions", "", "The choices that were hard, each with its reasons and its limits.", "", *lines, ""]
    )
