"""mpi4py's own tests against our library: mpi4py from its wheel, and from its sources by the standard's interface."""

from __future__ import annotations

import re

import pytest
from mpi4py_suite import CHAPTERS, LOCAL, MISSING, RACES, SUITE, chapter_options, run_suite
from skips import require

from laboratory.needs import HEADER


@pytest.mark.timeout(660)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("chapter", [*CHAPTERS, "everything else"])
def test_chapter(chapter: str, ranks: int) -> None:
    """`make suites ARGS=mpi4py` runs them at four ranks, which take twice as long as three on two cores."""
    local = [word for name in LOCAL if ranks > 1 for word in ("-x", name)]
    told = run_suite(ranks, *local, *chapter_options(chapter))
    assert re.search(r"Ran [1-9]\d* tests", told)


@pytest.mark.timeout(660)
@pytest.mark.parametrize("chapter", [*CHAPTERS, "everything else"])
def test_chapter_by_the_standard_interface(chapter: str) -> None:
    """At two ranks; `make suites ARGS=mpi4py` runs the other numbers."""
    require(HEADER)  # with which that mpi4py was built
    local = [word for name in LOCAL for word in ("-x", name)]
    told = run_suite(2, *local, *chapter_options(chapter), standard=True)
    assert re.search(r"Ran [1-9]\d* tests", told)


#: Some of them between ranks that share no memory, as on several machines: how many, at which level, which files.
APART = [
    (2, "private", r"test_p2p_buf\b|test_p2p_obj\b|test_msg|test_rma\b"),
    (3, "private", r"test_cco_obj\b|test_cco_buf\b|test_win"),
    (3, "clear", r"test_p2p_obj_matched|test_cco_nb_buf\b"),
]


@pytest.mark.timeout(660)
@pytest.mark.parametrize(("ranks", "level", "files"), APART)
def test_over_sockets(ranks: int, level: str, files: str) -> None:
    told = run_suite(ranks, "-i", files, launch=["--transport", "sockets", "--level", level])
    assert re.search(r"Ran [1-9]\d* tests", told)


def test_what_is_said_to_be_missing_is_there_to_be_missed() -> None:
    there = "".join(path.read_text() for path in SUITE.glob("test_*.py"))
    assert all(f"def {name.rpartition('.')[2]}(" in there for name in MISSING | RACES)
