"""BSP programs of Python and of C, started by `phalanx bsprun` on one machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from phalanx import bsp

PHALANX = str(Path(sys.executable).with_name("phalanx"))
HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "message_passing" / "bsp_matrices.py"

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]
Program = Callable[..., list[str]]

HEAD = "import numpy as np\nfrom phalanx import bsp\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(3, "./a.out")` is `phalanx bsprun -n 3 ./a.out`, to its end."""

    def run(processes: int, *command: str) -> Done:
        words = [PHALANX, "bsprun", "-n", str(processes), "--no-prefix", *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=os.environ)

    return run


@pytest.fixture
def program(run: Run, tmp_path: Path) -> Program:
    """What the processes of a program print, in order. Its text runs between begin and end."""

    def program(processes: int, text: str) -> list[str]:
        body = "".join(f"    {line}\n" for line in dedent(text).strip().splitlines())
        (tmp_path / "program.py").write_text(f"{HEAD}with bsp.begin():\n    p, n = bsp.pid(), bsp.nprocs()\n{body}")
        done = run(processes, "program.py")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return sorted(done.stdout.splitlines())

    return program


each_size = pytest.mark.parametrize("processes", [1, 2, 3, 4])


@each_size
def test_gets_read_before_puts_write(program: Program, processes: int) -> None:
    text = """
        own, got = np.array([p, p], "int64"), np.zeros(1, "int64")
        bsp.push_reg(own)
        bsp.sync()
        bsp.put((p + 1) % n, np.array([p + 10]), own, 1)
        bsp.get((p + 1) % n, own, got, 1)
        bsp.sync()
        print(p, own.tolist(), got.tolist())
    """
    expected = [f"{p} [{p}, {(p - 1) % processes + 10}] [{(p + 1) % processes}]" for p in range(processes)]
    assert program(processes, text) == expected


@each_size
def test_objects_bytes_and_arrays_are_sent_with_tags(program: Program, processes: int) -> None:
    text = """
        for pid in range(n):
            bsp.send(pid, {"from": p}, tag=("object", p))
            bsp.send(pid, bytes([p]), "bytes")
            bsp.send(pid, np.full(3, p))
        assert bsp.qsize() == (0, 0)
        bsp.sync()
        assert bsp.qsize()[0] == 3 * n
        assert bsp.get_tag() == ("object", 0)
        assert bsp.move() == {"from": 0}
        assert bsp.hpmove() == ("bytes", bytes([0]))
        rest = list(bsp.messages())
        assert [message.tag for message in rest[:3]] == [None, ("object", 1), "bytes"][:len(rest)]
        assert rest[-1].payload.tolist() == [n - 1] * 3
        assert bsp.qsize() == (0, 0)
        bsp.send(0, "lost")
        bsp.sync()
        bsp.sync()
        assert bsp.qsize() == (0, 0)
        print("done")
    """
    assert program(processes, text) == ["done"] * processes


def test_tags_may_be_bytes_of_one_length(program: Program) -> None:
    text = """
        assert bsp.set_tagsize(2) is None
        bsp.send(0, 1, tag=[])
        bsp.sync()
        assert [message.tag for message in bsp.messages()] == ([[], []] if p == 0 else [])
        bsp.send(1 - p, 1, tag=b"ab")
        try:
            bsp.send(1 - p, 1, tag="a")
        except bsp.BspError as error:
            print(error)
        assert bsp.set_tagsize(None) == 2
        bsp.sync()
        assert bsp.get_tag() == b"ab"
    """
    assert program(2, text) == ["send: the tag is 'a', but set_tagsize said 2 bytes"] * 2


@each_size
def test_long_arrays_are_put_and_got_in_place(program: Program, processes: int) -> None:
    text = """
        length = 100_000
        area, own, got = np.zeros(n * length), np.full(length, p + 1.0), np.zeros(length)
        bsp.push_reg(area)
        bsp.sync()
        for pid in range(n):
            bsp.hpput(pid, own, area, p * length)
        bsp.sync()
        assert np.array_equal(area, np.repeat(np.arange(1.0, n + 1), length))
        bsp.hpget((p + 1) % n, area, got, p * length)
        own[:] = 0
        bsp.sync()
        assert np.array_equal(got, np.full(length, p + 1.0))
        print(area.sum())
    """
    assert program(processes, text) == [str(100_000.0 * sum(range(1, processes + 1)))] * processes


