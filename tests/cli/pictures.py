"""Takes the pictures of docs/guide/dashboard.md: of a program that loses an interpreter, and of a grid on this machine.

``PYTHONPATH=tests:. python tests/cli/pictures.py docs/guide/dashboard`` writes them. They need playwright and chromium.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread
from typing import Any

import phalanx as px
from api.hubs import PHALANX, Site, site
from cli.browser import browser

DESKTOP, PHONE = {"width": 1120, "height": 820}, {"width": 390, "height": 760}
#: Seconds in which the figures become typical.
_SETTLED = 14.0


def render(seconds: float) -> float:
    """Stands for a picture that takes a while."""
    time.sleep(seconds)
    return seconds


def shade(seconds: float) -> float:
    """The second step of it."""
    time.sleep(seconds / 4)
    return seconds


def take(chromium: Any, link: str, file: Path, scheme: str, size: Any) -> None:
    """A picture of a page, some time after it is live."""
    tab = chromium.new_page(color_scheme=scheme, viewport=size)
    tab.goto(link)
    tab.wait_for_selector("#state.good")
    tab.wait_for_timeout(1000 * _SETTLED)
    tab.screenshot(path=file)
    tab.context.close()


def program(chromium: Any, folder: Path) -> None:
    """A pipeline on four interpreters, one of which is killed."""
    with px.Manager(contract=px.ParDegree(4), dashboard=True) as manager:
        page = manager.dashboard
        assert page is not None
        results = manager.compute(px.Pipeline(render, px.Farm(shade)), [0.08] * 2400)
        next(results)
        reader = Thread(target=lambda: [*results])
        reader.start()
        time.sleep(3)
        os.kill(manager.summary().interpreters[1].pid, signal.SIGKILL)
        take(chromium, page.link(), folder / "program-light.png", "light", DESKTOP)
        take(chromium, page.link(), folder / "program-dark.png", "dark", DESKTOP)
        reader.join()


@contextmanager
def busy(lab: Site) -> Iterator[None]:
    """A user's farm, space and job at a grid."""
    lab.say("ada", "submit", "--json", "--", "sh", "-c", "echo slice; sleep 300")
    code = (
        "import time, phalanx as px\n"
        "space = px.Space('lab/jobs')\n"
        "space.out_many([('todo', n) for n in range(40)])\n"
        "with px.Manager('lab') as manager:\n"
        "    list(manager.compute(lambda seconds: __import__('time').sleep(seconds), [0.05] * 100000))\n"
    )
    farm = Popen([sys.executable, "-c", code], env=lab.env("ada"))
    try:
        yield
    finally:
        farm.kill()
        farm.wait()


def grid(chromium: Any, folder: Path) -> None:
    """A hub, three more executors, and what a user runs there."""
    with tempfile.TemporaryDirectory(prefix="lab-") as place, site(Path(place)) as lab:
        lab.up()
        for name in ("ws1", "ws2", "ws3"):
            lab.start(name, "join", "--name", name, "--interpreters", "2", "--env", "PHALANX_TEST_RUN", lab.invite())
        lab.say("ada", "join", "--name", "ada", lab.invite("--role", "user"))
        with busy(lab):
            page = Popen([PHALANX, "dashboard", "--json", "--space", "jobs"], env=lab.env("ada"), stdout=PIPE)
            try:
                assert page.stdout is not None
                link = json.loads(page.stdout.readline())["link"]
                tab = chromium.new_context(color_scheme="light", viewport=DESKTOP)
                sheet = tab.new_page()
                sheet.goto(link)
                sheet.wait_for_selector("#state.good")
                sheet.wait_for_timeout(1000 * _SETTLED)
                sheet.screenshot(path=folder / "grid-light.png")
                sheet.set_viewport_size(PHONE)
                sheet.screenshot(path=folder / "grid-phone.png")
                sheet.emulate_media(color_scheme="dark")
                sheet.evaluate("document.querySelector('#links').scrollIntoView({ behavior: 'instant' })")
                sheet.wait_for_timeout(500)
                sheet.screenshot(path=folder / "grid-phone-dark.png")
                tab.close()
            finally:
                page.send_signal(signal.SIGINT)
                page.wait()


def main() -> None:
    """Writes all pictures into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        program(chromium, folder)
        grid(chromium, folder)


if __name__ == "__main__":
    main()
