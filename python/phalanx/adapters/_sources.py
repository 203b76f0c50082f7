"""The source of a joblib backend's manager: one that the user gave, or one that is kept for its options."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from phalanx._pickling import dumps_by_value
from phalanx._tokens import PROTOCOL
from phalanx.adapters._kept import THREADS, Loan, borrow, find
from phalanx.errors import PhalanxError
from phalanx.manager import Manager
from phalanx.security import secure_code, secure_data

#: Options of :class:`phalanx.Manager`, for the manager that a backend has for itself.
OF_MANAGERS = frozenset(
    {"where", "contract", "policy", "identity", "journal", "output", "initializer", "initargs", "delegate"}
)
#: Seconds without work after which a backend's own interpreters end; loky's.
IDLE = 300.0
#: Options of joblib's other backends that cannot be honoured here, and what to do instead.
REFUSED = {
    "temp_folder": "arrays travel by the interpreters' links and not through files: leave it out",
    "timeout": "say Parallel(timeout=) for the results, or idle_worker_timeout= for interpreters without work",
    "context": "interpreters are started by phalanx, and not by a context of multiprocessing: leave it out",
    "maxtasksperchild": "interpreters stay until they were idle for idle_worker_timeout= seconds: leave it out",
}


class Use(Protocol):
    """The use of a manager by one parallel call."""

    manager: Manager

    def give_back(self) -> None:
        """Ends the use. May be repeated."""

    def discard(self) -> None:
        """Keeps later calls from using the manager, if it is a kept one."""


class Source(Protocol):
    """The source of managers for calls."""

    @property
    def manager(self) -> Manager:
        """The manager of the next call."""

    @property
    def is_nested(self) -> bool:
        """Whether one of these options asks for interpreters of this machine."""

    def borrow(self) -> Use:
        """The use of it by a call."""

    def with_options(self, options: Mapping[str, Any]) -> Source:
        """The source for a call with options of its own. Raises PhalanxError if they are not possible."""


class Given:
    """A manager that the user gave, and ends."""

    is_nested = False

    def __init__(self, manager: Manager) -> None:
        self.manager = manager

    def borrow(self) -> Use:
        """The use of the manager."""
        return Given(self.manager)

    def give_back(self) -> None:
        """Leaves the manager as it is."""

    def discard(self) -> None:
        """Leaves the manager as it is."""

    def with_options(self, options: Mapping[str, Any]) -> Source:
        """The same source. Raises PhalanxError for any option."""
        if options:
            raise PhalanxError(f"a manager is there already, so {', '.join(options)} cannot be chosen any more")
        return self


class Own:
    """A manager that is kept for a backend's options.

    Interpreters on other machines are places that other users want too. Without ``idle_worker_timeout=`` they are kept
    until the end of the block of ``parallel_config``, as the backend is.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._of_manager = _options_of_manager(options)
        self.is_nested = "where" not in options and "phalanx._interpreter" in sys.modules
        self._stays = "where" not in options or "idle_worker_timeout" in options
        self._idle = float(options.get("idle_worker_timeout", IDLE if self._stays else 0))
        self._held: Loan | None = None
        if not self._idle >= 0:
            raise PhalanxError(f"idle_worker_timeout= is a number of seconds, not {self._idle}")

    @property
    def manager(self) -> Manager:
        """The manager of the next call. It is made if there is none."""
        self._hold()
        return find(self._of_manager, self._idle).manager

    def borrow(self) -> Loan:
        """The use of it by a call."""
        self._hold()
        return borrow(self._of_manager, self._idle)

    def with_options(self, options: Mapping[str, Any]) -> Source:
        """The source for a call with additional or different options."""
        return Own({**self._options, **options}) if options else self

    def _hold(self) -> None:
        if self._held is not None and not self._held.is_current():
            self._held.give_back()  # its places are free before others are asked for
            self._held = None
        if self._held is None and not self._stays:
            self._held = borrow(self._of_manager, self._idle)


def source(manager: Manager | None, options: Mapping[str, Any]) -> Source:
    """The source for a backend. Raises PhalanxError for options that it does not have."""
    chosen = {name: value for name, value in options.items() if value is not None and value != ()}
    for name in chosen.keys() - OF_MANAGERS - {"inner_max_num_threads", "idle_worker_timeout"}:
        known = ", ".join(sorted({*OF_MANAGERS, "manager", "idle_worker_timeout"}))
        reason = REFUSED.get(name, f"it has {known}, and what parallel_config has for all backends")
        raise PhalanxError(f"the backend 'phalanx' has no option {name!r}: {reason}")
    return Own(chosen) if manager is None else Given(manager).with_options(chosen)


def _options_of_manager(options: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {name: value for name, value in options.items() if name in OF_MANAGERS}
    threads = options.get("inner_max_num_threads")
    if threads is not None:
        first = chosen.pop("initializer", None), tuple(chosen.pop("initargs", ()))
        # Pickled, because unpickling may load libraries, and these read their limits when they are loaded.
        pickled = dumps_by_value(first, PROTOCOL, lambda _: True)
        chosen |= {"initializer": limit_threads, "initargs": (int(threads), pickled)}
    return chosen


@secure_code
@secure_data
def limit_threads(threads: int, pickled: bytes) -> None:
    """At an interpreter: limits the threads of the libraries that are not loaded yet, and calls the user's initializer,
    if there is one."""
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    initializer: Callable[..., object] | None
    initializer, arguments = pickle.loads(pickled)
    if initializer is not None:
        initializer(*arguments)
