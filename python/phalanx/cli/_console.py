"""Where commands print tables."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

#: Columns between two cells of a table that must fit into a narrow terminal: a margin, and the line of the box.
_BETWEEN = 2
#: The least width of a column that is cut, in columns of the terminal.
_LEAST = 8


def console(width: int) -> Console:
    """Standard output; what is no terminal gets lines of this many columns."""
    found = Console()
    return found if found.is_terminal else Console(width=width)


def narrow_table(*headers: str) -> Table:
    """A table with little between its cells, for terminals of 80 columns."""
    return Table(*headers, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _BETWEEN - 1, 0, 0))


def print_narrow(table: Table, width: int, *, whole: tuple[str, ...], cut: str | None = None) -> None:
    """Prints a :func:`narrow_table` in as many columns as there are.

    Parameters
    ----------
    table
        The table. Its other columns wrap.
    width
        The width where there is no terminal, in columns.
    whole
        The headers of columns whose cells are neither wrapped nor cut.
    cut
        The header of a column whose cells are cut to what the others leave.
    """
    out = console(width)
    sizes = {
        str(column.header): max(cell_len(text) for text in (str(column.header), *map(str, column.cells)))
        for column in table.columns
    }
    for column in table.columns:
        header = str(column.header)
        if header in whole:
            column.no_wrap, column.min_width = True, sizes[header]
        elif header == cut:
            rest = sum(sizes.values()) - sizes[header] + _BETWEEN * (len(sizes) - 1)
            column.no_wrap, column.max_width = True, max(_LEAST, out.width - rest)
    out.print(table, highlight=False, markup=False)
