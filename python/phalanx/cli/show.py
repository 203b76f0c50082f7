"""What the user sees of a run: a progress bar while it lasts, tables or JSON at its end."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from phalanx.cli._console import console
from phalanx.cli._numbers import in_bytes

if TYPE_CHECKING:
    import phalanx as px
    from phalanx.demo.run import Report

T = TypeVar("T")

#: Columns of interpreters that hold words.
WORDS = ("interpreter", "link", "state")
#: Columns of interpreters that are said once below the table if all have the same.
MAY_BE_ALIKE = ("link", "protection", "state")


class RateColumn(ProgressColumn):
    """Tasks a second since the beginning. The rate of the last moment would jump: results come in their order, and a
    late one lets many others pass at once."""

    def render(self, task: Task) -> Text:
        """As `12.3/s`, once something is done."""
        return Text(f"{task.completed / task.elapsed:.1f}/s" if task.completed and task.elapsed else "", style="cyan")


def busy(what: str) -> AbstractContextManager[object]:
    """Say on standard error what is being done, if that is a terminal."""
    bars = Console(stderr=True)
    return bars.status(what) if bars.is_terminal else nullcontext()


def watch(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Pass `items` through under a progress bar, on standard error and only if that is a terminal."""
    bars = Console(stderr=True)
    if not bars.is_terminal:
        yield from items
        return
    columns = (
        TextColumn(f"{what:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=bars) as progress:
        bar = progress.add_task(what, total=total)
        for done, item in enumerate(items, 1):
            yield item
            progress.update(bar, completed=done)
        # Broken files make fewer tasks than were planned.
        progress.update(bar, total=progress.tasks[0].completed)


def tables(report: Report) -> None:
    """Print the closing summary for a person."""
    to = console(120)
    to.print(_work(report))
    to.print(_interpreters(report.summary))
    to.print(_bill(report.summary))
    for why in dict.fromkeys(one.why[0] for one in report.summary.interpreters if one.weaker):
        to.print(f"weaker than by default: {why}", style="yellow", highlight=False)
    for line in report.skipped:
        to.print(f"left out: {line}", style="dim", markup=False, highlight=False, soft_wrap=True)
    to.print(f"contact sheet: {report.sheet}", markup=False, highlight=False, soft_wrap=True)


def _work(report: Report) -> Table:
    summary = report.summary
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("tasks", f"{_count(summary.tasks, 'picture')} of {_count(report.scans, 'scan')}")
    table.add_row("wall time", f"{summary.wall:.2f} s")
    if report.sequential is not None:
        table.add_row("sequentially", f"{report.sequential:.2f} s")
        interpreters = _count(len(summary.interpreters), "interpreter")
        table.add_row("speedup", f"{report.speedup:.2f} with {interpreters}")
        table.add_row("results", _compared(report.difference or 0))
    if summary.lost or summary.refired:
        lost, again = _count(summary.lost, "interpreter"), _count(summary.refired, "task")
        table.add_row("survived", f"{lost} lost, {summary.replaced} replaced, {again} fired again")
    if summary.doubled:
        table.add_row("stragglers", f"{_count(summary.doubled, 'task')} fired at a second interpreter")
    table.add_row("protection", _protection(summary))
    return table


def _compared(difference: int) -> str:
    if difference == 0:
        return "the sequential ones, bit by bit"
    if difference == 1:
        return "the sequential ones within one grey level (another processor's rounding)"
    return f"DIFFERENT from the sequential ones, by up to {difference} grey levels"


def _protection(summary: px.summary.Summary) -> str:
    bill = summary.bill
    if {one.level for one in summary.interpreters} == {"clear"} and not any(line.protection for line in bill.lines):
        return "none needed: every link is clear, inside this machine or a trusted network"
    return f"at most {1000 * bill.cost:.0f} ms, {bill.share:.2%} of the time"


def _bill(summary: px.summary.Summary) -> Table:
    table = Table("level", title_justify="left")
    for heading in ("bytes", "cryptography, both ends"):
        table.add_column(heading, justify="right")
    for line in summary.bill.lines:
        table.add_row(line.level, in_bytes(line.bytes), f"{1000 * line.protection:.1f} ms")
    return table


def _interpreters(summary: px.summary.Summary) -> Table:
    columns = {
        "interpreter": [one.name for one in summary.interpreters],
        "link": [one.level for one in summary.interpreters],
        "tasks": [str(one.tasks) for one in summary.interpreters],
        "sent to it": [in_bytes(one.bytes_in) for one in summary.interpreters],
        "sent back": [in_bytes(one.bytes_out) for one in summary.interpreters],
        "busy": [f"{one.busy:.2f} s" for one in summary.interpreters],
        "protection": [f"{1000 * one.protection:.1f} ms" for one in summary.interpreters],
        "state": [f"{one.state}: {one.cause}" if one.cause else one.state for one in summary.interpreters],
    }
    alike = {name: values[0] for name, values in columns.items() if name in MAY_BE_ALIKE and _are_alike(values)}
    caption = "all: " + ", ".join(f"{name} {value}" for name, value in alike.items()) if alike else None
    table = Table(title_justify="left", caption=caption, caption_justify="left")
    shown = {name: values for name, values in columns.items() if name not in alike}
    for name in shown:
        table.add_column(name, justify="left" if name in WORDS else "right")
    for row in zip(*shown.values(), strict=True):
        table.add_row(*row)
    return table


def _are_alike(values: list[str]) -> bool:
    return len(values) > 1 and len(set(values)) == 1


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def as_json(report: Report) -> str:
    """The summary for a program that reads it: times in seconds, sizes in bytes."""
    interpreters = report.summary.interpreters
    facts: dict[str, Any] = dataclasses.asdict(report.summary)
    facts["bill"] = dataclasses.asdict(report.summary.bill)
    facts |= {
        "scans": report.scans,
        "sequential": report.sequential,
        "speedup": report.speedup,
        "difference": report.difference,
        "protection": sum(one.protection for one in interpreters),
        "contact_sheet": str(report.sheet),
        "skipped": report.skipped,
    }
    return json.dumps(facts, indent=2)
