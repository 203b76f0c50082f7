"""The end of a transaction over several parts: one of them decides, after the others have promised."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceError, SpaceFullError, SpaceLostError, TransactionError
from phalanx.space._engine import Coordinator, Engine
from phalanx.space._replicas import Replicas

#: A space that takes part, over a new connection where the old one has ended.
Part: TypeAlias = Callable[[], Engine]
#: Spaces that others can ask how a transaction has ended.
SERVED = (RemoteSpace, Replicas)
#: How often a part is committed that cannot be reached: it has promised, and waits.
TRIES = 3
#: Seconds for the space that decides to be there again and say what it has decided.
PATIENCE = 10.0
PAUSE = 0.1
#: Where only this machine can ask, and where nobody can.
_HERE = re.compile(r"unix:|127\.|localhost:|\[::1\]:")
_NOWHERE = re.compile(r"0\.0\.0\.0:|\[::\]:")


class Promises(NamedTuple):
    """What the parts have promised: all but one that they can commit, and to whom they leave it to decide. ``decider``:
    None where all are of this process, or there is only one."""

    parts: Sequence[Part]
    decider: Part | None
    began: float


def promise(number: int, parts: Sequence[Part]) -> Promises:
    """All parts but one promise that they can commit, and know that one: it decides, and they ask it when nobody tells
    them."""
    began = time.monotonic()
    if len(parts) < 2:
        return Promises(parts, None, began)
    decider, coordinator = _decider(parts)
    for part in parts:
        if part is not decider:
            part().prepare(number, coordinator)
    return Promises(parts, decider, began)


def _decider(parts: Sequence[Part]) -> tuple[Part | None, Coordinator | None]:
    """A space that others can ask: best one whose decisions outlast its server, and that other machines reach."""
    served = [(part, engine.coordinator) for part in parts if isinstance(engine := part(), SERVED)]
    usable = [(part, it) for part, it in served if not any(map(_NOWHERE.match, it[0]))]
    return min(usable, key=lambda found: _rank(found[1]), default=(None, None))


def _rank(coordinator: Coordinator) -> tuple[bool, bool, bool]:
    places, _, _, durable = coordinator
    return not durable, any(map(_HERE.match, places)), any(place.startswith("unix:") for place in places)


def commit_parts(number: int, promises: Promises) -> None:
    """Commits what was promised. Raises TransactionError or SpaceFullError where nothing has happened, SpaceLostError
    where it is not known: then the parts end it by themselves, all in the same way, as soon as they can ask."""
    parts, decider, began = promises
    others = [part for part in parts if part is not decider]
    interrupt = None
    if decider is not None:
        try:
            interrupt = _decide(number, decider, began)
        except (TransactionError, SpaceFullError):
            _abort(number, parts)
            raise
    try:
        commit_all([partial(_commit, part, number) for part in others], decided=decider is not None)
    except SpaceFullError:
        if len(parts) == 1:
            _abort(number, parts)
        raise
    if interrupt is not None:
        raise interrupt


def _abort(number: int, parts: Sequence[Part]) -> None:
    """Ends what does not commit: now, and not only when its time is over."""
    for part in parts:
        with suppress(SpaceError):  # it will ask
            part().abort(number)


def _commit(part: Part, number: int) -> None:
    part().commit(number)


def _decide(number: int, decider: Part, began: float) -> KeyboardInterrupt | None:
    """Returns when it is committed there, with a Ctrl-C that came meanwhile."""
    interrupt: KeyboardInterrupt | None = None
    engine: Engine | None = None
    while True:
        try:
            engine = decider()
            engine.commit(number)
        except KeyboardInterrupt as error:
            interrupt = error  # a commit that is made twice is one
        except (TransactionError, SpaceFullError):
            raise
        except SpaceError as error:
            if engine is None:
                raise _nothing(error) from error
            _hear(number, engine, began, error)
            return interrupt
        else:
            return interrupt


def _hear(number: int, engine: Engine, began: float, error: SpaceError) -> None:
    """The answer was lost: asks what became of it, over a connection of its own."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        decision = engine.decision(number, time.monotonic() - began) if isinstance(engine, SERVED) else None
        if decision == "committed":
            return
        if decision == "aborted":
            raise _nothing(error) from error
        time.sleep(PAUSE)
    raise SpaceLostError(f"whether the transaction was committed is not known: {error}") from error


def _nothing(error: SpaceError) -> TransactionError:
    return TransactionError(f"nothing of the transaction has happened: {error}")


def commit_all(commits: Sequence[Callable[[], object]], *, decided: bool = False) -> None:
    """Commits every part, whatever becomes of the others. A commit that is made twice is one, so what was interrupted
    is made again, and a Ctrl-C is raised when all have been asked. Raises what the parts raise, if none has committed;
    TransactionError, if some have. ``decided``: another part has, and one that is not reached asks by itself."""
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
        failures = [failure for failure in failures if isinstance(failure, TransactionError)]
    if failures and len(failures) == len(commits) and not decided:
        raise failures[0]
    if failures:
        heard = f"{len(commits) - len(failures)} of {len(commits)} spaces have committed; of the others"
        if decided:
            heard = "it is committed, but of what a space had promised"
        raise TransactionError(f"{heard} it is not known: {failures[0]}") from failures[0]
