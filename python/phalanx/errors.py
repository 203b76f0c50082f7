"""What can go wrong, who is at fault, and what to do next."""

from __future__ import annotations

from typing import Any


class PhalanxError(Exception):
    """The family of all errors that phalanx raises itself."""


class ProgramError(PhalanxError, TypeError):
    """Something in a program is neither a function nor a skeleton, or a skeleton stands where a function is called."""


class ContractError(PhalanxError, ValueError):
    """The contract cannot be met by the machines it was given."""


class ContractWarning(UserWarning):
    """A contract on time is not met; the computation goes on."""


class RecruitError(PhalanxError, ConnectionError):
    """No interpreter can be recruited: a machine cannot be reached, refuses, or is named wrongly."""


class IdentityError(PhalanxError, PermissionError):
    """A certificate is missing, damaged, or for another role."""


class PolicyError(PhalanxError, ValueError):
    """The policy or a mark cannot be read, or leaves no level for a link."""


class StagingError(PhalanxError):
    """Code or data cannot travel: it cannot be pickled, or the other machine lacks a module it needs."""


class CulpritError(PhalanxError):
    """A task ended the interpreter that fired it, three times.

    The task's token is not unpickled to name it, because unpickling may be what ended the interpreters.

    Attributes
    ----------
    index : int
        The task's place in the stream, from 0.
    task : object
        The task as the sender still has it: the item of a collection, ``(args, kwargs)`` of a call by ``submit``.
        ``None`` for a task of an iterator and a call of ``map``, which keep nothing.
    size : int
        The task's token in bytes, about.
    losses : tuple of str
        Each interpreter that was lost, and how: the signal or the exit status, the largest resident size where it is
        known, and "out of memory" where the system ended it for that.
    """

    def __init__(
        self, message: str, index: int = -1, task: object = None, *, size: int = 0, losses: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.index = index
        self.task = task
        self.size = size
        self.losses = losses


class LostError(PhalanxError):
    """No interpreter is left, and none can be recruited; the message names the losses.

    Where there never was one it is a :class:`RecruitError`.
    """


class TransferError(PhalanxError, OSError):
    """Nothing was copied, or the copy was cut; the message says which end is at fault, and what to do next."""


class LaunchError(PhalanxError, ValueError):
    """A message passing program cannot be started: its command line, its files or its machines are at fault."""


class RanksError(PhalanxError):
    """A message passing program that was started from Python did not end well.

    ``result`` is its :class:`LaunchResult`; ``rank`` and ``machine`` say which process was the first, where known. The
    message ends with the last line that this process wrote to standard error, where the output is captured.
    """

    def __init__(self, message: str, result: Any, rank: Any = None) -> None:
        super().__init__(message)
        self.result = result
        self.rank: int | None = getattr(rank, "rank", None)
        self.machine: str | None = getattr(rank, "machine", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._again, (str(self), self.result, self.rank, self.machine)

    @classmethod
    def _again(cls, message: str, result: Any, rank: int | None, machine: str | None) -> RanksError:
        error = cls(message, result)
        error.rank, error.machine = rank, machine
        return error


class RanksTimeoutError(RanksError, TimeoutError):
    """A message passing program took longer than it was given, and was ended."""


class BspError(PhalanxError):
    """A call of a BSP program is wrong, or its processes do not agree; the message names the call and the reason."""


class ProfileError(PhalanxError, ValueError):
    """``begin`` and ``end`` of the profiler do not pair."""


class InitializerError(PhalanxError):
    """The ``initializer`` of a manager raised an exception at an interpreter, which therefore can fire nothing; the
    message has the exception's words."""


class RemoteTraceback(Exception):
    """The cause of an exception that a task raised at an interpreter.

    ``traceback`` is the remote traceback as text, ``task`` the task's ``repr`` (shortened), ``index`` its place in the
    stream from 0, ``interpreter`` the name of the interpreter that fired it.
    """

    def __init__(self, traceback: str, task: str, index: int, interpreter: str) -> None:
        super().__init__(traceback, task, index, interpreter)
        self.traceback = traceback
        self.task = task
        self.index = index
        self.interpreter = interpreter

    def __str__(self) -> str:
        return f'\n"""\n{self.traceback}"""\nraised at {self.interpreter} by task {self.index}: {self.task}'


class RemoteError(PhalanxError):
    """Stands for a remote exception that cannot travel itself, or that would end this program, as SystemExit does; the
    message names its type and its words."""


class SpaceError(PhalanxError):
    """A tuple space cannot do what was asked, or has ended; the message says what to do next."""


class AccessError(SpaceError, PermissionError):
    """The rules of the space's server, or the group that the space belongs to, do not allow this to this user."""


class SpaceFullError(SpaceError):
    """A limit of the space is reached: take tuples out, or make it with a larger one."""


class SpaceLostError(SpaceError):
    """The connection to a space ended, or the member that led it does not any more: what was asked may have been done,
    or not."""


class SpaceMovedError(SpaceLostError):
    """Another member leads the space now. Nothing was done; :class:`phalanx.Space` asks there by itself."""


class SpaceForgottenError(SpaceError):
    """The space does not remember what this client has asked before. Nothing was done; :class:`phalanx.Space` says
    again by itself who it is."""


class SpaceTimeoutError(SpaceError, TimeoutError):
    """No matching tuple came in time."""


class TransactionError(SpaceError):
    """The transaction has ended: by its timeout, by the end of its owner, or because it was committed or aborted."""


class TransactionConflictError(TransactionError):
    """Others have changed what the transaction relies on, and nothing of it has happened: begin it again."""
