"""A page that shows what a program or a grid does, in the browser of its user.

``px.Manager(dashboard=True)`` and ``phalanx dashboard`` begin one. It only reads: there is no button by which a browser
could change anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from phalanx.dashboard._access import Access
from phalanx.dashboard._feed import Feed, Source
from phalanx.dashboard._program import ProgramSource
from phalanx.dashboard._serving import Server
from phalanx.errors import PhalanxError

if TYPE_CHECKING:
    from phalanx import _native

__all__ = ["Dashboard"]


class Dashboard:
    """A page at ``127.0.0.1`` that shows what a program or a grid does. :attr:`phalanx.Manager.dashboard` is one.

    Parameters
    ----------
    source
        The program or the grid.
    port : int
        Where to listen at ``127.0.0.1``; 0: any free port.
    token : str, optional
        What Prometheus shows for ``/metrics``; by default a random one.

    Raises
    ------
    PhalanxError
        The port is in use, or may not be used.

    Examples
    --------
    >>> import phalanx as px
    >>> manager = px.Manager(contract=px.ParDegree(1), dashboard=True)  # doctest: +SKIP
    >>> manager.dashboard.link()  # doctest: +SKIP
    'http://127.0.0.1:40301/enter/dJ0nrSYAXrVg3UxAbVXQp1X7Xk'
    >>> manager.close()  # doctest: +SKIP
    """

    def __init__(self, source: Source, *, port: int = 0, token: str | None = None) -> None:
        self._source = source
        self._access = Access(token)
        try:
            self._server = Server(Feed(source), self._access, port)
        except BaseException:
            source.close()
            raise

    @property
    def address(self) -> str:
        """Where the page is served, like ``127.0.0.1:40301``."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def token(self) -> str:
        """The token for ``/metrics``: Prometheus sends it as ``Authorization: Bearer TOKEN``. It is a secret."""
        return self._access.token

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return self._server.feed.readers

    def link(self) -> str:
        """A new link to the page. It is a secret, and one browser can use it, once.

        Returns
        -------
        str
            Up to 16 links may be unused at a time; of more, the oldest ones end.
        """
        return self._server.link()

    def watch(self, space: Any, name: str | None = None) -> None:
        """Shows a tuple space on the page of a program.

        Parameters
        ----------
        space : Space
            The space. It is asked for its numbers while a page is open.
        name : str, optional
            What the page calls it; by default what the space calls itself.

        Raises
        ------
        PhalanxError
            This is the page of a grid, or a hundred spaces are watched already.
        """
        if not isinstance(self._source, ProgramSource):
            raise PhalanxError("the dashboard of a grid shows the spaces that are named with --space")
        self._source.watch(name or space.name, lambda: space.engine.info())

    def copied(self, name: str, *, streams: int | None = None) -> Callable[[Any], None]:
        """Shows a copy on the page of a program.

        Parameters
        ----------
        name : str
            What the page calls it.
        streams : int, optional
            How many streams it was asked to use.

        Returns
        -------
        callable
            What to give as ``progress`` to :func:`phalanx.copy`.

        Raises
        ------
        PhalanxError
            This is the page of a grid.

        Examples
        --------
        >>> shows = manager.dashboard.copied("results", streams=4)  # doctest: +SKIP
        >>> px.copy("results", "lab:/scratch/results", streams=4, progress=shows)  # doctest: +SKIP
        """
        source = self._source
        if not isinstance(source, ProgramSource):
            raise PhalanxError("the dashboard of a grid shows the copies that executors tell of")

        def progress(now: Any) -> None:
            source.copied(name, {
                "name": name, "streams": streams, "bytes": now.bytes, "total": now.total,
                "rate": now.bytes / now.seconds if now.seconds else None,
            })  # fmt: skip

        return progress

    def close(self) -> None:
        """Ends the page, its connections and its threads."""
        self._server.close()


class Watched:
    """A native manager with a page. The page ends with it.

    Parameters
    ----------
    native
        The manager.
    names
        Tells what the open runs compute.
    wanted
        ``True``, or the port of the page.
    """

    def __init__(self, native: _native.Manager, names: Callable[[], Mapping[int, str]], wanted: bool | int) -> None:
        self._native = native
        self._source = ProgramSource(native, names)
        self.page = Dashboard(self._source, port=0 if wanted is True else wanted)
        print(f"phalanx: the dashboard of this program: {self.page.link()}", file=sys.stderr, flush=True)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if callable(found):
            setattr(self, name, found)  # found at once from now on
        return found

    def names_from(self, names: Callable[[], Mapping[int, str]]) -> None:
        """Has the page ask for the names of further runs."""
        self._source.names.append(names)

    def close(self) -> None:
        """Ends the page, then every interpreter."""
        try:
            self.page.close()
        finally:
            self._native.close()
