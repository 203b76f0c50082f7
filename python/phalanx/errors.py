"""The exceptions. Each message says what happened, who is at fault, and what to do next."""

from __future__ import annotations

import sys
from typing import Any

#: How the line begins that says where an error is explained.
HELP = "help: "
#: The command that explains errors, so that the line is of use without the repository and without a network.
EXPLAIN = "phalanx help"


class PhalanxError(Exception):
    """The family of all errors that phalanx raises itself.

    An error that is not caught is printed with a line that says where it is explained (a note, from Python 3.11 on).
    The line is not part of ``str(error)``.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        if sys.version_info >= (3, 11):
            self.add_note(help_for(type(self)))


class ProgramError(PhalanxError, TypeError):
    """Something in a program is neither a function nor a skeleton, or a skeleton stands where a function is called."""


class ContractError(PhalanxError, ValueError):
    """The contract cannot be met by the machines it was given."""


class ContractWarning(UserWarning):
    """A contract on time is not met; the computation goes on."""


class RecruitError(PhalanxError, ConnectionError):
    """No interpreter can be recruited: a machine cannot be reached, refuses, or is named wrongly."""


class IdentityError(PhalanxError, PermissionError):
    """A certificate is missing, damaged, or for another role. Or another member answers than the expected one."""


class DeployError(PhalanxError):
    """A machine cannot be deployed to over ssh, or what was deployed there cannot be removed."""


class PolicyError(PhalanxError, ValueError):
    """The policy or a mark cannot be read, or leaves no level for a link."""


class StagingError(PhalanxError):
    """Code or data cannot travel: it cannot be pickled, or the other machine lacks a module that it needs."""


class CulpritError(PhalanxError):
    """A task ended the interpreter that fired it, three times.

    The task's token is not unpickled to name it, because unpickling may be what ended the interpreters.

    Attributes
    ----------
    index : int
        The position of the task in the stream, from 0.
    task : object
        The task as the sender still has it: the item of a collection, or ``(args, kwargs)`` of a call by ``submit``.
        ``None`` for a task of an iterator and for a call of ``map``, because these are not kept.
    size : int
        The approximate size of the task's token in bytes.
    losses : tuple of str
        Each interpreter that was lost, and how: the signal or the exit status, the largest resident size if it is
        known, and "out of memory" if the system ended it for that.
    """

    def __init__(
        self, message: str, index: int = -1, task: object = None, *, size: int = 0, losses: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.index = index
        self.task = task
        self.size = size
        self.losses = losses


class TaskTimeoutError(PhalanxError, TimeoutError):
    """A task ran longer than the ``timeout`` of its function (:func:`phalanx.options`). The interpreter that fired it
    was ended and replaced.

    Attributes
    ----------
    index : int
        The position of the task in the stream, from 0.
    task : object
        The task as the sender still has it, as for :class:`CulpritError`.
    timeout : float
        The seconds that the function may run.
    interpreter : str
        The name of the interpreter that fired it last.
    """

    def __init__(
        self, message: str, index: int = -1, task: object = None, *, timeout: float = 0.0, interpreter: str = ""
    ) -> None:
        super().__init__(message)
        self.index = index
        self.task = task
        self.timeout = timeout
        self.interpreter = interpreter


class LostError(PhalanxError):
    """No interpreter is left, and none can be recruited. The message names the losses.

    If there never was an interpreter, the error is a :class:`RecruitError`.
    """


class TransferError(PhalanxError, OSError):
    """Nothing was copied, or the copy was cut; the message says which end is at fault, and what to do next."""


class LaunchError(PhalanxError, ValueError):
    """A message passing program cannot be started: its command line, its files or its machines are at fault."""


class RanksError(PhalanxError):
    """A message passing program that was started from Python did not end well.

    If the output is captured, the message ends with the last line that the failed process wrote to standard error.

    Attributes
    ----------
    result : LaunchResult
        How the program ended.
    rank : int or None
        The process that failed first, if it is known.
    machine : str or None
        The machine of that process.
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
    """A message passing program exceeded its ``timeout`` and was ended."""


class BspError(PhalanxError):
    """A call of a BSP program is wrong, or its processes do not agree; the message names the call and the reason."""


class ProfileError(PhalanxError, ValueError):
    """``begin`` and ``end`` of the profiler do not pair."""


class InitializerError(PhalanxError):
    """The ``initializer`` of a manager raised an exception at an interpreter, so that interpreter can fire nothing. The
    message contains the text of the exception."""


class RemoteTraceback(Exception):
    """The cause of an exception that a task raised at an interpreter.

    Attributes
    ----------
    traceback : str
        The remote traceback.
    task : str
        The shortened ``repr`` of the task.
    index : int
        The position of the task in the stream, from 0.
    interpreter : str
        The name of the interpreter that fired it.
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
    """Stands for a remote exception that cannot travel, or that would end this program, as SystemExit does. The message
    has the type and the text of that exception."""


class SpaceError(PhalanxError):
    """A tuple space cannot do what was asked, or has ended; the message says what to do next."""


class AccessError(SpaceError, PermissionError):
    """The access rules of the server, or the group of the space, do not allow this operation to this user."""


class SpaceFullError(SpaceError):
    """A limit of the space is reached: take tuples out, or make it with a larger one."""


class SpaceLostError(SpaceError):
    """The connection to a space ended, or its leader changed. The operation may or may not have been done."""


class SpaceMovedError(SpaceLostError):
    """Another member leads the space now. Nothing was done. :class:`phalanx.Space` asks the new leader by itself."""


class SpaceForgottenError(SpaceError):
    """The space has forgotten the earlier requests of this client. Nothing was done. :class:`phalanx.Space` registers
    again by itself."""


class SpaceTimeoutError(SpaceError, TimeoutError):
    """No matching tuple came in time."""


class TransactionError(SpaceError):
    """The transaction has ended: by its timeout, by the end of its owner, or because it was committed or aborted."""


class TransactionConflictError(TransactionError):
    """Other clients have changed tuples that the transaction relies on. Nothing of it has happened: begin it again."""


def help_for(error: type[BaseException]) -> str:
    """The line that says which command explains an error.

    Parameters
    ----------
    error
        Its class. Of a class that is not public, the nearest public one is explained.

    Returns
    -------
    str
        Like ``help: phalanx help RecruitError``.

    Examples
    --------
    >>> from phalanx.errors import RecruitError, help_for
    >>> help_for(RecruitError)
    'help: phalanx help RecruitError'
    """
    public = next(each for each in error.__mro__ if each.__module__ == __name__)
    return f"{HELP}{EXPLAIN} {public.__name__}"


def in_one_line(error: BaseException) -> str:
    """The class and the message of an exception, without its notes, even if its ``__str__`` raises."""
    from traceback import TracebackException

    told = TracebackException(type(error), error, None)
    setattr(told, "__notes__", None)  # noqa: B010  unknown to types
    return list(told.format_exception_only())[-1].strip()
