"""The members of a spread space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import overload

from phalanx.errors import SpaceError
from phalanx.space._engine import Engine

#: Retry interval in seconds for a member that could not be reached. Until then a request to it fails at once.
PAUSE = 1.0


class Members(Sequence[Engine]):
    """The engines of the members. If the connection to a member has ended, the next access reconnects."""

    def __init__(
        self, engines: Sequence[Engine], addresses: Sequence[str | None], reach: Callable[[str], Engine]
    ) -> None:
        self._engines = list(engines)
        self._addresses = addresses
        self._reach = reach
        self._lock = Lock()
        self._failures: dict[int, tuple[float, str]] = {}

    def __len__(self) -> int:
        return len(self._engines)

    @overload
    def __getitem__(self, at: int) -> Engine: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Engine]: ...
    def __getitem__(self, at: int | slice) -> Engine | Sequence[Engine]:
        if isinstance(at, slice):
            return self._engines[at]
        engine, address = self._engines[at], self._addresses[at]
        if address is None or not getattr(engine, "ended", False):
            return engine
        with self._lock:
            if self._engines[at] is engine:
                self._engines[at] = self._reach_again(at, address)
                engine.close()
            return self._engines[at]

    def _reach_again(self, at: int, address: str) -> Engine:
        when, failure = self._failures.get(at, (0.0, ""))
        if monotonic() - when < PAUSE:
            raise SpaceError(failure)
        try:
            return self._reach(address)
        except SpaceError as error:
            self._failures[at] = monotonic(), str(error)
            raise

    def close(self) -> None:
        """Closes the engines that were opened here."""
        for engine, address in zip(self._engines, self._addresses, strict=True):
            if address is not None:
                engine.close()
        self._engines.clear()
