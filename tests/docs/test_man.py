"""The man pages: they are up to date, and groff formats them without a warning."""

from __future__ import annotations

import subprocess

from phalanx.cli import MODULES
from skips import require

from docs import man

PAGES = man.pages()


def test_each_command_has_a_page_that_is_up_to_date() -> None:
    assert {f"phalanx-{name}.1" for name in MODULES} <= set(PAGES)
    assert {path.name: path.read_text() for path in man.FOLDER.iterdir()} == PAGES, "`make fix` writes them"


def test_groups_name_the_pages_of_their_commands() -> None:
    assert ".BR phalanx\\-grid\\-create (1)" in PAGES["phalanx-grid.1"]


def test_a_formatter_has_nothing_to_warn_of() -> None:
    require("groff")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-wall", "-Kutf8"], input="".join(PAGES.values()), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "PHALANX-SPACE-SERVE(1)" in done.stdout
