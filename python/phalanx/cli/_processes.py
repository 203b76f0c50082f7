"""How a process of a job is named: ``12``, or ``12.3`` for the one with the index 3."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from phalanx.cli._numbers import IntType


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
            self.fail(f"{value!r:.60} is no job: write its number, or 12.3 for the process 3 of the job 12", param, ctx)
        return Process(int(found[1]), None if found[2] is None else int(found[2]))


class _Number(IntType):
    name = "job"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; an error if the text is none, or larger than those that hubs give."""
        if not isinstance(value, int) and not re.fullmatch("[1-9][0-9]{0,17}", str(value)):
            self.fail(f"{value!r:.60} is no job: write its number, as phalanx jobs shows it.", param, ctx)
        return int(value)


PROCESS, JOB = _Named(), _Number()
