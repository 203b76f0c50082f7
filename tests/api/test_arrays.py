"""Arrays as tasks and results: every kind arrives equal, writable and aligned, and nobody else's."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import phalanx as px
import pytest
from api import tasks

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
