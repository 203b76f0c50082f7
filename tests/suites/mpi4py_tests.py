"""mpi4py's own tests by the standard's binary interface, and by MPICH's at four ranks: what `make test` leaves out."""

from __future__ import annotations

import re

import pytest
from mpi4py_suite import CHAPTERS, LOCAL, chapter_options, run_suite


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("chapter", [*CHAPTERS, "everything_else"])
def test_chapter(chapter: str, ranks: int) -> None:
    local = [word for name in LOCAL for word in ("-x", name)] if ranks > 1 else []
    told = run_suite(ranks, *local, *chapter_options(chapter), standard=True)
    assert re.search(r"Ran [1-9]\d* tests", told)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("chapter", [*CHAPTERS, "everything_else"])
def test_chapter_by_the_interface_of_mpich(chapter: str) -> None:
    local = [word for name in LOCAL for word in ("-x", name)]
    told = run_suite(4, *local, *chapter_options(chapter))
    assert re.search(r"Ran [1-9]\d* tests", told)
