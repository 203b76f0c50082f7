"""The last step of a transaction over several parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.errors import SpaceError, TransactionError

#: How often a part is committed that cannot be reached: it has promised, and waits.
TRIES = 3


def commit_all(commits: Sequence[Callable[[], object]]) -> None:
    """Commits every part, whatever becomes of the others. A commit that is made twice is one, so what was interrupted
    is made again, and a Ctrl-C is raised when all have been asked. Raises what the parts raise, if none has committed;
    TransactionError, if some have."""
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
    if failures and len(failures) == len(commits):
        raise failures[0]
    if failures:
        heard = f"{len(commits) - len(failures)} of {len(commits)} spaces have committed; of the others"
        raise TransactionError(f"{heard} it is not known: {failures[0]}") from failures[0]
