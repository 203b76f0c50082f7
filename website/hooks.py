"""What mkdocs calls while it builds the site (mkdocs.yml, ``hooks``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.commands import with_options
from website.descriptions import description
from website.links import for_site
from website.offline import foreign_in
from website.pages import INDEX_OF_DECISIONS, OUTSIDE, ROOT, expanded, index_of_decisions

#: How the theme begins the dialog of the search.
SEARCH = '<div class="md-search" data-md-component="search" role="dialog">'


def on_config(config: MkDocsConfig) -> None:
    """Folders in the navigation become the lists of their pages."""
    config.nav = expanded(config.nav or [])


def on_files(files: Files, config: MkDocsConfig) -> None:
    """The pages outside `docs`, and the index of the decisions."""
    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, INDEX_OF_DECISIONS, content=index_of_decisions()))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as the site needs them, the options of commands, and a description for search engines."""
    place = page.file.src_uri
    if told := description(markdown):
        page.meta.setdefault("description", told)
    if place == INDEX_OF_DECISIONS:
        return markdown
    return with_options(for_site(markdown, place))


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """A name for the dialog of the search, which the theme leaves without one: screen readers say it."""
    if SEARCH not in output:
        raise PluginError(
            f"{page.file.src_uri}: the theme's search is no longer {SEARCH}: look whether it has a name now"
        )
    return output.replace(SEARCH, f'{SEARCH[:-1]} aria-label="Search">')


def on_post_build(config: MkDocsConfig) -> None:
    """Fails where a page loads something from elsewhere."""
    found = list(foreign_in(Path(config.site_dir)))
    if found:
        raise PluginError("the site must work without a network, but pages load\n" + "\n".join(found))
