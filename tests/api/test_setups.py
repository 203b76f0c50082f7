"""State per interpreter: made once in each, whichever way it is named, and given to tasks."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import phalanx as px
import pytest
from api import setups_program, tasks

from laboratory.processes import until

if TYPE_CHECKING:
    from api.conftest import Script


def loader(folder: Path, name: str = "made") -> Callable[[], dict[str, Any]]:
    """A function that notes each of its calls in a file of the folder, and makes what cannot travel."""

    def load() -> dict[str, Any]:
        with (folder / name).open("a") as file:
            file.write(f"{os.getpid()}\n")
        return {"pid": os.getpid(), "lock": threading.Lock()}

    return load


def made(folder: Path, name: str = "made") -> list[int]:
    """The processes that have made the value, one for each time."""
    return [int(line) for line in (folder / name).read_text().split()] if (folder / name).exists() else []


def test_a_value_is_made_once_in_each_interpreter(manager: px.Manager, tmp_path: Path) -> None:
    table = px.per_interpreter(loader(tmp_path))

    def ask(_: int) -> bool:
        return bool(table()["pid"] == os.getpid())

    assert all(manager.compute(ask, range(50)))
    assert all(manager.map(ask, range(50)))
    assert manager.submit(ask, 0).result()
    assert all(manager.compute(px.Pipeline(tasks.identity, ask, fuse=False), range(50)))
    assert len(made(tmp_path)) == len(set(made(tmp_path))) <= 2
    assert os.getpid() not in made(tmp_path)


def test_a_farm_gives_it_to_its_function(manager: px.Manager, tmp_path: Path) -> None:
    load = loader(tmp_path)

    def use(state: dict[str, Any], number: int) -> tuple[bool, int]:
        return state["pid"] == os.getpid(), number

    for _ in range(3):  # the value stays, though each computation has a program of its own
        program = px.Pipeline(tasks.double, px.Farm(use, setup=load), px.Map(tasks.identity))
        assert list(manager.compute(program, range(10))) == [[True, 2 * number] for number in range(10)]
    assert len(made(tmp_path)) == len(set(made(tmp_path))) <= 2


def test_each_stage_has_its_own(manager: px.Manager, tmp_path: Path) -> None:
    def add(state: int, number: int) -> int:
        return state + number

    program = px.Pipeline(px.Farm(add, setup=lambda: 10), px.Farm(add, setup=lambda: 100))
    assert list(manager.compute(program, range(3))) == [110, 111, 112]
    inside = px.Map(px.Farm(add, setup=lambda: 10), join=sum)
    assert list(manager.compute(inside, [[1, 2]])) == [23]


def test_before_the_first_task_as_the_initializer(tmp_path: Path) -> None:
    table = px.per_interpreter(loader(tmp_path))
    with px.Manager(contract=px.ParDegree(1), initializer=table) as manager:
        manager.submit(tasks.double, 1).result()
        assert len(made(tmp_path)) == 1
        assert manager.submit(lambda: table()["pid"]).result() == made(tmp_path)[0]
    assert len(made(tmp_path)) == 1


def test_a_module_of_the_users_own_names_it(manager: px.Manager) -> None:
    found = {manager.submit(setups_program.use, number).result() for number in range(10)}
    assert {calls for _, calls in found} == {1}
    assert os.getpid() not in {pid for pid, _ in found}
    assert pickle.loads(pickle.dumps(setups_program.state)) is setups_program.state
    assert len(pickle.dumps(setups_program.state)) < 200


def test_a_function_that_is_defined_anew_is_called_anew(manager: px.Manager) -> None:
    def define(value: int) -> Callable[[], int]:
        scope: dict[str, Any] = {"__name__": "__main__", "px": px}
        exec(f"@px.per_interpreter\ndef state():\n    return {value}\ndef use():\n    return state()", scope)
        return scope["use"]  # type: ignore[no-any-return]

    assert [manager.submit(define(value)).result() for value in (1, 2, 3)] == [1, 2, 3]


def test_an_interpreter_that_replaces_another_makes_its_own(tmp_path: Path) -> None:
    table = px.per_interpreter(loader(tmp_path))

    def end_once() -> int:
        state = table()
        if not (tmp_path / "ended").exists():
            (tmp_path / "ended").touch()
            os._exit(3)
        return int(state["pid"])

    with px.Manager(contract=px.ParDegree(1)) as manager:
        assert manager.submit(end_once).result() == made(tmp_path)[1]
        assert manager.summary().lost == 1


def test_a_setup_that_raises_is_tried_again(tmp_path: Path) -> None:
    def load() -> int:
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise OSError("no licence")
        return 7

    table = px.per_interpreter(load)
    with px.Manager(contract=px.ParDegree(1)) as manager:
        with pytest.raises(OSError, match="no licence"):
            manager.submit(lambda: table()).result()
        assert manager.submit(lambda: table()).result() == 7


def test_here_it_is_made_once_too() -> None:
    calls: list[int] = []
    together = threading.Barrier(4)

    @px.per_interpreter
    def state() -> list[int]:
        """What is kept."""
        calls.append(1)
        return calls

    def ask() -> list[int]:
        together.wait(30)
        return state()

    with ThreadPoolExecutor(4) as threads:
        assert all(found.result() is calls for found in [threads.submit(ask) for _ in range(4)])
    assert calls == [1]
    assert (vars(state)["__name__"], state.__doc__) == ("state", "What is kept.")
    assert repr(state).startswith("per_interpreter(")
    assert px.per_interpreter(state) is state


def test_marks_and_read_only_stay_with_the_function() -> None:
    @px.secure_code
    @px.read_only
    def use(state: int, task: int) -> int:
        return state + task

    farm = px.Farm(use, setup=px.secure_data(lambda: 1))
    assert farm.marks == {"data"}
    from phalanx._compile import compile_program
    from phalanx._instructions import takes_read_only

    compiled = compile_program(farm)
    assert compiled.marks[0] == {"code", "data"}
    assert takes_read_only(compiled.code[0])
    with px.Manager(contract=px.ParDegree(1), policy="marked") as manager:
        assert list(manager.compute(farm, [1])) == [2]


@pytest.mark.parametrize("wrong", [3, "load", None])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(px.errors.ProgramError, match="cannot be called"):
        px.per_interpreter(wrong)
    if wrong is not None:
        with pytest.raises(px.errors.ProgramError, match="cannot be called"):
            px.Farm(pow, setup=wrong)
    with pytest.raises(px.errors.ProgramError, match=r"give it to the px.Farm\(function, setup=…\) inside of it"):
        px.Farm(px.Pipeline(tasks.double), setup=int)  # type: ignore[call-overload]


def test_a_module_that_travels_by_value(manager: px.Manager) -> None:
    cloudpickle.register_pickle_by_value(setups_program)
    try:
        assert {manager.submit(setups_program.use, number).result()[1] for number in range(5)} == {1}
    finally:
        cloudpickle.unregister_pickle_by_value(setups_program)


def test_a_script_of_the_users_own(script: Script) -> None:
    program = script("""
        import os
        import phalanx as px

        @px.per_interpreter
        def state():
            print("made", flush=True)
            return {"pid": os.getpid()}

        def use(number):
            assert state()["pid"] == os.getpid()
            return number

        with px.Manager(contract=px.ParDegree(1)) as manager:
            print(list(manager.map(use, range(3))), list(manager.compute(use, range(3))))
            print(manager.submit(use, 4).result())
    """)
    until(lambda: program.code is not None, timeout=60, what="the end of the program")
    assert program.code == 0, program.stderr()
    assert program.stdout().splitlines() == ["made", "[0, 1, 2] [0, 1, 2]", "4"]
