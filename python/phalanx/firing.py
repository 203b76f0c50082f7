"""Options of programs: timeouts, retries, priorities and needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast, overload

from phalanx.errors import ProgramError
from phalanx.requirements import Needs
from phalanx.skeletons import Program, Skeleton, name_of

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Skeleton)

#: Longest timeout in seconds: about a year. A longer one is taken for a mistake.
LONGEST = 365 * 24 * 3600.0
#: Most retries. More are taken for a mistake.
MOST_RETRIES = 1_000_000
#: Largest priority, and the negative of the smallest one.
MOST_PRIORITY = 1_000_000


class Given(NamedTuple):
    """The options of an instruction."""

    timeout: float | None = None
    retries: int = 0
    priority: int = 0
    needs: Needs | None = None

    def native(self) -> tuple[float | None, int, int, tuple[int, int, int, list[str], list[str], str] | None]:
        """The options as the native core reads them."""
        return self.timeout, self.retries, self.priority, None if self.needs is None else self.needs.native()


class Options(Skeleton):
    """A program with options, as :func:`phalanx.options` makes it. If the program is a function, this one can be called
    and submitted as the function itself."""

    is_transparent = True

    def __init__(
        self,
        program: Program,
        timeout: float | None,
        retries: int | None,
        priority: int | None,
        needs: Needs | None,
    ) -> None:
        super().__init__(None)
        self.program = program
        self.timeout = timeout
        self.retries = retries
        self.priority = priority
        self.needs = needs

    def __repr__(self) -> str:
        given = {"timeout": self.timeout, "retries": self.retries, "priority": self.priority, "needs": self.needs}
        words = [f"{name}={_shown(value)}" for name, value in given.items() if value is not None]
        return f"options({', '.join([name_of(self.program), *words])})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns. Options have no effect here, because it is called in this process."""
        if isinstance(self.program, Skeleton) and not isinstance(self.program, Options):
            raise ProgramError(f"{self!r} is a skeleton and no function: manager.compute(program, tasks) computes it")
        return cast("Callable[..., Any]", self.program)(*args, **kwargs)

    def within(self, outer: Given) -> Given:
        """The options of the program, where ``outer`` are those around it. What is not given here is as it is there."""
        return Given(
            outer.timeout if self.timeout is None else self.timeout,
            outer.retries if self.retries is None else self.retries,
            outer.priority if self.priority is None else self.priority,
            outer.needs if self.needs is None else self.needs,
        )


@overload
def options(
    program: S,
    /,
    *,
    timeout: float | None = None,
    retries: int | None = None,
    priority: int | None = None,
    needs: Needs | None = None,
) -> S: ...
@overload
def options(
    program: Callable[P, T],
    /,
    *,
    timeout: float | None = None,
    retries: int | None = None,
    priority: int | None = None,
    needs: Needs | None = None,
) -> Callable[P, T]: ...
def options(
    program: Any,
    /,
    *,
    timeout: float | None = None,
    retries: int | None = None,
    priority: int | None = None,
    needs: Needs | None = None,
) -> Any:
    """A program with a timeout, retries, a priority or needs, for :meth:`~phalanx.Manager.compute`, ``submit`` and
    ``map``.

    Options hold wherever the program stands in a larger one. It is then fired on its own and not fused with its
    neighbours. Options inside it go before those around it.

    Parameters
    ----------
    program : callable or skeleton
        A function, or a skeleton. Of a skeleton, each function is fired with these options; those that a pipeline
        fuses are fired as one function.
    timeout : float, optional
        Seconds that the function may run on one token: from when an interpreter takes the token up, to when it has
        the result. After that the interpreter is ended and replaced, whatever the function is doing, and the task
        raises :class:`~phalanx.errors.TaskTimeoutError`. Tasks that waited there are fired elsewhere. Tasks that
        travelled with it, and whose results were not yet sent (those of 20 ms at most), are fired again.
    retries : int, optional
        How often the function is fired again on the same token after an exception, after a timeout, or after it ended
        three interpreters (:class:`~phalanx.errors.CulpritError`). The last failure is what the task raises. The
        function must be one that can be called again. Default: 0.
    priority : int, optional
        Tasks that wait at the manager are fired in the order of their priorities, the highest first. What an
        interpreter has is not taken back. Default: 0.
    needs : phalanx.requirements.Needs, optional
        What the function needs where it is fired, as :func:`phalanx.needs` makes it. It is fired only at interpreters
        that have it. ``gpu`` counts graphics processors of the interpreter's own: while the interpreter lives, no other
        one that needs them gets them, and libraries see no others (``CUDA_VISIBLE_DEVICES``, ``HIP_VISIBLE_DEVICES``,
        ``ZE_AFFINITY_MASK``). Everything else is needed of the machine. If too few interpreters have it, idle ones are
        released for others that do. If no machine has it, the program raises
        :class:`~phalanx.errors.RecruitError`, which says what each one lacks. Default: nothing.

    Returns
    -------
    callable or skeleton
        Of a function, it can be called like the function.

    Raises
    ------
    ProgramError
        ``program`` is neither a function nor a skeleton, or an option has no meaning.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     list(manager.compute(px.Pipeline(abs, px.options(str, timeout=10, retries=2)), [-1, 2]))
    ['1', '2']
    """
    if not isinstance(program, Skeleton) and not callable(program):
        raise ProgramError(f"{program!r} is no program: write px.options(function, timeout=…)")
    return Options(
        program,
        _timeout(timeout),
        _whole("retries", retries, 0, MOST_RETRIES),
        _whole("priority", priority),
        _needed(needs),
    )


def unwrapped(function: Any, outer: Given | None = None) -> tuple[Any, Given]:
    """A function without its options, and the options."""
    given = outer or Given()
    while isinstance(function, Options):
        function, given = function.program, function.within(given)
    return function, given


def _timeout(seconds: object) -> float | None:
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= LONGEST:
        raise ProgramError(f"timeout is a number of seconds, more than 0 and at most a year, not {seconds!r:.40}")
    return float(seconds)


def _needed(needs: object) -> Needs | None:
    if needs is None:
        return None
    if not isinstance(needs, Needs):
        raise ProgramError(f"needs={needs!r:.40}: write px.options(function, needs=px.needs(gpu=1))")
    if needs.wait:
        raise ProgramError("a part of a program has no wait of its own: px.Manager(wait=…) waits for machines")
    return needs


def _shown(value: object) -> str:
    return f"needs({value})" if isinstance(value, Needs) else repr(value)


def _whole(name: str, number: object, least: int = -MOST_PRIORITY, most: int = MOST_PRIORITY) -> int | None:
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise ProgramError(f"{name} is a whole number from {least} to {most}, not {number!r:.40}")
    return number
