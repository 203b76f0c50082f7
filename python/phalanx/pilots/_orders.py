"""The folder with the order of executors, for engines that start them on nodes with the same files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from phalanx._grids import make_folder, replace
from phalanx._identities import home
from phalanx.pilots._order import Order
from phalanx.pilots._own_grid import remove_left, write_maker
from phalanx.words import StrPath

#: The folder of orders, in the home folder, which nodes must see.
FOLDER = "pilots"
#: Bytes and lines that an error shows of what an executor has printed.
_KEPT, _SHOWN = 4 << 10, 3


class Orders:
    """A folder of mode 700 with an order of mode 600. Executors write there what they print, into files ``*.txt``.

    Parameters
    ----------
    engine : str
        How its name begins, like ``"slurm"``.
    grid : str
        The name of the program's grid, whose random part ends its name.
    above : path, optional
        The folder in which it is, by default ``$PHALANX_HOME/pilots`` or ``~/.phalanx/pilots``. What killed programs
        have left there is removed.
    order : Order
        What executors are to do.
    """

    def __init__(self, engine: str, grid: str, above: StrPath | None, order: Order) -> None:
        parent = home() / FOLDER if above is None else Path(above).absolute()
        remove_left(parent.glob(f"{engine}-*"))
        self.folder = parent / f"{engine}-{grid.rpartition('-')[2]}"
        self.order = self.folder / "order.json"
        make_folder(self.folder)
        try:
            write_maker(self.folder)
            self.renew(order)
        except BaseException:
            self.remove()
            raise

    def renew(self, order: Order) -> None:
        """Gives another order to executors that start from now on."""
        replace(self.order, order.line().decode())

    def said(self) -> str:
        """The last lines that an executor has printed, as the end of a sentence; empty if none has."""
        for file in sorted(self.folder.glob("*.txt")):
            if shown := last_lines(_end_of(file)):
                return f"; an executor has printed: {shown}"
        return ""

    def remove(self) -> None:
        """Removes it with all that it has."""
        shutil.rmtree(self.folder, ignore_errors=True)


def last_lines(text: str) -> str:
    """The last lines of a text that are not empty, in one line without control characters."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "; ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines[-_SHOWN:])


def _end_of(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - _KEPT))
        return opened.read(_KEPT).decode(errors="replace")
