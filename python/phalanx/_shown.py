"""How objects show themselves: one line for a terminal, a small table for a notebook.

Nothing here waits, asks another machine or raises: an object may be shown in the middle of an error, after it was
closed, or before it was wholly made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

#: Rows of a table at most. A manager may have a thousand interpreters.
MOST_ROWS = 20
#: Machines in a line at most.
MOST_NAMED = 3
#: Colours and lines are those of the page, so that a table is readable on a light and on a dark one.
_TABLE = "border-collapse:collapse;color:inherit;background:transparent;font-size:0.9em;margin:0.3em 0"
_CELL = "border:1px solid rgba(128,128,128,0.4);padding:0.2em 0.6em;text-align:left;background:transparent"


def safe(show: Callable[[], str], instead: str) -> str:
    """What ``show`` returns, or ``instead`` if that raises."""
    try:
        return show()
    except Exception:
        return instead


def counted(number: int, word: str) -> str:
    """Like ``1 interpreter`` or ``2 interpreters``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def named(machines: Sequence[str] | None) -> str:
    """The first machines, like ``labpc:7400 and 11 more``. None: this machine."""
    if machines is None:
        return "this machine"
    more = len(machines) - MOST_NAMED
    return ", ".join(machines[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def card(title: str, facts: Iterable[tuple[str, object]], rows: Rows | None = None) -> str:
    """HTML: a title, facts about the object, and a table. All text is escaped here.

    Parameters
    ----------
    title
        The kind of the object.
    facts
        Names with their values.
    rows
        The heads of the table and its rows, of which the first :data:`MOST_ROWS` are shown.
    """
    from html import escape  # imported only here, because most programs show nothing

    shown = "".join(_row((name, value), head=True) for name, value in facts)
    parts = [f"<div><strong>{escape(title)}</strong></div>"]
    if shown:
        parts.append(f'<table style="{_TABLE}"><tbody>{shown}</tbody></table>')
    if rows is not None and rows[1]:
        heads, all_rows = rows
        head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in heads)
        body = "".join(map(_row, all_rows[:MOST_ROWS]))
        parts.append(f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')
        if len(all_rows) > MOST_ROWS:
            parts.append(f"<div>and {len(all_rows) - MOST_ROWS} more</div>")
    return f'<div style="color:inherit">{"".join(parts)}</div>'


#: The heads of a table, and its rows.
Rows = tuple[Sequence[str], Sequence[Sequence[object]]]


def _row(cells: Sequence[object], *, head: bool = False) -> str:
    from html import escape

    first, *others = (escape(str(cell)) for cell in cells)
    begin = f'<th scope="row" style="{_CELL}">{first}</th>' if head else f'<td style="{_CELL}">{first}</td>'
    return f"<tr>{begin}{''.join(f'<td style={chr(34)}{_CELL}{chr(34)}>{cell}</td>' for cell in others)}</tr>"
