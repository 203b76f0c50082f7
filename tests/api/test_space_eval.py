"""``eval``: tuples that are computed at interpreters."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import phalanx as px
import pytest


def square(number: int) -> tuple[Any, ...]:
    return "square", number, number * number


def die_once(flag: str) -> tuple[str]:
    path = Path(flag)
    if not path.exists():
        path.touch()
        os._exit(1)
    return ("survived",)


def no_tuple() -> Any:
    return 3


def wrong() -> tuple[Any, ...]:
    raise LookupError("nothing here")


def test_eval_puts_the_tuple_that_the_function_returns(manager: px.Manager) -> None:
    with px.Space(manager=manager) as space:
        futures = [space.eval(square, number) for number in range(10)]
        for number in range(10):
            assert space.in_("square", number, int, timeout=60) == ("square", number, number * number)
        assert [future.result(timeout=30)[2] for future in futures] == [number * number for number in range(10)]
        assert space.info().tuples == 0


def test_eval_is_made_again_when_its_interpreter_dies(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager, px.Space(manager=manager) as space:
        future = space.eval(die_once, str(tmp_path / "flag"))
        assert future.result(timeout=60) == ("survived",)
        assert space.in_all("survived") == [("survived",)]


def test_an_eval_that_fails_says_so_and_puts_nothing(manager: px.Manager, caplog: pytest.LogCaptureFixture) -> None:
    with px.Space(manager=manager) as space, caplog.at_level(logging.WARNING, "phalanx"):
        with pytest.raises(LookupError, match="nothing here"):
            space.eval(wrong).result(timeout=60)
        with pytest.raises(px.ProgramError, match="returned none"):
            space.eval(no_tuple).result(timeout=60)
        assert space.info().tuples == 0
    assert "nothing here" in caplog.text


def test_a_space_recruits_for_itself_and_waits_for_its_evals() -> None:
    with px.Space() as space:
        future = space.eval(square, 3)
        assert space.rd("square", 3, int, timeout=60) == ("square", 3, 9)
    assert future.result(timeout=1) == ("square", 3, 9)
