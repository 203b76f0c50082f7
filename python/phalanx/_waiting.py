"""Waiting for machines: a manager that is made before they are there, or while others have all places."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from math import inf
from time import monotonic, sleep
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from phalanx.errors import ContractError, RecruitError

_log = logging.getLogger("phalanx")
P = ParamSpec("P")

#: Seconds between two attempts: the pause doubles from the first number to the second.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0
#: Seconds after which the same reason is told again.
AGAIN = 30.0


class Manager(Protocol):
    """What is needed of a manager."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """A future of a call."""

    def close(self) -> None:
        """Ends everything now."""


M = TypeVar("M", bound=Manager)


def waits_for_machines(begin: Callable[Concatenate[M, P], None]) -> Callable[Concatenate[M, P], None]:
    """Gives the ``__init__`` of a manager its option ``wait``: it begins again as long as no machine can be used, and
    returns when the first interpreter is there."""

    @wraps(begin)
    def patiently(manager: M, /, *args: P.args, **kwargs: P.kwargs) -> None:
        seconds: Any = kwargs.get("wait", 0)
        if not isinstance(seconds, int | float) or not 0 <= seconds < inf:
            raise ContractError(f"wait is a number of seconds, 0 or more, not {seconds!r:.40}")
        if not seconds:
            begin(manager, *args, **kwargs)
            return
        waiting = _Waiting(seconds)
        waiting.until_it_works(lambda: begin(manager, *args, **kwargs))
        try:
            # A manager asks for interpreters when it gets its first call. They may all be in use.
            waiting.until_it_works(lambda: manager.submit(_nothing).result(waiting.left()))
        except BaseException:
            manager.close()
            raise

    return patiently


class _Waiting:
    """The seconds that a manager waits."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = monotonic() + seconds
        self._told: tuple[str, float] = ("", -inf)

    def left(self) -> float:
        """The seconds that are left."""
        return max(self._end - monotonic(), 0)

    def until_it_works(self, attempt: Callable[[], object]) -> None:
        """Makes attempts until one succeeds. Raises the last error when the time is over, and any other one at once."""
        pause = FIRST_PAUSE
        while True:
            try:
                attempt()
                return
            except (RecruitError, ContractError) as error:
                if not _may_pass(error):
                    raise
                if not self.left():
                    raise type(error)(f"waited {self._seconds:g} s in vain: {error}") from error
                self._tell(str(error))
            except TimeoutError as error:
                raise RecruitError(
                    f"waited {self._seconds:g} s in vain: no interpreter has begun; {self._told[0] or 'all are in use'}"
                ) from error
            sleep(min(pause, self.left()))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _tell(self, reason: str) -> None:
        """Logs what is waited for, when that is new and now and then."""
        told, when = self._told
        if reason != told or monotonic() - when > AGAIN:
            self._told = reason, monotonic()
            _log.warning("waiting for machines, up to %.0f s more: %s", self.left(), reason)


def _may_pass(error: Exception) -> bool:
    """Whether machines that come later could mend it: too few are there now, rather than a wrong number."""
    return isinstance(error, RecruitError) or "but the machines offer" in str(error)


def _nothing() -> None:
    """Shows that an interpreter is there."""