def test_arrays_of_every_kind_are_put(program: Program) -> None:
    text = """
        import array
        areas = [bytearray(4), array.array("d", [0, 0]), np.zeros((2, 3), "f4"), np.zeros(0), np.zeros(2, "i4,f8")]
        for area in areas:
            bsp.push_reg(area)
        bsp.sync()
        if p == 0:
            bsp.put(1, b"xy", areas[0], 1)
            bsp.put(1, array.array("d", [2.5]), areas[1], 1)
            bsp.put(1, np.arange(8, dtype="f4")[::4], areas[2], 4)
            bsp.put(1, areas[3], areas[3])
            bsp.put(1, np.array([(1, 2.0)], "i4,f8"), areas[4], 1)
        bsp.sync()
        if p == 1:
            print(areas[0], areas[1], areas[2].tolist(), areas[4].tolist(), sep=";")
    """
    expected = (
        "bytearray(b'\\x00xy\\x00');array('d', [0.0, 2.5]);[[0.0, 0.0, 0.0], [0.0, 0.0, 4.0]];[(0, 0.0), (1, 2.0)]"
    )
    assert program(2, text) == [expected]


WRONG = {
    "bsp.put(1, area, area, 1)": "put: 32 bytes at offset 8 are not within the 32 bytes that pid 1 registered",
    "bsp.put(1, area, area, -1)": "put: 32 bytes at offset -8 are not within the 32 bytes that pid 1 registered",
    "bsp.get(1, area, np.zeros(1), 4)": "get: 8 bytes at offset 32 are not within the 32 bytes that pid 1 registered",
    "bsp.put(2, area, area)": "put: pid 2 is not in 0..2",
    "bsp.send(-1, 0)": "send: pid -1 is not in 0..2",
    "bsp.put(1, area, np.zeros(4))": "put: the area is not registered",
    "bsp.hpput(1, np.zeros(4, 'f4'), area)": "hpput: items of format 'f' do not go with those of the array, 'd'",
    "bsp.put(1, 5, area)": "put: source is no array, but int: memoryview: a bytes-like object is required, not 'int'",
    "bsp.hpget(1, area, np.zeros((4, 2))[:, 0])": "hpget: into is not in C order: its items do not lie in a row",
    "bsp.get(1, area, memoryview(b'12345678').cast('d'))": "get: into cannot be written",
    "bsp.push_reg(b'x')": "push_reg: array cannot be written",
    "bsp.push_reg(np.array([None]))": "push_reg: array holds references to objects, which mean nothing elsewhere: "
    "send it as a message",
    "bsp.pop_reg(np.zeros(1))": "pop_reg: the area is not registered",
    "bsp.move()": "the queue is empty: qsize says how many messages are left",
    "bsp.get_tag()": "get_tag: the queue is empty",
    "bsp.send(1, lambda: 0)": "send: the payload cannot be pickled: ",
    "bsp.begin()": "begin: it was called before",
    "bsp.set_tagsize(-1)": "set_tagsize: -1 bytes make no tag",
}


def test_wrong_calls_say_what_is_wrong_and_change_nothing(program: Program) -> None:
    text = f"""
        area = np.zeros(4)
        bsp.push_reg(area)
        bsp.sync()
        for call in {list(WRONG)!r}:
            try:
                eval(call)
                said = "nothing"
            except bsp.BspError as error:
                said = str(error)
            if p == 0:
                print(call, said, sep=" -> ")
        bsp.sync()
    """
    said = dict(line.split(" -> ") for line in program(2, text))
    assert said.keys() == WRONG.keys()
    for call, text in WRONG.items():
        assert said[call].startswith(text), said[call]
        assert said[call] == text or text.endswith(": ")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("bsp.push_reg(np.zeros(1))", "sync: pid 1 changed 1 registrations in this superstep, and this process 0"),
        ("bsp.set_tagsize(1)", "sync: pid 1 set the tag size to 2 bytes, this process to nothing"),
        ("bsp.end()", "sync: pid 1 called end where this process called sync"),
    ],
)
def test_processes_that_do_not_agree_are_told_so(run: Run, tmp_path: Path, act: str, said: str) -> None:
    text = f"{HEAD}with bsp.begin():\n    if bsp.pid() == 1:\n        {act}\n    bsp.sync()\n"
    (tmp_path / "program.py").write_text(text)
    done = run(3, "program.py")
    assert done.returncode != 0
    assert f"BspError: {said}" in done.stderr


def test_a_process_that_ends_too_early_is_told_in_words_of_bsp(run: Run, tmp_path: Path) -> None:
    text = "bsp.begin()\nif bsp.pid() == 0:\n    bsp.sync()\n"
    (tmp_path / "program.py").write_text(HEAD + text)
    done = run(2, "program.py")
    assert done.returncode == 1
    assert re.search(r"pid 1 on \S+ ended without bsp end", done.stderr)
    assert "MPI" not in done.stderr
    assert "rank" not in done.stderr


def test_an_abort_ends_all_with_its_reason(run: Run, tmp_path: Path) -> None:
    text = "with bsp.begin():\n    print(bsp.pid())\n    bsp.abort('no luck') if bsp.pid() == 1 else bsp.sync()\n"
    (tmp_path / "program.py").write_text(HEAD + text)
    done = run(2, "program.py")
    assert done.returncode == 1
    assert "pid 1: no luck" in done.stderr
    assert "1" in done.stdout.split()


