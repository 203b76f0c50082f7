"""Two-phase commit of a transaction over several parts: one of them decides after the others have promised."""

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

#: A space that takes part. The call makes a new connection if the old one has ended.
Part: TypeAlias = Callable[[], Engine]
#: Spaces that other spaces can ask how a transaction has ended.
SERVED = (RemoteSpace, Replicas)
#: How often the commit is tried at a part that cannot be reached. The part has promised, and waits.
TRIES = 3
#: Seconds in which a lost decider may come back and report its decision.
PATIENCE = 10.0
#: Seconds between two questions to the decider.
PAUSE = 0.1
#: Addresses that only this machine can reach, and addresses that no client can reach.
_HERE = re.compile(r"unix:|127\.|localhost:|\[::1\]:")
_NOWHERE = re.compile(r"0\.0\.0\.0:|\[::\]:")


class Promises(NamedTuple):
    """The parts of a transaction after the first phase. All but one have promised that they can commit.

    ``decider``: the part that decides; None if all parts are in this process, or if there is only one. ``began``: when
    the first phase began, on the monotonic clock in seconds."""

    parts: Sequence[Part]
    decider: Part | None
    began: float


def promise(number: int, parts: Sequence[Part]) -> Promises:
    """Lets all parts but one promise that they can commit. The remaining part decides. The others know it, and ask it
    if this client does not tell them the outcome."""
    began = time.monotonic()
    if len(parts) < 2:
        return Promises(parts, None, began)
    decider, coordinator = _decider(parts)
    for part in parts:
        if part is not decider:
            part().prepare(number, coordinator)
    return Promises(parts, decider, began)


def _decider(parts: Sequence[Part]) -> tuple[Part | None, Coordinator | None]:
    """A space that the others can ask. The best one is durable, so that its decisions outlive its server, and can be
    reached from other machines."""
    served = [(part, engine.coordinator) for part in parts if isinstance(engine := part(), SERVED)]
    usable = [(part, it) for part, it in served if not any(map(_NOWHERE.match, it[0]))]
    return min(usable, key=lambda found: _rank(found[1]), default=(None, None))


def _rank(coordinator: Coordinator) -> tuple[bool, bool, bool]:
    places, _, _, durable = coordinator
    return not durable, any(map(_HERE.match, places)), any(place.startswith("unix:") for place in places)


def commit_parts(number: int, promises: Promises) -> None:
    """The second phase: commits all parts.

    Raises TransactionError or SpaceFullError if nothing has happened, SpaceLostError if the outcome is not known. In
    the last case the parts end the transaction by themselves, all in the same way, once they can ask the decider."""
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
    except (TransactionError, SpaceFullError):
        if len(parts) == 1:
            _abort(number, parts)
        raise
    if interrupt is not None:
        raise interrupt


def _abort(number: int, parts: Sequence[Part]) -> None:
    """Aborts the parts now, so that they need not wait for the timeout."""
    for part in parts:
        with suppress(SpaceError):  # a part that cannot be reached asks the decider later
            part().abort(number)


def _commit(part: Part, number: int) -> None:
    part().commit(number)


def _decide(number: int, decider: Part, began: float) -> KeyboardInterrupt | None:
    """Commits at the decider. Returns a Ctrl-C that came meanwhile, for the caller to raise."""
    interrupt: KeyboardInterrupt | None = None
    engine: Engine | None = None
    while True:
        try:
            engine = decider()
            engine.commit(number)
        except KeyboardInterrupt as error:
            interrupt = error  # the loop commits again, which does no harm
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
    """Asks the decider over a separate connection for its decision, because the answer to the commit was lost."""
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
    """Commits every part, even if others fail. Committing twice does no harm, so an interrupted commit is repeated. A
    Ctrl-C is raised after all parts were asked.

    Raises the error of the first part if no part has committed, TransactionError if some have. ``decided``: the decider
    has committed, and a part that cannot be reached asks it by itself."""
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
