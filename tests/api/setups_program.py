"""A module of a user's own, with state per interpreter that a decorator makes."""

from __future__ import annotations

import os

import phalanx as px

calls = 0


@px.per_interpreter
def state() -> tuple[int, int]:
    global calls
    calls += 1
    return os.getpid(), calls


def use(_: int) -> tuple[int, int]:
    return state()
