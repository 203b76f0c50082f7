"""An exception in user code arrives as that exception, in its task's place, with the remote traceback and the task."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from itertools import islice
from typing import Any, NoReturn

import phalanx as px
import pytest
from api import tasks


class OwnError(Exception):
    """With an attribute, and arguments that pickle cannot guess but is told."""

    def __init__(self, frame: int, *, reason: str) -> None:
        super().__init__(f"frame {frame}: {reason}")
        self.frame = frame
        self.reason = reason

    def __reduce__(self) -> Any:
        return _own_error, (self.frame, self.reason)


def _own_error(frame: int, reason: str) -> OwnError:
    return OwnError(frame, reason=reason)


class UnreadableError(Exception):
    """Cannot be unpickled: pickle calls it with its message only."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} ({code})")


class LockedError(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("it is locked")
        self.lock = threading.Lock()


class SpeechlessError(LockedError):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class WithoutRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def raising(error: Callable[[], BaseException]) -> Callable[[Any], NoReturn]:
    def fail(_: Any) -> NoReturn:
        raise error()

    return fail


def raised_by(manager: px.Manager, program: Any, task: Any = 0, **options: Any) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 what it is is for the caller to say
        list(manager.compute(program, [task], **options))
    return raised.value


def cause_of(error: BaseException) -> px.RemoteTraceback:
    assert isinstance(error.__cause__, px.RemoteTraceback)
    return error.__cause__


@pytest.mark.parametrize("ordered", [True, False])
def test_it_is_raised_with_its_task_and_the_remote_traceback(manager: px.Manager, ordered: bool) -> None:
    error = raised_by(manager, tasks.inverse, 0, ordered=ordered)
    assert type(error) is ZeroDivisionError
    assert str(error) == "division by zero"
    cause = cause_of(error)
    assert (cause.task, cause.index) == ("0", 0)
    assert cause.interpreter in {interpreter.name for interpreter in manager.summary().interpreters}
    assert "return 1 / number" in cause.traceback
    assert cause.traceback.endswith("ZeroDivisionError: division by zero\n")


def test_it_is_raised_in_its_place_in_the_order_of_the_stream(manager: px.Manager) -> None:
    for place in (0, 1, 500, 999):
        numbers = [-1] * 1000
        numbers[place] = 0
        results = manager.compute(tasks.inverse, numbers)
        assert list(islice(results, place)) == [-1] * place
        with pytest.raises(ZeroDivisionError) as raised:
            next(results)
        assert cause_of(raised.value).index == place
        assert list(results) == []  # it has ended
    assert list(manager.compute(tasks.inverse, [1, 2])) == [1, 0.5]


def test_what_a_person_sees_names_task_interpreter_and_line(manager: px.Manager) -> None:
    error = raised_by(manager, lambda text: int(text), "one")
    shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert "this-machine/" in shown
    assert "'one'" in shown
    assert "in <lambda>" in shown
    assert "invalid literal for int()" in shown


def test_an_exception_of_ones_own_keeps_what_it_carries(manager: px.Manager) -> None:
    error = raised_by(manager, raising(lambda: OwnError(7, reason="torn")))
    assert isinstance(error, OwnError)
    assert (error.frame, error.reason, str(error)) == (7, "torn", "frame 7: torn")


def test_an_exception_of_a_local_class_is_caught_as_that_class(manager: px.Manager) -> None:
    class LocalError(ValueError):
        pass

    error = raised_by(manager, raising(lambda: LocalError("here")))
    assert type(error) is LocalError
    assert error.args == ("here",)


def test_the_chain_of_an_exception_is_in_the_remote_traceback(manager: px.Manager) -> None:
    def chained(_: int) -> None:
        try:
            tasks.inverse(0)
        except ZeroDivisionError as error:
            raise OwnError(1, reason="no inverse") from error

    text = cause_of(raised_by(manager, chained)).traceback
    assert "ZeroDivisionError" in text
    assert "direct cause" in text
    assert "no inverse" in text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LockedError, "LockedError: it is locked"),
        (lambda: UnreadableError(3, "lost"), "UnreadableError: lost (3)"),
        (SpeechlessError, "SpeechlessError"),
    ],
)
def test_an_exception_that_cannot_travel_has_a_stand_in(
    manager: px.Manager, error: Callable[[], Exception], words: str
) -> None:
    arrived = raised_by(manager, raising(error))
    assert type(arrived) is px.RemoteError
    assert words in str(arrived)
    assert words.partition(":")[0] in cause_of(arrived).traceback


def descending(task: int) -> int:
    """Recurses too deep, where tracebacks travel with their exceptions, as Dask's library makes them."""
    import tblib.pickling_support

    tblib.pickling_support.install()

    def descend(depth: int) -> int:
        return descend(depth + 1) + depth

    return descend(task)


def test_an_exception_whose_traceback_is_too_deep_keeps_its_type(manager: px.Manager) -> None:
    with pytest.raises(RecursionError, match="maximum recursion depth") as caught:
        list(manager.map(descending, [0]))
    assert "descend" in cause_of(caught.value).traceback


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_would_end_a_program_ends_neither_an_interpreter_nor_this_one(
    manager: px.Manager, error: type[BaseException]
) -> None:
    arrived = raised_by(manager, raising(lambda: error("enough")))
    assert type(arrived) is px.RemoteError  # nor does it end this program
    assert str(arrived) == f"a task raised {error.__name__}: enough"
    assert error.__name__ in cause_of(arrived).traceback
    assert manager.summary().lost == 0


def test_a_stop_iteration_does_not_pass_for_the_end_of_the_results(manager: px.Manager) -> None:
    error = raised_by(manager, raising(StopIteration))
    assert type(error) is RuntimeError  # as in any generator
    assert isinstance(error.__cause__, StopIteration)


@pytest.mark.parametrize("fuse", [True, False])
def test_an_exception_in_a_later_stage_has_the_number_of_its_task(manager: px.Manager, fuse: bool) -> None:
    program = px.Pipeline(tasks.increment, tasks.inverse, tasks.increment, fuse=fuse)
    results = manager.compute(program, [0, 0, 0, -1, 0])
    assert list(islice(results, 3)) == [2, 2, 2]
    with pytest.raises(ZeroDivisionError) as raised:
        next(results)
    assert cause_of(raised.value).index == 3


def test_a_task_that_has_no_repr_or_a_long_one(manager: px.Manager) -> None:
    fail = raising(lambda: ValueError("no"))
    assert "WithoutRepr" in cause_of(raised_by(manager, fail, WithoutRepr())).task
    assert len(cause_of(raised_by(manager, fail, "x" * 10_000)).task) < 300


def test_exceptions_of_many_computes_do_not_get_mixed_up(manager: px.Manager) -> None:
    def fail_at(place: int) -> Callable[[int], int]:
        def check(number: int) -> int:
            if number == place:
                raise OwnError(place, reason="here")
            return number

        return check

    computes = {place: manager.compute(fail_at(place), range(300)) for place in (5, 50, 299)}
    for place, results in computes.items():
        assert list(islice(results, place)) == list(range(place))
        with pytest.raises(OwnError) as raised:
            next(results)
        assert raised.value.frame == place


def test_an_exception_is_a_result_when_it_is_returned(manager: px.Manager) -> None:
    (result,) = manager.compute(lambda text: ValueError(text), ["kept"])
    assert type(result) is ValueError
    assert result.args == ("kept",)