def test_a_program_may_use_fewer_processes_and_be_alone(run: Run, tmp_path: Path) -> None:
    text = "with bsp.begin(2):\n    bsp.sync()\n    print(bsp.pid(), bsp.nprocs())\nprint('ended')\n"
    (tmp_path / "program.py").write_text(HEAD + text)
    done = run(4, "program.py")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["0 2", "1 2", "ended", "ended"])
    alone = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (alone.returncode, alone.stdout) == (0, "0 1\nended\n")


def test_calls_need_a_program() -> None:
    for call in (bsp.pid, bsp.nprocs, bsp.sync, bsp.end, bsp.qsize):
        with pytest.raises(bsp.BspError, match=r"(?m)^call phalanx.bsp.begin\(\) first$"):
            call()


@each_size
def test_costs_are_noted_and_predicted(program: Program, processes: int) -> None:
    text = """
        machine = bsp.probe()
        assert (machine.processes, bsp.qsize()) == (n, (0, 0))
        assert machine.g >= 0 and machine.l > 0
        bsp.note_costs()
        for pid in range(n):
            bsp.send(pid, bytes(1000 * (p + 1)))
        bsp.sync()
        bsp.sync()
        bsp.note_costs(False)
        bsp.sync()
        costs = bsp.costs()
        first, second = costs.supersteps
        print(first.sent, first.received, first.h, second.h, len(costs.table(machine).splitlines()))
    """
    sent = (processes - 1) * (1000 * processes + 1)
    received = sum(1000 * (p + 1) + 1 for p in range(1, processes))
    assert program(processes, text) == [f"{sent} {received} {max(sent, received)} 0 3"] * processes


def test_costs_are_plotted(tmp_path: Path) -> None:
    costs = bsp.Costs([bsp.SuperstepCost(1e-3, 1e-5, 1000, 2000), bsp.SuperstepCost(2e-3, 1e-5, 0, 0)])
    costs.plot(tmp_path / "costs.png", bsp.Machine(2, 1e-9, 1e-5))
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")


@each_size
def test_matrices_are_multiplied_as_in_the_paper(run: Run, processes: int) -> None:
    done = run(processes, str(EXAMPLE), "101")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"101 x 101 on {processes} processes: ")


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[str], str]:
    """A program of C, compiled by `phalanx bspcc`."""

    def compiled(text: str | Path) -> str:
        source = text if isinstance(text, Path) else tmp_path / "program.c"
        if isinstance(text, str):
            source.write_text(text)
        command = [PHALANX, "bspcc", "-Wall", "-Werror", "-O1", "-o", "program", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return "./program"

    return compiled


@each_size
def test_a_c_program_computes_an_inner_product(run: Run, compiled: Callable[[Path], str], processes: int) -> None:
    done = run(processes, compiled(HERE / "inner_product.c"), "1000")
    assert done.returncode == 0, done.stderr
    expected = [f"sum 332833500 of 1000 by {pid} of {processes}" for pid in range(processes)]
    assert sorted(done.stdout.splitlines()) == expected


@each_size
def test_a_c_program_sorts(run: Run, compiled: Callable[[Path], str], tmp_path: Path, processes: int) -> None:
    command = [PHALANX, "bsprun", "-n", str(processes), "--output", "out", compiled(HERE / "sample_sort.c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    numbers: list[int] = []
    for pid in range(processes):
        numbers += map(int, (tmp_path / "out" / f"{pid}.out").read_text().split())
    expected = []
    for pid in range(processes):
        state = 12345 + pid
        for _ in range(5000):
            state = (state * 1664525 + 1013904223) % 2**32
            expected.append(state >> 8)
    assert numbers == sorted(expected)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("bsp_put(0, &x, &x, 0, 4);", r"pid \d: bsp_put: the area is not registered"),
        ("bsp_put(7, &x, &x, 0, 4);", r"pid \d: bsp_put: pid 7 is not in 0..2"),
        ("bsp_get(0, &x, 0, 0, 4);", r"pid \d: bsp_get: destination is NULL, but nbytes is 4"),
        ("bsp_send(0, 0, &x, -4);", r"pid \d: bsp_send: nbytes is -4"),
        ("bsp_move(&x, 4);", r"pid \d: bsp_move: the queue is empty"),
        ("bsp_begin(2);", r"pid \d: bsp_begin: it was called before"),
        ("bsp_end();", r"pid \d: bsp_end: the program has ended"),
        ('bsp_abort("number %d", 5);', r"pid \d: number 5"),
    ],
)
def test_a_wrong_call_of_c_ends_the_program(run: Run, compiled: Callable[[str], str], body: str, said: str) -> None:
    text = f"#include <bsp.h>\nint main(void) {{ int x = 0; bsp_begin(2); {body} (void)x; bsp_end(); return 0; }}\n"
    done = run(2, compiled(text))
    assert done.returncode == 1
    assert re.search(said, done.stderr), done.stderr
