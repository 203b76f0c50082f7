"""joblib, and so scikit-learn, on interpreters: the same results as without, whatever happens to the interpreters."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import phalanx as px
import phalanx.adapters.joblib
import pytest
from api import tasks
from api.conftest import Script
from conftest import Eventually
from joblib import Parallel, delayed
from phalanx.adapters.joblib import end_idle

MEGABYTE = 1 << 20


@pytest.fixture
def grid(manager: px.Manager) -> Iterator[px.Manager]:
    """Two interpreters that all parallel calls of the test use."""
    with joblib.parallel_config("phalanx", manager=manager):
        yield manager


@pytest.fixture
def own() -> Iterator[None]:
    """What a backend keeps for itself ends with the test."""
    yield
    end_idle()


def sum_of(array: Any, number: int) -> tuple[float, bool]:
    return float(array.sum()) + number, array.flags.writeable


def is_first(marker: Path) -> bool:
    """Whether nobody came here before, at any interpreter."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def nested_sum(nested: dict[str, Any], number: int) -> float:
    return float(nested["matrix"].sum() + nested["transposed"][0].sum()) + number


def test_calls_are_made_at_interpreters(grid: px.Manager) -> None:
    pids = set(Parallel()(delayed(tasks.my_pid)(number) for number in range(20)))
    assert pids <= {it.pid for it in grid.summary().interpreters}


def test_many_small_calls(grid: px.Manager) -> None:
    assert Parallel()(delayed(tasks.square)(number) for number in range(5000)) == [n * n for n in range(5000)]
    assert Parallel()([]) == []


@pytest.mark.parametrize("return_as", ["generator", "generator_unordered"])
def test_results_as_they_come(grid: px.Manager, return_as: str) -> None:
    results = list(Parallel(return_as=return_as)(delayed(tasks.square)(number) for number in range(50)))
    assert (results if return_as == "generator" else sorted(results)) == [n * n for n in range(50)]


def test_two_parallel_calls_open_at_once(grid: px.Manager) -> None:
    results = []
    for outer in Parallel(return_as="generator")(delayed(tasks.slowly)(number) for number in range(40)):
        results.append(outer)
        if outer % 10 == 0:
            assert Parallel()(delayed(tasks.square)(number) for number in range(4)) == [0, 1, 4, 9]
    assert results == list(range(40))


def test_a_parallel_that_is_used_again(grid: px.Manager) -> None:
    with Parallel(n_jobs=2) as parallel:
        for _ in range(3):
            assert parallel(delayed(tasks.double)(number) for number in range(9)) == list(range(0, 18, 2))
            with pytest.raises(ZeroDivisionError):
                parallel(delayed(tasks.inverse)(number) for number in (1, 0))


def test_an_exception_has_the_remote_traceback(grid: px.Manager) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        Parallel()(delayed(tasks.inverse)(number) for number in (2, 1, 0, 4))
    remote = caught.value.__cause__
    assert isinstance(remote, px.RemoteTraceback)
    assert "in inverse" in remote.traceback
    assert "a call of inverse" in remote.task


def test_an_error_ends_the_call_and_what_was_not_begun_is_not(tmp_path: Path) -> None:
    def work(number: int) -> None:
        if number == 0:
            raise RuntimeError("the first one")
        (tmp_path / str(number)).touch()
        tasks.once_it_exists(str(tmp_path / "end"))

    with px.Manager(contract=px.ParDegree(2)) as manager, joblib.parallel_config("phalanx", manager=manager):
        with pytest.raises(RuntimeError, match="the first one"):
            Parallel(batch_size=1, pre_dispatch="all")(delayed(work)(number) for number in range(300))
        (tmp_path / "end").touch()
        assert Parallel()(delayed(tasks.double)(number) for number in range(4)) == [0, 2, 4, 6]
    assert len(list(tmp_path.iterdir())) < 150  # the manager would have waited for the others


