"""Arrays as tasks and results: every kind arrives equal, writable and aligned, and nobody else's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import phalanx as px
import pytest
from api import tasks
from api.conftest import Script
from conftest import Eventually

Array: TypeAlias = npt.NDArray[Any]

LARGE = 40_000  # numbers of eight bytes: more than what travels inside a pickle
RECORD = np.dtype([("id", "<i4"), ("at", "<f8", (3,)), ("name", "S5"), ("raw", ">u2")])


def numbers(*shape: int, dtype: Any = np.float64) -> Array:
    count = int(np.prod(shape))
    return (np.arange(count) % 251).astype(dtype).reshape(shape)


def records(count: int) -> Array:
    array = np.zeros(count, RECORD)
    array["id"] = np.arange(count)
    array["at"][:, 1] = 0.5
    array["name"] = b"slice"
    array["raw"] = 513
    return array


ARRAYS: dict[str, Array] = {
    "small": numbers(10),
    "large": numbers(LARGE),
    "matrix": numbers(200, 300),
    "Fortran order": np.asfortranarray(numbers(200, 300)),
    "transposed cube": numbers(20, 60, 70).transpose(2, 0, 1),
    "every second": numbers(2 * LARGE)[::2],
    "backwards": numbers(LARGE)[::-1],
    "column": numbers(LARGE, 3)[:, 1],
    "broadcast": np.broadcast_to(numbers(300), (200, 300)),
    "nothing": numbers(0),
    "nothing, large strides": numbers(0, LARGE),
    "one number": np.array(3.5),
    "one element": numbers(1, 1, 1),
    "structured": records(7),
    "structured, large": records(LARGE),
    "truths": numbers(LARGE) > 100,
    "complex": numbers(LARGE, dtype=np.complex128) * 1j,
    "half": numbers(LARGE, dtype=np.float16),
    "other byte order": numbers(LARGE, dtype=">i4"),
    "times": numbers(LARGE, dtype="datetime64[s]"),
    "texts": np.array(["CT", "MR", "PET"] * LARGE),
    "objects": np.array([None, "text", (1, 2)] * 10_000, dtype=object),
    "bytes": numbers(100_001, dtype=np.uint8),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_goes_and_comes_back(manager: px.Manager, name: str) -> None:
    array = ARRAYS[name]

    def seen(arrived: Array) -> tuple[Array, bool, bool]:
        return arrived, arrived.flags.writeable, arrived.flags.aligned

    for result, writeable, aligned in manager.compute(seen, [array] * 3):
        assert writeable
        assert aligned
        assert result.dtype == array.dtype
        assert result.shape == array.shape
        np.testing.assert_array_equal(result, array)
        assert result.flags.writeable
        assert result.flags.aligned
        assert result.flags.f_contiguous or not (array.flags.f_contiguous and array.ndim > 1)


def test_the_memory_of_large_arrays_is_aligned_for_vector_instructions(manager: px.Manager) -> None:
    def address(token: tuple[str, Array, Array]) -> tuple[int, Array]:
        return token[1].ctypes.data % 64 + token[2].ctypes.data % 64, token[2]

    stream = [("x" * length, numbers(LARGE), numbers(LARGE + 1)) for length in range(10)]
    for remainder, result in manager.compute(address, stream):
        assert remainder == 0
        assert result.ctypes.data % 64 == 0


def test_arrays_inside_of_other_objects(manager: px.Manager) -> None:
    token = {"pixels": numbers(300, 300), "masks": [numbers(LARGE), numbers(5)], "name": "CT", "none": None}
    (result,) = manager.compute(tasks.identity, [token])
    np.testing.assert_array_equal(result["pixels"], token["pixels"])
    np.testing.assert_array_equal(result["masks"][0], numbers(LARGE))
    np.testing.assert_array_equal(result["masks"][1], numbers(5))
    assert (result["name"], result["none"]) == ("CT", None)


@pytest.mark.parametrize("fuse", [True, False])
def test_stages_pass_arrays_on(manager: px.Manager, fuse: bool) -> None:
    program = px.Pipeline(lambda a: a + 1, np.transpose, np.ascontiguousarray, lambda a: 2 * a, fuse=fuse)
    sizes = (1, 10, 100, 400)
    for size, result in zip(sizes, manager.compute(program, map(square_of, sizes)), strict=True):
        np.testing.assert_array_equal(result, 2 * (square_of(size) + 1).T)


def square_of(size: int) -> Array:
    return numbers(size, size)


def test_an_array_of_50_megabytes(manager: px.Manager) -> None:
    array = numbers(50 << 17)
    total, (result,) = float(array.sum()), manager.compute(lambda a: np.append(a, a.sum()), [array])
    assert result[-1] == total
    np.testing.assert_array_equal(result[:-1], array)


def test_many_large_arrays(manager: px.Manager) -> None:
    stream = (np.full(1 << 17, number) for number in range(100))
    for number, result in enumerate(manager.compute(lambda array: array + 1, stream)):
        assert (result == number + 1).all()


def test_results_that_are_kept_stay_as_they_are(manager: px.Manager) -> None:
    """Memory that arrays lie in is not used again while a part of one is looked at."""
    kept = {}
    for number, result in enumerate(manager.compute(lambda n: np.full(1 << 16, n), range(400))):
        if number % 3 == 0:
            kept[number] = result if number % 2 else result[1000:1010]
    assert len(list(manager.compute(tasks.identity, (np.zeros(1 << 16) for _ in range(100))))) == 100
    for number, result in kept.items():
        assert (result == number).all()


def test_tasks_that_are_kept_stay_as_they_are(manager: px.Manager) -> None:
    kept: list[tuple[int, Array]] = []

    def keep(task: tuple[int, Array]) -> bool:
        number, array = task
        if number % 3 == 0:
            kept.append((number, array[-10:]))
        return all((part == old).all() for old, part in kept)

    assert all(manager.compute(keep, ((number, np.full(1 << 16, number)) for number in range(200))))


def test_a_task_may_change_its_array(manager: px.Manager) -> None:
    """Each task has its own, whatever travelled together; the one of the program stays as it was."""

    def clear(array: Array) -> int:
        before = int(array.sum())
        array[:] = 0
        return before

    for size in (10, LARGE):
        array = np.ones(size, np.int64)
        assert list(manager.compute(clear, [array] * 50)) == [size] * 50
        assert array.all()


def test_a_result_may_be_changed_here(manager: px.Manager) -> None:
    for size in (10, LARGE):
        results = list(manager.compute(np.zeros, [size] * 20))
        for number, result in enumerate(results):
            result += number
        assert [int(result[0]) for result in results] == list(range(20))


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_function_may_use_its_array_again_for_the_next_result(manager: px.Manager, size: int) -> None:
    scratch = np.zeros(size)

    def fill(number: int) -> Array:
        scratch[:] = number
        return scratch

    for number, result in enumerate(manager.compute(fill, range(500))):
        assert (result == number).all()


def test_read_only_memory(manager: px.Manager) -> None:
    for size in (10, LARGE):
        array = numbers(size)
        array.flags.writeable = False
        (result,) = manager.compute(tasks.identity, [array])
        np.testing.assert_array_equal(result, array)


def test_buffers_that_are_no_arrays(manager: px.Manager) -> None:
    for size in (0, 10, 1 << 20):
        for token in (bytes(size), bytearray(size)):
            (result,) = manager.compute(tasks.identity, [token])
            assert type(result) is type(token)
            assert result == token


MEGABYTES = [1, 5, 40]  # in shared memory; the last one beyond what the C library keeps


@pytest.mark.parametrize("megabytes", MEGABYTES)
def test_long_arrays_there_and_back_are_their_owners_own(manager: px.Manager, megabytes: int) -> None:
    """Kept, changed, returned as a view: at both ends nobody else sees it."""
    kept: list[Array] = []

    def work(task: tuple[int, Array]) -> tuple[bool, Array]:
        number, array = task
        is_right = bool((array == number).all())
        array[::1000] = 200
        kept.append(array[-3:])
        is_kept = all((old[:1] == old).all() or old[0] == 200 for old in kept)
        del kept[:-4]
        return is_right and is_kept, array[5:] if number % 2 else array

    size = megabytes * 10**6
    tasks_ = [(number, np.full(size, number, np.uint8)) for number in range(12)]
    results = list(manager.compute(work, tasks_))
    for (number, array), (is_right, result) in zip(tasks_, results, strict=True):
        assert is_right
        assert (array == number).all()
        offset = 5 if number % 2 else 0
        expected = np.full(size, number, np.uint8)
        expected[::1000] = 200
        np.testing.assert_array_equal(result, expected[offset:])
        result[:] = 0  # ours


def resident(manager: px.Manager) -> int:
    """Bytes of the largest interpreter."""
    pids = [it.pid for it in manager.summary().interpreters if it.state == "working"]
    return max(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("megabytes", [20, 100])
@pytest.mark.parametrize("policy", ["links", "all"])
def test_interpreters_give_large_memory_back(policy: Any, megabytes: int, eventually: Eventually) -> None:
    def scale(array: Array) -> Array:
        return array * 2

    with px.Manager(contract=px.ParDegree(1), policy=policy) as manager:
        (one,) = manager.compute(lambda array: array + 1, [np.zeros(3)])  # numpy is imported
        assert one[0] == 1
        before = resident(manager)
        for result in manager.compute(scale, [np.ones(megabytes << 20, np.uint8)] * 4):
            assert result[0] == 2
        del result  # which lies in memory that the interpreter has mapped too
        eventually(lambda: resident(manager) < before + (12 << 20))


@pytest.mark.parametrize("size", [1000, LARGE, 1 << 19])
@pytest.mark.parametrize("fuse", [True, False])
def test_arrays_of_a_function_that_only_reads_cannot_be_written(manager: px.Manager, size: int, fuse: bool) -> None:
    @px.read_only
    def writes(array: Array) -> tuple[bool, Array]:
        try:
            array[0] = 5
        except ValueError:
            return False, array
        return True, array

    for program in (writes, px.Farm(writes), px.Pipeline(writes, tasks.identity, fuse=fuse)):
        for wrote, array in manager.compute(program, [numbers(size)] * 3):
            assert wrote == (size * 8 < 64 << 10)
            np.testing.assert_array_equal(array[1:], numbers(size)[1:])
            assert array.flags.writeable == wrote  # as pickle has it
    calls = [manager.submit(writes, numbers(size)).result(), *manager.map(writes, [numbers(size)] * 3)]
    assert [wrote for wrote, _ in calls] == [size * 8 < 64 << 10] * 4
    second = px.Pipeline(tasks.identity, writes, fuse=fuse)
    for wrote, _ in manager.compute(second, [numbers(size)] * 3):
        assert wrote == (fuse or size * 8 < 64 << 10)


def test_what_takes_no_attributes_cannot_be_marked() -> None:
    with pytest.raises(px.ProgramError, match="a function that calls it"):
        px.read_only(len)


FORKS = """
    import os
    import numpy as np
    import phalanx as px

    def give(number):
        return np.full(2_000_000, number, np.uint8)

    with px.Manager(contract=px.ParDegree(2)) as manager:
        kept = dict(enumerate(manager.compute(give, range(8))))
        wait, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(wait, 1)
            os._exit(0 if all((array == number).all() for number, array in kept.items()) else 1)
        kept.clear()
        assert all((array == 100).all() for array in manager.compute(give, [100] * 60))
        os.close(go)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_results_that_a_fork_sees_too_stay_as_they_are(script: Script) -> None:
    process = script(FORKS)
    process.wait(timeout=60)
    assert process.lines() == ["0"], process.report()
