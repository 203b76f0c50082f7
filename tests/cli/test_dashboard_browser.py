"""The page of a dashboard in a real browser: what it shows, hostile names, screens, colours, and who gets in."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from cli import showcase
from cli.browser import PATIENCE, browser
from conftest import Eventually
from phalanx.dashboard import Dashboard

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("browser")]

FACTS = (Path(__file__).parents[2] / "website" / "check.js").read_text()
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


class Visit:
    """A page that is open, and what the browser has complained about."""

    def __init__(self, chromium: Any, link: str, scheme: str = "light", size: Any = DESKTOP) -> None:
        self.faults: list[str] = []
        self.page = chromium.new_page(color_scheme=scheme, viewport=size)
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda it: self.faults.append(it.text) if it.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda it: self.faults.append(str(it)))
        self.page.on("request", lambda it: self._is_ours(it.url))
        self.page.goto(link)
        self.page.wait_for_selector("#state.good")

    def _is_ours(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:")):
            self.faults.append(url)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def close(self) -> None:
        self.page.context.close()


def test_a_farm_is_watched_as_it_computes(chromium: Any, eventually: Eventually) -> None:
    with px.Manager(contract=px.ParDegree(2), dashboard=True) as manager:
        assert manager.dashboard is not None
        with (
            closing(Visit(chromium, manager.dashboard.link())) as visit,
            closing(manager.compute(tasks.nap, [0.02] * 100_000)) as results,
        ):
            next(results)
            eventually(lambda: "nap" in visit.text("#programs"), what="the program")
            eventually(lambda: " of 100,000" in visit.text("#programs"), what="how far it is")
            assert "this-machine/1" in visit.text("#interpreters")
            assert visit.page.locator("#map path.clear").count() == 1
            os.kill(manager.summary().interpreters[0].pid, signal.SIGKILL)
            eventually(lambda: "killed by signal 9" in visit.text("#events").lower() or "lost" in visit.text("#events"))
            eventually(lambda: visit.page.locator("#line .mark.lost").count() == 1, what="the loss on the time line")
            assert visit.faults == []
        assert "this-machine/1" in str(manager.summary().interpreters)


def test_the_page_says_that_the_manager_has_ended(chromium: Any, eventually: Eventually) -> None:
    with px.Manager(contract=px.ParDegree(1), dashboard=True) as manager:
        assert manager.dashboard is not None
        visit = Visit(chromium, manager.dashboard.link())
        assert manager.submit(pow, 2, 5).result() == 32
    with closing(visit):
        eventually(lambda: "has ended" in visit.text("#state"), what="the end")
        assert "pow" in visit.text("#programs")  # the last figures stay


@pytest.fixture
def page() -> Iterator[Dashboard]:
    with closing(Dashboard(showcase.Told(members=1000, name=HOSTILE))) as page:
        yield page


def test_hostile_names_are_text(chromium: Any, page: Dashboard, eventually: Eventually) -> None:
    with closing(Visit(chromium, page.link())) as visit:
        eventually(lambda: visit.page.locator("#members tbody tr").count() == 200, what="the members")
        assert HOSTILE in visit.text("#members")
        assert HOSTILE in visit.text("#title")
        assert visit.page.locator("img, main script").count() == 0
        assert "broken" not in visit.page.title().replace(HOSTILE, "")
        assert visit.faults == []


def test_a_thousand_members_are_searched_and_all_shown(chromium: Any, page: Dashboard, eventually: Eventually) -> None:
    with closing(Visit(chromium, page.link())) as visit:
        rows = visit.page.locator("#members tbody tr")
        eventually(lambda: rows.count() == 200, what="the first members")
        visit.page.get_by_role("button", name="show all 1001").click()
        assert rows.count() == 1001
        visit.page.get_by_label("find in Members").fill("ws977")
        eventually(lambda: rows.count() == 1, what="the member that was sought")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_large_and_has_contrast_on_every_screen(
    chromium: Any, scheme: str, size: Any, eventually: Eventually
) -> None:
    """Web Content Accessibility Guidelines 2.1, level AA; the facts are those by which the site is judged."""
    with closing(Dashboard(showcase.Told())) as page, closing(Visit(chromium, page.link(), scheme, size)) as visit:
        eventually(lambda: visit.page.locator("#history tbody tr").count() > 0, what="the whole page")
        facts = visit.page.evaluate(FACTS)
        assert facts["width"] <= facts["window"]
        assert (facts["headings"], facts["language"]) == (1, "en")
        assert facts["title"]
        assert facts["description"]
        assert len(facts["words"]) > 50
        assert [it for it in facts["words"] if it["contrast"] < (3 if it["isLarge"] else 4.5)] == []
        assert [it for it in facts["words"] if it["size"] < 12] == []


def test_a_keyboard_reaches_everything_and_readers_hear_little(chromium: Any, eventually: Eventually) -> None:
    with closing(Dashboard(showcase.Told())) as page, closing(Visit(chromium, page.link())) as visit:
        eventually(lambda: visit.page.locator("#jobs tbody tr").count() > 0, what="the jobs")
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate("document.activeElement.textContent") == "To the figures"
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("document.activeElement.id") == "main"
        visit.page.locator("#jobs tbody button").first.focus()
        visit.page.keyboard.press("Enter")
        eventually(lambda: "a line of job" in visit.text("#log-text"), what="the log")
        assert visit.page.evaluate("document.activeElement.id") == "log-head"
        live = visit.page.locator("[role=status], [aria-live]")
        assert {it.get_attribute("id") for it in live.all()} == {"state", "log-state"}
        for table in visit.page.locator("main section:not([hidden]) table").all():
            assert table.locator("caption").count() == 1
            assert table.locator("thead th[scope=col]").count() > 1
        assert visit.page.locator("main section:not([hidden]) svg[role=img] > title").count() >= 2


def test_a_second_browser_does_not_get_in(chromium: Any, page: Dashboard) -> None:
    link = page.link()
    with closing(Visit(chromium, link)) as visit:
        other = chromium.new_context()
        tab = other.new_page()
        assert tab.goto(link).status == 403
        assert tab.goto(visit.page.url).status == 403
        other.close()
