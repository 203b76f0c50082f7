"""However a program ends, nothing that it started is left: Ctrl-C, SIGKILL, a fork."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from api.conftest import Script, gone
from conftest import Eventually

from laboratory.processes import Process

BEGINNING = """
    import itertools, os, signal, sys, threading, time
    import phalanx as px

    def work(seconds):
        print("interpreter", os.getpid(), flush=True)
        time.sleep(seconds)
        return seconds

"""

# Each of these has two interpreters that are busy for ever.
BUSY = {
    "compute": """
    with px.Manager(contract=px.ParDegree(2)) as manager:
        for _ in manager.compute(work, [1000] * 4):
            pass
    """,
    "compute of an endless stream": """
    manager = px.Manager(contract=px.ParDegree(2))
    list(manager.compute(work, itertools.repeat(1000)))
    """,
    "compute of a stream that waits": """
    def stream():
        yield from [1000, 1000]
        time.sleep(1000)

    list(px.Manager(contract=px.ParDegree(2)).compute(work, stream(), ordered=False))
    """,
    "calls": """
    manager = px.Manager(contract=px.ParDegree(2))
    list(manager.map(work, [1000] * 50))
    """,
    "calls in a with block": """
    with px.Manager(contract=px.ParDegree(2), policy="all") as manager:
        calls = [manager.submit(work, 1000) for _ in range(50)]
    """,
    "wait": """
    import concurrent.futures
    manager = px.Manager(contract=px.ParDegree(2))
    concurrent.futures.wait([manager.submit(work, 1000) for _ in range(2)])
    """,
    "something else": """
    manager = px.Manager(contract=px.ParDegree(2))
    calls = [manager.submit(work, 1000) for _ in range(2)]
    time.sleep(1000)
    """,
    "the end of the script": """
    manager = px.Manager(contract=px.ParDegree(2))
    calls = [manager.submit(work, 1000) for _ in range(2)]
    """,
}


def interpreters(program: Process, eventually: Eventually, count: int = 2) -> list[Path]:
    """Those that said that they work, as folders of /proc."""

    def found() -> set[str]:
        assert program.code is None, program.report()
        pids = {line.split()[1] for line in program.lines() if line.startswith("interpreter ")}
        return pids if len(pids) == count else set()

    return [Path("/proc", pid) for pid in eventually(found, timeout=30, what="busy interpreters")]


@pytest.mark.parametrize("what", BUSY)
def test_ctrl_c_ends_everything_at_once(script: Script, eventually: Eventually, what: str) -> None:
    program = script(BEGINNING + BUSY[what])
    started = interpreters(program, eventually)
    began = time.monotonic()
    program.signal(signal.SIGINT, group=True)
    code = program.wait(timeout=20)
    assert time.monotonic() - began < 10  # the promise is one second; this machine may be busy
    assert code == (0 if what == "the end of the script" else -signal.SIGINT), program.report()
    assert "KeyboardInterrupt" in program.stderr()
    eventually(lambda: gone(started))


@pytest.mark.parametrize("what", ["compute", "calls", "calls in a with block"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_interpreters_do_not_outlive_a_program_that_is_killed(
    script: Script, eventually: Eventually, what: str, number: signal.Signals
) -> None:
    program = script(BEGINNING + BUSY[what])
    started = interpreters(program, eventually)
    program.signal(number)
    assert program.wait() == -number
    eventually(lambda: gone(started))


def test_a_program_that_is_killed_while_interpreters_start(script: Script) -> None:
    """Nothing may be left of it, as after every test."""
    program = script(
        BEGINNING
        + """
    manager = px.Manager(contract=px.ParDegree(6))
    print("recruiting", flush=True)
    time.sleep(1000)
    """
    )
    program.line("recruiting")
    program.kill()


def test_a_program_goes_on_after_ctrl_c(script: Script, eventually: Eventually) -> None:
    """As in a notebook: what was interrupted is given up, what was submitted is not lost."""
    program = script(
        BEGINNING
        + """
    def quickly(number):
        time.sleep(0.01)
        return number

    with px.Manager(contract=px.ParDegree(2)) as manager:
        for _ in range(5):
            calls = [manager.submit(quickly, number) for number in range(60)]
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                for call in calls:
                    call.result()
                time.sleep(10)
            except KeyboardInterrupt:
                print("interrupted")
            assert [call.result(timeout=20) for call in calls] == list(range(60))
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                for _ in manager.compute(quickly, itertools.count()):
                    pass
            except KeyboardInterrupt:
                print("given up")
    """
    )
    assert program.wait(timeout=60) == 0, program.report()
    assert program.lines() == ["interrupted", "given up"] * 5


def test_a_fork_of_the_program_does_not_end_its_interpreters(script: Script) -> None:
    program = script(
        BEGINNING
        + """
    manager = px.Manager(contract=px.ParDegree(2))
    assert list(manager.compute(abs, [-1, -2])) == [1, 2]
    if os.fork() == 0:
        for use in (lambda: manager.compute(abs, [1]), lambda: manager.submit(abs, 1)):
            try:
                use()
            except RuntimeError as error:
                assert "after the fork" in str(error)
            else:
                os._exit(1)
        manager.shutdown()
        del manager
        sys.exit(0)
    assert os.wait()[1] == 0
    assert list(manager.compute(abs, range(-50, 0))) == list(range(50, 0, -1))
    assert manager.submit(abs, -1).result() == 1
    print("lost", manager.summary().lost)
    """
    )
    assert program.wait() == 0, program.report()
    assert program.lines() == ["lost 0"]


def test_a_fork_may_have_a_manager_of_its_own(script: Script) -> None:
    program = script(
        BEGINNING
        + """
    first = px.Manager(contract=px.ParDegree(1))
    assert list(first.compute(abs, [-1])) == [1]
    child = os.fork()
    if child == 0:
        with px.Manager(contract=px.ParDegree(1)) as own:
            assert own.submit(abs, -2).result() == 2
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(first.compute(abs, [-3])) == [3]
    """
    )
    assert program.wait() == 0, program.report()


def test_multiprocessing_beside_a_manager(script: Script) -> None:
    program = script(
        BEGINNING
        + """
    import multiprocessing

    def square(number):
        return number * number

    if __name__ == "__main__":
        with px.Manager(contract=px.ParDegree(1)) as manager:
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    assert pool.map(square, [2, 3]) == list(manager.map(square, [2, 3])) == [4, 9]
            assert manager.summary().lost == 0
    """
    )
    assert program.wait() == 0, program.report()


def test_a_manager_in_a_task(script: Script) -> None:
    program = script(
        BEGINNING
        + """
    def inner(number):
        with px.Manager(contract=px.ParDegree(1)) as manager:
            return sum(manager.compute(abs, range(-number, 0)))

    with px.Manager(contract=px.ParDegree(1)) as manager:
        print(list(manager.compute(inner, [3, 4])))
    """
    )
    assert program.wait() == 0, program.report()
    assert program.lines() == ["[6, 10]"]
