"""Where commands print tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

#: Columns of the terminal between two cells of a narrow table: a margin, and the line of the box.
_BETWEEN = 2
#: The least widths of columns that are cut, and of those that wrap, in columns of the terminal.
_LEAST_CUT, _LEAST_WRAPPED = 8, 14


def console(width: int) -> Console:
    """Standard output; what is no terminal gets lines of this many columns."""
    found = Console()
    return found if found.is_terminal else Console(width=width)


def print_narrow(
    headers: Iterable[str],
    rows: Iterable[Mapping[str, str]],
    width: int,
    *,
    whole: Iterable[str],
    cut: str | None = None,
    spare: Iterable[str] = (),
) -> None:
    """Prints a table that fits into terminals of 80 columns.

    Parameters
    ----------
    headers
        The headers of the columns.
    rows
        The cells of each row by the headers.
    width
        The width where there is no terminal, in columns.
    whole
        The columns whose cells are neither wrapped nor cut.
    cut
        The column whose cells are cut to what the others leave. The other columns wrap.
    spare
        The columns that are left out if there is no room, the first one first.
    """
    out, shown, rows = console(width), [*headers], [*rows]
    sizes = {header: max(map(cell_len, [header, *(row[header] for row in rows)])) for header in shown}
    whole = {*whole}

    def least(header: str) -> int:
        return sizes[header] if header in whole else min(sizes[header], _LEAST_CUT if header == cut else _LEAST_WRAPPED)

    def others() -> int:
        return sum(map(least, shown)) + _BETWEEN * (len(shown) - 1)

    for header in spare:
        if others() > out.width:
            shown.remove(header)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _BETWEEN - 1, 0, 0))
    for header in shown:
        is_cut = header == cut
        table.add_column(
            header,
            no_wrap=is_cut or header in whole,
            min_width=least(header),
            max_width=max(_LEAST_CUT, out.width - others() + least(header)) if is_cut else None,
        )
    for row in rows:
        table.add_row(*(row[header] for header in shown))
    out.print(table, highlight=False, markup=False)