def test_a_generator_that_is_given_up_takes_its_calls_back(tmp_path: Path) -> None:
    def work(number: int) -> int:
        (tmp_path / str(number)).touch()
        time.sleep(0.02)  # all of them take 20 s: much longer than to submit them, also on a busy machine
        return number

    with px.Manager(contract=px.ParDegree(2)) as manager, joblib.parallel_config("phalanx", manager=manager):
        parallel = Parallel(batch_size=1, pre_dispatch="all", return_as="generator")
        results = parallel(delayed(work)(number) for number in range(2000))
        assert next(results) == 0
        with pytest.warns(UserWarning, match="cancelled"):
            results.close()
        assert Parallel()(delayed(tasks.double)(number) for number in range(4)) == [0, 2, 4, 6]
    assert len(list(tmp_path.iterdir())) < 1000


def test_a_manager_that_is_closed_in_the_middle() -> None:
    with px.Manager(contract=px.ParDegree(2)) as manager, joblib.parallel_config("phalanx", manager=manager):
        results = Parallel(return_as="generator")(delayed(tasks.slowly)(number) for number in range(2000))
        assert next(results) == 0
        manager.close()
        with pytest.raises(RuntimeError, match=r"this manager is closed|after shutdown"):
            list(results)


def test_a_call_that_takes_too_long(grid: px.Manager, tmp_path: Path) -> None:
    paths = [str(tmp_path / "end")] * 2
    with pytest.raises(joblib.parallel.TimeoutError):
        Parallel(timeout=0.1)(delayed(tasks.once_it_exists)(path) for path in paths)
    Path(paths[0]).touch()


@pytest.mark.parametrize("good", [0, 200])
def test_what_cannot_be_pickled(grid: px.Manager, good: int) -> None:
    # The later ones are sent by another thread, from which an exception would reach nobody.
    arguments = [*range(good), threading.Lock()]
    with pytest.raises(px.StagingError, match=r"identity cannot be pickled: .*lock"):
        Parallel(batch_size=1)(delayed(tasks.identity)(argument) for argument in arguments)


def test_a_large_array_that_calls_share_is_sent_once(grid: px.Manager) -> None:
    array = np.arange(MEGABYTE, dtype=np.float64)
    before = sum(it.bytes_in for it in grid.summary().interpreters)
    results = Parallel(batch_size=1)(delayed(sum_of)(array, number) for number in range(40))
    assert results == [(array.sum() + number, False) for number in range(40)]
    sent = sum(it.bytes_in for it in grid.summary().interpreters) - before
    assert sent < 3 * array.nbytes  # until the second batch tells that it is shared
    kept = weakref.ref(array)
    del array
    assert kept() is None


def test_arrays_inside_of_what_calls_share_are_sent_once(grid: px.Manager) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(2000, 3000, density=0.1, format="csc", random_state=0)
    nested = {"matrix": matrix, "transposed": [np.ones((500, 1000)).T]}
    before = sum(it.bytes_in for it in grid.summary().interpreters)
    results = Parallel(batch_size=1)(delayed(nested_sum)(nested, number) for number in range(30))
    expected = matrix.sum() + 500_000
    assert results == [pytest.approx(expected + number) for number in range(30)]
    assert sum(it.bytes_in for it in grid.summary().interpreters) - before < 3 * (12 * matrix.nnz + 4_000_000)


def test_large_arrays_of_their_own_are_not_mistaken_for_each_other(grid: px.Manager) -> None:
    def arrays() -> Iterator[Any]:
        for number in range(12):  # each one where the last one lay, as soon as that is free
            yield np.full(MEGABYTE, number, np.float64)

    shared = np.ones(MEGABYTE)
    results = Parallel(batch_size=1)(delayed(np.dot)(array, shared) for array in arrays())
    assert results == [float(number * MEGABYTE) for number in range(12)]


