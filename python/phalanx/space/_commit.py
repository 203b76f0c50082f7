"""The end of a transaction over several parts: one of them decides, after the others have promised."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceError, SpaceFullError, SpaceLostError, TransactionError
from phalanx.space._engine import Engine
from phalanx.space._replicas import Replicas

#: A space that takes part, over a new connection where the old one has ended.
Part: TypeAlias = Callable[[], Engine]

#: The addresses of the servers that keep a space, and its name there.
Coordinator: TypeAlias = tuple[list[str], str]
#: Spaces that others can ask how a transaction has ended.
SERVED = (RemoteSpace, Replicas)
#: How often a part is committed that cannot be reached: it has promised, and waits.
TRIES = 3
#: Seconds for the space that decides to be there again and say what it has decided.
PATIENCE = 10.0
PAUSE = 0.1
#: Seconds, at least, since the first part has promised.
AGE = 60.0
#: Where no other machine can ask.
_HERE = re.compile(r"unix:|127\.|localhost:|\[::1\]:")


def promise(number: int, parts: Sequence[Part]) -> Part | None:
    """All parts but one promise that they can commit, and know that one: it decides, and they ask it when nobody tells
    them. None where all are of this process, or there is only one."""
    if len(parts) < 2:
        return None
    decider, coordinator = _decider(parts)
    for part in parts:
        if part is not decider:
            part().prepare(number, coordinator)
    return decider


def _decider(parts: Sequence[Part]) -> tuple[Part | None, Coordinator | None]:
    """A space that others can ask, best from other machines too."""
    served = [(part, engine.coordinator) for part in parts if isinstance(engine := part(), SERVED)]
    far = [(part, coordinator) for part, coordinator in served if not any(map(_HERE.match, coordinator[0]))]
    return next(iter(far or served), (None, None))


def commit_parts(number: int, parts: Sequence[Part], decider: Part | None) -> None:
    """Commits what was promised. Raises TransactionError or SpaceFullError where nothing has happened, SpaceLostError
    where it is not known: then the parts end it by themselves, all in the same way, as soon as they can ask."""
    others = [part for part in parts if part is not decider]
    interrupt = None
    if decider is not None:
        try:
            interrupt = _decide(number, decider)
        except (TransactionError, SpaceFullError):
            for part in others:
                with suppress(SpaceError):  # it will ask
                    part().abort(number)
            raise
    commit_all([partial(_commit, part, number) for part in others], decided=decider is not None)
    if interrupt is not None:
        raise interrupt


def _commit(part: Part, number: int) -> None:
    part().commit(number)


def _decide(number: int, decider: Part) -> KeyboardInterrupt | None:
    """Returns when it is committed there, with a Ctrl-C that came meanwhile."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        engine = decider()
        try:
            engine.commit(number)
        except KeyboardInterrupt as error:
            interrupt = error  # a commit that is made twice is one
        except (TransactionError, SpaceFullError):
            raise
        except SpaceError as error:
            _hear(number, engine, error)
            return interrupt
        else:
            return interrupt


def _hear(number: int, engine: Engine, error: SpaceError) -> None:
    """The answer was lost: asks what became of it, over a connection of its own."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        decision = engine.decision(number, AGE) if isinstance(engine, SERVED) else None
        if decision == "committed":
            return
        if decision == "aborted":
            raise TransactionError(f"nothing of the transaction has happened: {error}") from error
        time.sleep(PAUSE)
    raise SpaceLostError(f"whether the transaction was committed is not known: {error}") from error


def commit_all(commits: Sequence[Callable[[], object]], *, decided: bool = False) -> None:
    """Commits every part, whatever becomes of the others. A commit that is made twice is one, so what was interrupted
    is made again, and a Ctrl-C is raised when all have been asked. ``decided``: a part that is not reached asks by
    itself. Otherwise raises what the parts raise, if none has committed; TransactionError, if some have."""
    interrupt: BaseException | None = None
    failures: list[SpaceError] = []
    for commit in commits:
        tries, done = 0, False
        while not done:
            try:
                commit()
                done = True
            except KeyboardInterrupt as error:
                interrupt = error
            except SpaceError as error:
                tries += 1
                if tries == TRIES or len(commits) == 1:
                    failures.append(error)
                    done = True
    if interrupt is not None:
        raise interrupt
    if decided:
        return
    if failures and len(failures) == len(commits):
        raise failures[0]
    if failures:
        heard = f"{len(commits) - len(failures)} of {len(commits)} spaces have committed; of the others"
        raise TransactionError(f"{heard} it is not known: {failures[0]}") from failures[0]
