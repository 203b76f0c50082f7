"""``make check-site``: opens pages of the built site in a headless Chromium, and judges what a visitor sees.

The browser is that of the system (Debian: ``chromium``), and playwright drives it. Neither is needed by ``make check``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

SITE = Path(__file__).parent.parent / "site"
FACTS = Path(__file__).with_suffix(".js").read_text()
#: One page of each kind: home, a guide, a command with its options, docstrings, wide tables.
PAGES = [
    "index.html",
    "guide/first-farm.html",
    "reference/commands/cp.html",
    "reference/python/farms.html",
    "security/threat-model.html",
]
#: A screen of a desktop, and of a phone, on which most pages that are too wide are seen.
SCREENS = {"desktop": ViewportSize(width=1280, height=900), "phone": ViewportSize(width=390, height=844)}
SCHEMES = ("light", "dark")
#: Addresses that need no network.
LOCAL = ("file:", "data:", "blob:")
#: For servers only: its addresses begin with a slash.
NOT_FOUND = "404.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Sizes in CSS pixels. Browsers show text at 16 without a style.
LEAST_SIZE, LEAST_SIZE_OF_PROSE = 12, 16
#: Web Content Accessibility Guidelines 2.1, level AA: for text, and for large text.
LEAST_CONTRAST, LEAST_CONTRAST_OF_LARGE = 4.5, 3.0
#: How long the browser may take for a step, in milliseconds: beside other work it takes more than the usual 30 s.
PATIENCE = 120_000
#: A word that many pages have.
SEARCHED = "certificate"
#: A page with each fault, by which the check proves before each run that it finds them.
BAD = """<html><body><h1>a</h1><h1>b</h1><p style="font-size: 11px; color: #999">small and grey</p>
<div style="width: 2000px">wide</div><img src="x.png"><script src="https://example.org/x.js"></script>
<script>console.error("broken")</script>"""
FAULTS = ("px", "contrast", "wide", "h1", "lang", "title", "description", "alt", "example.org", "broken")


def judged(facts: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a page, by the facts that the browser has taken."""
    if facts["width"] > facts["window"]:
        yield f"it is {facts['width']} px wide, in a window of {facts['window']}"
    if facts["headings"] != 1:
        yield f"it has {facts['headings']} h1"
    yield from (f"it has no {it}" for it in ("language", "title", "description") if not facts[it])
    yield from (f"an image has no alt: {source}" for source in facts["images"])
    for word in facts["words"]:
        is_prose = word["isProse"] and not word["isCode"] and not word["isNote"]
        if word["size"] < (LEAST_SIZE_OF_PROSE if is_prose else LEAST_SIZE):
            yield f"{word['size']:.1f} px: {word['text']!r}"
        if word["contrast"] < (LEAST_CONTRAST_OF_LARGE if word["isLarge"] else LEAST_CONTRAST):
            yield f"contrast {word['contrast']:.2f}: {word['text']!r}"


class Visitor:
    """A tab of the browser in colours of a scheme, and what it has told of its page."""

    def __init__(self, browser: Browser, scheme: Any) -> None:
        self.scheme = scheme
        self.told: list[str] = []
        self.page = browser.new_page(color_scheme=scheme)
        self.page.set_default_timeout(PATIENCE)
        self.page.on(
            "console", lambda it: self.tell(f"console: {it.text}") if it.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda it: self.tell(f"error: {it}"))
        self.page.on("request", lambda it: None if it.url.startswith(LOCAL) else self.tell(it.url))

    def tell(self, fault: str) -> None:
        """Notes a fault of the page, once."""
        if fault not in self.told:
            self.told.append(fault)

    def read(self, address: str, pictures: Path | None = None) -> Iterator[str]:
        """What is wrong with a page, each behind its screen."""
        self.told.clear()
        for screen, size in SCREENS.items():
            self.page.set_viewport_size(size)
            if screen == next(iter(SCREENS)):  # the others follow without a new page, as when a window is made smaller
                self.page.goto(address)
            faults = dict.fromkeys(judged(self.page.evaluate(FACTS)))
            yield from (f"{screen}, {self.scheme}: {fault}" for fault in faults)
            if pictures:
                self.page.screenshot(path=pictures / f"{Path(address).stem}-{screen}-{self.scheme}.png")
        yield from (f"{self.scheme}: {fault}" for fault in self.told)


def search(page: Page) -> list[str]:
    """What is wrong with the search, which must work without a server."""
    page.set_viewport_size(SCREENS["desktop"])
    page.goto((SITE / PAGES[0]).as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type(SEARCHED)
    results = page.locator(".md-search-result__item a[href*='.html']")
    try:
        results.first.wait_for()
    except Exception as error:  # playwright's timeout
        return [f"search: nothing is found for {SEARCHED!r}: {error}"]
    return []


def prove(browser: Browser) -> None:
    """Ends the program if the check finds nothing on a page that is full of faults."""
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.html"
        bad.write_text(BAD)
        told = "\n".join(Visitor(browser, SCHEMES[0]).read(bad.as_uri()))
    missed = [fault for fault in FAULTS if fault not in told]
    if missed:
        sys.exit(f"the check does not find {missed} on a page that has these faults:\n{told}")


def main() -> int:
    """Prints what is wrong, page by page; the exit code is 1 if anything is."""
    parser = argparse.ArgumentParser(prog="make check-site", description="Read the site in a headless browser.")
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages below site/, like guide/grids.html")
    parser.add_argument("--all", action="store_true", help="every page")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write a picture of each page and screen")
    options = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print(f"there is no browser: install one of {', '.join(BROWSERS)} (Debian: apt-get install chromium)")
        return 1
    every = sorted(str(it.relative_to(SITE)) for it in SITE.rglob("*.html"))
    pages = [page for page in every if page != NOT_FOUND] if options.all else options.pages
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with sync_playwright() as playwright:
        # Chromium has no sandbox for root. All it opens here is the site.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        prove(browser)
        visitors = [Visitor(browser, scheme) for scheme in SCHEMES]
        for place in pages:
            for visitor in visitors:
                for fault in visitor.read((SITE / place).as_uri(), options.pictures):
                    print(f"{place}, {fault}", flush=True)
                    wrong += 1
        for fault in search(visitors[0].page):
            print(fault)
            wrong += 1
        browser.close()
    print(f"{len(pages)} pages, {len(SCREENS)} screens, {len(SCHEMES)} schemes of colours: {wrong} faults")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
