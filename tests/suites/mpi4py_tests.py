"""mpi4py's own tests by the standard's binary interface, whole at each number of ranks that `make test` leaves out."""

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
