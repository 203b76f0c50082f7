"""Progress bars: how many tasks of a computation are done, at which rate, and when the last one will be.

A terminal shows a bar on standard error, a notebook one below its cell. Elsewhere nothing is shown: a file or a pipe
would fill with lines. Libraries that draw are imported when a bar is asked for.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Generator, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

#: Seconds between two pictures of a bar. A result costs nothing in between.
INTERVAL = 0.1
#: Maximum characters of a name beside a bar.
LONGEST_NAME = 40


class Bar(Protocol):
    """Shows the progress of one computation."""

    def begin(self, name: str, total: int | None) -> None:
        """Shows the bar, empty."""

    def advance(self, results: int) -> None:
        """So many more results came."""

    def end(self) -> None:
        """Leaves the last picture, and gives the terminal back."""


def bar_for(progress: bool | str) -> Bar | None:
    """The bar for ``progress=``, or None: it was not asked for, or there is no place to show it.

    Parameters
    ----------
    progress
        Whether to show one. A text is the name beside it.
    """
    if progress is False:
        return None
    if not isinstance(progress, bool | str):
        raise TypeError(f"progress is True, False, or the name beside the bar, not {progress!r:.40}")
    name = progress if isinstance(progress, str) else None
    if _is_notebook():
        return NotebookBar(name)
    if sys.stderr is not None and _is_terminal():
        return TerminalBar(name)
    return None


def shown(results: Generator[T, None, None], name: str, total: int | None, bar: Bar) -> Generator[T, None, None]:
    """The results, with a bar that counts those that were read."""
    bar.begin(name, total)
    try:
        for result in results:
            bar.advance(1)
            yield result
    finally:
        bar.end()
        results.close()


def total_of(iterables: Iterable[Any]) -> int | None:
    """The number of calls of a map, if all its iterables tell how long they are."""
    try:
        return min(map(len, iterables), default=None)
    except TypeError:
        return None


class TerminalBar:
    """A bar in the terminal. Bars of computations at the same time stand one below the other."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._task: TaskID | None = None

    def begin(self, name: str, total: int | None) -> None:
        """As :meth:`Bar.begin`."""
        self._task = _terminal.add(_short(self._name or name), total)

    def advance(self, results: int) -> None:
        """As :meth:`Bar.advance`."""
        if self._task is not None:
            _terminal.advance(self._task, results)

    def end(self) -> None:
        """As :meth:`Bar.end`."""
        task, self._task = self._task, None
        if task is not None:
            _terminal.end(task)


class _Terminal:
    """The bars of this process. Only one display may own the terminal, so they share it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._display: Progress | None = None
        self._running: set[TaskID] = set()

    def add(self, name: str, total: int | None) -> TaskID:
        with self._lock:
            if self._display is None:
                self._display = _display()
                self._display.start()
                atexit.register(self._close)
            task = self._display.add_task(name, total=total)
            self._running.add(task)
            return task

    def advance(self, task: TaskID, results: int) -> None:
        display = self._display
        if display is not None:
            display.advance(task, results)

    def end(self, task: TaskID) -> None:
        with self._lock:
            self._running.discard(task)
            if self._display is None:
                return
            self._display.stop_task(task)
            if not self._running:
                self._close()

    def _close(self) -> None:
        """Draws the bars once more, and shows the cursor again."""
        with self._lock:
            display, self._display = self._display, None
            self._running.clear()
            atexit.unregister(self._close)
            if display is not None:
                display.stop()


_terminal = _Terminal()


def _display() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _rate_column(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(stderr=True),
        refresh_per_second=1 / INTERVAL,
        # What the program prints goes above the bar. If standard output is a file, it stays there.
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    )


def _rate_column() -> Any:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        """Tasks in a second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{rate(speed)}/s", style="progress.data.speed")

    return Rate()


class NotebookBar:
    """A bar below the cell of a notebook."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._total: int | None = None
        self._done = 0
        self._began = self._drawn = 0.0
        self._handle: Any = None

    def begin(self, name: str, total: int | None) -> None:
        """As :meth:`Bar.begin`."""
        from IPython.display import HTML, display

        self._name, self._total = _short(self._name or name), total
        self._began = self._drawn = monotonic()
        self._handle = display(HTML(self.html()), display_id=True)

    def advance(self, results: int) -> None:
        """As :meth:`Bar.advance`."""
        self._done += results
        if monotonic() - self._drawn > INTERVAL:
            self._draw()

    def end(self) -> None:
        """As :meth:`Bar.end`."""
        if self._handle is not None:
            self._draw()
            self._handle = None

    def html(self) -> str:
        """The picture. It has the page's own colours, light or dark."""
        from html import escape

        spent = monotonic() - self._began
        speed = self._done / spent if spent > 0 else 0.0
        known = self._total
        attributes = f'value="{self._done}" max="{known}"' if known else ""
        text = f"{self._done}/{known}" if known is not None else str(self._done)
        if speed:
            text += f", {rate(speed)}/s"
        if known is not None and self._done < known and speed:
            text += f", {clock((known - self._done) / speed)} left"
        else:
            text += f", {clock(spent)}"
        return (
            '<div style="color:inherit;font-variant-numeric:tabular-nums">'
            f"<label>{escape(self._name or '')} <progress {attributes}></progress></label> {text}</div>"
        )

    def _draw(self) -> None:
        from IPython.display import HTML

        self._drawn = monotonic()
        self._handle.update(HTML(self.html()))


def rate(each_second: float) -> str:
    """A rate in three digits, like ``0.25`` or ``1.2k``."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if each_second >= size * 0.9995:  # 999.5 would be written as 1e+03
            return f"{each_second / size:.3g}{unit}"
    return f"{each_second:.3g}"


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds, like ``2:05`` or ``1:00:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


def _is_terminal() -> bool:
    from rich.console import Console

    return Console(stderr=True).is_terminal
