"""Shows the user the output that tasks print."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from typing import Protocol, TypeAlias

from phalanx import _native
from phalanx.errors import PhalanxError
from phalanx.words import OUTPUTS, OutputWord

_log = logging.getLogger("phalanx")


class Writable(Protocol):
    """Anything with a ``write`` for text, like an open file."""

    def write(self, text: str, /) -> object: ...


Output: TypeAlias = OutputWord | Writable | Callable[[str], object] | None
#: Name of the interpreter, 0 for standard output or 1 for standard error, and whole lines.
Printed: TypeAlias = tuple[str, int, bytes]
Show: TypeAlias = Callable[[list[Printed]], None]


def shower(output: Output, *, others: bool) -> tuple[Show, bool] | None:
    """The function that shows printed output, and whether it needs whole lines; None if nothing is shown.

    Parameters
    ----------
    output
        As for :class:`phalanx.Manager`.
    others
        Whether interpreters are on other machines, so that ``None`` means ``"prefix"`` rather than ``"plain"``. What
        they print is escaped: it must not steer the user's terminal, nor look like the output of another interpreter.

    Raises
    ------
    PhalanxError
        ``output`` is none of these.
    """
    if output is None:
        output = "prefix" if others else "plain"
    if output == "off":
        return None
    if isinstance(output, str):
        if output not in OUTPUTS:
            raise PhalanxError(f'output={output!r}: write "prefix", "plain", "off", a function of a line, or a file')
        return _Shower(_to_standard, prefix=output == "prefix", escape=others), output == "prefix"
    write = getattr(output, "write", None)
    if callable(write):
        return _Shower(lambda _, line: write(line), prefix=True, escape=others), True
    if callable(output):
        take = output
        return _Shower(lambda _, line: take(line.removesuffix("\n")), prefix=True, escape=others), True
    raise PhalanxError(f'output={output!r}: write "prefix", "plain", "off", a function of a line, or a file')


class _Shower:
    """Shows output. It is called in one thread only. After its first error it shows nothing any more."""

    def __init__(self, write: Callable[[int, str], object], *, prefix: bool, escape: bool) -> None:
        self._write: Callable[[int, str], object] | None = write
        self._prefix = prefix
        self._escape = escape

    def __call__(self, printed: list[Printed]) -> None:
        try:
            for name, kind, text in printed:
                prefix = f"[{name}] " if self._prefix else ""
                text = _native.escape(text) if self._escape else text
                for line in io.StringIO(text.decode("utf-8", "backslashreplace"), newline="\n"):
                    if self._write is not None:
                        self._write(kind, prefix + line)
        except Exception:
            self._write = None
            _log.exception("what tasks print cannot be shown any more")


def _to_standard(kind: int, line: str) -> None:
    """Writes as ``print`` of this process would, also if a notebook or a test has replaced the stream."""
    stream = sys.stderr if kind else sys.stdout
    if stream is None:
        return
    try:
        stream.write(line)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
    except (BrokenPipeError, ValueError):  # the reader has closed the pipe, or the program the stream
        return
    stream.flush()