@pytest.mark.parametrize("options", [{}, {"max_nbytes": None}, {"mmap_mode": "c"}])
def test_large_arrays_are_read_only_as_joblib_has_it(grid: px.Manager, options: dict[str, Any]) -> None:
    writable = bool(options)
    array = np.zeros(MEGABYTE // 4)
    results = Parallel(batch_size=1, **options)(delayed(sum_of)(array, 0) for _ in range(6))
    assert results == [(0.0, writable)] * 6


def test_memory_to_write_to_is_not_shared(grid: px.Manager) -> None:
    with pytest.raises(ValueError, match="share no memory to write to"):
        Parallel(mmap_mode="r+")(delayed(tasks.double)(number) for number in range(2))


def test_parallel_calls_in_parallel_calls_are_made_in_place(grid: px.Manager) -> None:
    def nest(_: int) -> set[tuple[int, int]]:
        inner = Parallel(n_jobs=4)(delayed(threading.get_ident)() for _ in range(8))
        return {(os.getpid(), ident) for ident in inner}

    found = Parallel()(delayed(nest)(number) for number in range(4))
    assert all(len(each) == 1 for each in found)
    assert os.getpid() not in {pid for each in found for pid, _ in each}


def test_a_parallel_call_in_a_parallel_call_that_names_the_backend_is_made_in_place(grid: px.Manager) -> None:
    def nest(_: int) -> set[int]:
        return {os.getpid(), *Parallel(n_jobs=4, backend="phalanx")(delayed(tasks.my_pid)(0) for _ in range(8))}

    assert all(len(each) == 1 for each in Parallel()(delayed(nest)(number) for number in range(4)))


def test_the_number_of_jobs(grid: px.Manager) -> None:
    asked: dict[int | None, int] = {None: 2, -1: 2, -2: 1, -9: 1, 1: 1, 2: 2, 100: 2}
    assert {n_jobs: joblib.effective_n_jobs(n_jobs) for n_jobs in asked} == asked
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(n_jobs=0)(delayed(tasks.double)(1) for _ in range(2))
    assert Parallel(n_jobs=1)(delayed(tasks.my_pid)(0) for _ in range(2)) == [os.getpid()] * 2


def test_fewer_jobs_than_interpreters(own: None, tmp_path: Path) -> None:
    def side_by_side(number: int) -> int:
        mine = tmp_path / str(number)
        mine.touch()
        tasks.nap(0.01)
        found = len(list(tmp_path.iterdir()))
        mine.unlink()
        return found

    with joblib.parallel_config("phalanx", contract=px.ParDegree(3)):
        found = Parallel(n_jobs=2, batch_size=1, pre_dispatch="all")(delayed(side_by_side)(n) for n in range(40))
    assert set(found) <= {1, 2}


def test_a_single_interpreter_computes_too() -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager, joblib.parallel_config("phalanx", manager=manager):
        found = set(Parallel()(delayed(tasks.my_pid)(0) for _ in range(4)))
        assert found == {it.pid for it in manager.summary().interpreters}


def pids_of(*options: Any, **config: Any) -> set[int]:
    """The interpreters that some calls find."""
    with joblib.parallel_config("phalanx", contract=px.ParDegree(2), **config):
        return set(Parallel(*options)(delayed(tasks.my_pid)(0) for _ in range(8)))


def test_interpreters_stay_from_call_to_call_and_from_block_to_block(own: None) -> None:
    first = pids_of()
    assert os.getpid() not in first
    assert first & pids_of()
    end_idle()
    assert not first & pids_of()


def test_interpreters_of_other_options_end_before_others_begin(own: None, eventually: Eventually) -> None:
    first = pids_of()
    assert not first & pids_of(idle_worker_timeout=200)
    eventually(lambda: gone_all(first), what="the end of the first ones")


def gone_all(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_interpreters_without_work_end_in_time(eventually: Eventually) -> None:
    pids = pids_of(idle_worker_timeout=0)
    eventually(lambda: gone_all(pids), what="the end of the interpreters")
    eventually(
        lambda: "phalanx-kept" not in {it.name for it in threading.enumerate()},
        what="the end of the thread that ended them",
    )


def test_calls_side_by_side_share_interpreters(own: None) -> None:
    with joblib.parallel_config("phalanx", contract=px.ParDegree(1)):
        outer = Parallel(return_as="generator")(delayed(tasks.my_pid)(0) for _ in range(4))
        inner = Parallel()(delayed(tasks.my_pid)(0) for _ in range(4))
        assert len({*outer, *inner}) == 1


def test_what_a_call_that_was_given_up_left_ends(own: None, tmp_path: Path, eventually: Eventually) -> None:
    def stay(number: int) -> None:
        (tmp_path / str(os.getpid())).touch()
        tasks.nap(60)

    with joblib.parallel_config("phalanx", contract=px.ParDegree(2)):
        assert Parallel()(delayed(tasks.double)(number) for number in range(2)) == [0, 2]  # they have begun
        with pytest.raises(joblib.parallel.TimeoutError):
            Parallel(timeout=3)(delayed(stay)(number) for number in range(2))
        pids = {int(it.name) for it in tmp_path.iterdir()}
        assert pids
        eventually(lambda: gone_all(pids), what="the end of the interpreters")
        assert not pids & set(Parallel()(delayed(tasks.my_pid)(0) for _ in range(8)))


KEEPS = """
    import os, signal, sys
    import joblib, phalanx.adapters.joblib
    from joblib import Parallel, delayed

    def calls():
        return set(Parallel(n_jobs=2, backend="phalanx")(delayed(os.getpid)() for _ in range(8)))

    mine = calls()
    while len(mine) < 2:  # one may have made all calls before the other began
        mine |= calls()
    print(*mine, flush=True)
    if sys.argv[1] == "fork":
        child = os.fork()
        if child == 0:
            its = calls()
            os._exit(0 if its and not its & mine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert calls() <= mine  # the child has ended none
"""


@pytest.mark.parametrize("how", ["end", "fork"])
def test_interpreters_that_are_kept_end_with_the_program(script: Script, how: str, eventually: Eventually) -> None:
    program = script(KEEPS, how)
    assert program.wait(timeout=100) == 0, program.report()  # a busy machine takes long to start its six processes
    eventually(lambda: gone_all(set(map(int, program.lines()[0].split()))), what="the end of the interpreters")


def test_a_backend_by_name(own: None) -> None:
    assert Parallel(n_jobs=2, backend="phalanx")(delayed(tasks.double)(n) for n in range(5)) == [0, 2, 4, 6, 8]


def tell(names: tuple[str, ...]) -> list[str | None]:
    return [os.environ.get(name) for name in names]


def begin_with(name: str, value: str) -> None:
    os.environ[name] = value


def test_an_initializer_is_called_at_every_interpreter(own: None) -> None:
    options: dict[str, Any] = {"initializer": begin_with, "initargs": ("COLOUR", "green")}
    expected = [["green"]] * 8
    assert Parallel(2, backend="phalanx", **options)(delayed(tell)(("COLOUR",)) for _ in range(8)) == expected
    with joblib.parallel_config("phalanx", contract=px.ParDegree(2), **options):
        assert Parallel()(delayed(tell)(("COLOUR",)) for _ in range(8)) == expected


def test_threads_of_libraries_are_limited(own: None) -> None:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "COLOUR")
    options: dict[str, Any] = {"initializer": begin_with, "initargs": ("COLOUR", "green")}
    with joblib.parallel_config("phalanx", inner_max_num_threads=3, **options):
        assert Parallel(2)(delayed(tell)(names) for _ in range(4)) == [["3", "3", "green"]] * 4


def test_threads_of_libraries_are_limited_as_the_environment_says(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("2", "4"):
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert Parallel(2, backend="phalanx")(delayed(tell)(("OMP_NUM_THREADS",)) for _ in range(2)) == [[limit]] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temp_folder": "/tmp"}, r"no option 'temp_folder': arrays travel by the interpreters' links"),
        ({"maxtasksperchild": 3}, r"no option 'maxtasksperchild': interpreters stay"),
        ({"forward_reducers": {}}, r"no option 'forward_reducers': it has contract, .* idle_worker_timeout"),
        ({"idle_worker_timeout": -1}, r"idle_worker_timeout= is a number of seconds"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(own: None, options: dict[str, Any], message: str) -> None:
    with pytest.raises(px.PhalanxError, match=message):
        Parallel(2, backend="phalanx", **options)(delayed(tasks.double)(n) for n in range(2))
    with pytest.raises(px.PhalanxError, match=message), joblib.parallel_config("phalanx", **options):
        Parallel(2)(delayed(tasks.double)(n) for n in range(2))


def test_options_for_a_manager_that_is_there(grid: px.Manager) -> None:
    with pytest.raises(px.PhalanxError, match="a manager is there already, so initializer cannot be chosen"):
        Parallel(initializer=begin_with)(delayed(tasks.double)(n) for n in range(2))
    with (
        joblib.parallel_config("phalanx", manager=grid, inner_max_num_threads=2),
        pytest.raises(px.PhalanxError, match="so inner_max_num_threads cannot be chosen"),
    ):
        Parallel()(delayed(tasks.double)(n) for n in range(2))
    found = Parallel(backend="phalanx", manager=grid)(delayed(tasks.my_pid)(0) for _ in range(4))
    assert set(found) <= {it.pid for it in grid.summary().interpreters}


def test_options_that_cannot_be(manager: px.Manager) -> None:
    with pytest.raises(px.PhalanxError, match="a manager is there already, so where"):
        joblib.parallel_config("phalanx", manager=manager, where="lab:7400")
    with pytest.raises(px.ContractError, match="is no contract"):
        joblib.parallel_config("phalanx", contract=2)


def grid_search(scoring: Callable[..., float] | None = None) -> Any:
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}
    return GridSearchCV(SVC(random_state=0), grid, cv=3, scoring=scoring).fit(*load_iris(return_X_y=True))


def scores(search: Any) -> Any:
    return {name: list(found) for name, found in search.cv_results_.items() if "test" in name}


def test_a_grid_search_finds_the_same(grid: px.Manager) -> None:
    before = grid.summary().tasks
    found = grid_search()
    assert grid.summary().tasks > before
    with joblib.parallel_config("sequential"):
        expected = grid_search()
    assert scores(found) == scores(expected)
    assert found.best_params_ == expected.best_params_


def test_a_forest_grows_the_same(grid: px.Manager) -> None:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    pictures, digits = load_digits(return_X_y=True)
    before = grid.summary().tasks
    forest = RandomForestClassifier(20, random_state=0).fit(pictures, digits)
    assert grid.summary().tasks > before
    probabilities = forest.predict_proba(pictures)
    with joblib.parallel_config("sequential"):
        expected = RandomForestClassifier(20, random_state=0).fit(pictures, digits).predict_proba(pictures)
    np.testing.assert_array_equal(probabilities, expected)


def test_interpreters_that_end_in_a_grid_search_change_nothing(tmp_path: Path) -> None:
    def accuracy(estimator: Any, pictures: Any, digits: Any) -> float:
        if is_first(tmp_path / f"{estimator.C}"):
            os._exit(7)
        return float(estimator.score(pictures, digits))

    with px.Manager(contract=px.ParDegree(2)) as manager:
        with joblib.parallel_config("phalanx", manager=manager):
            found = grid_search(accuracy)
        assert manager.summary().lost == 3
    with joblib.parallel_config("sequential"):
        assert scores(found) == scores(grid_search())


def test_a_call_that_ends_every_interpreter_is_the_culprit(own: None) -> None:
    with joblib.parallel_config("phalanx", contract=px.ParDegree(2)), pytest.raises(px.CulpritError, match="_exit"):
        Parallel()(delayed(os._exit)(3) for _ in range(2))


def test_who_replaces_an_interpreter_gets_what_the_calls_share(tmp_path: Path) -> None:
    def sum_or_end(array: Any, number: int) -> float:
        if number % 10 == 5 and is_first(tmp_path / str(number)):
            os._exit(7)
        return float(array.sum()) + number

    array = np.ones(MEGABYTE)
    with px.Manager(contract=px.ParDegree(2), policy="all") as manager:
        with joblib.parallel_config("phalanx", manager=manager):
            results = Parallel(batch_size=1)(delayed(sum_or_end)(array, number) for number in range(30))
        assert manager.summary().lost == 3
    assert results == [float(MEGABYTE + number) for number in range(30)]
