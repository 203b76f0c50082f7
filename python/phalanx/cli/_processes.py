"""How a process of a job is named: ``12``, or ``12.3`` for the one with the index 3."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from phalanx.cli._numbers import Count


class Process(NamedTuple):
    """A job, or one process of it."""

    job: int
    which: int | None


if TYPE_CHECKING:
    ProcessType: TypeAlias = click.ParamType[Process, Any]
else:  # in older versions of click the type is not generic
    ProcessType = click.ParamType


class _Named(ProcessType):
    name = "job"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Process:
        """The process; an error if the text is none."""
        if isinstance(value, Process):
            return value
        found = re.fullmatch(r"([1-9][0-9]{0,17})(?:\.([0-9]{1,9}))?", str(value))
        if found is None:
            self.fail(f"{value!r} is no job: write its number, or 12.3 for the process 3 of the job 12", param, ctx)
        return Process(int(found[1]), None if found[2] is None else int(found[2]))


PROCESS = _Named()
#: The number of a job. Numbers in the hub's files have 63 bits.
JOB = Count(1, (1 << 63) - 1)
