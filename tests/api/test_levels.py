"""Levels, marks and the bill on one machine: rules give its links every level, and the results stay the same."""

from __future__ import annotations

import functools
import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import phalanx as px
import pytest
from api import tasks
from click.testing import CliRunner
from phalanx._compile import compile_program
from phalanx._outcomes import stage_code
from phalanx.cli import commands
from phalanx.security import marks_of

LEVELS = ("clear", "authenticated", "safe", "private")


def rules(folder: Path, text: str) -> px.Rules:
    file = folder / "rules.toml"
    file.write_text(text)
    return px.Rules(file)


def prefers(level: str) -> str:
    return f'[[rule]]\nnetwork = "same machine"\npreferred = "{level}"\n'


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def manager(level: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[px.Manager]:
    policy = rules(tmp_path_factory.mktemp("rules"), prefers(level))
    with px.Manager(contract=px.ParDegree(2), policy=policy) as opened:
        assert list(opened.compute(tasks.identity, range(20))) == list(range(20))
        yield opened


def test_links_have_the_level_that_a_rule_prefers(manager: px.Manager, level: str) -> None:
    interpreters = manager.summary().interpreters
    assert {it.level for it in interpreters} == {level}
    assert {it.levels for it in interpreters} == {(level,) * 3}
    assert {it.why[0] for it in interpreters} == {f"rule 1 prefers {level}"}
    assert not any(it.weaker for it in interpreters)


def test_the_same_results_at_every_level(manager: px.Manager) -> None:
    assert list(manager.compute(px.Pipeline(tasks.double, tasks.double), range(3000))) == list(range(0, 12000, 4))
    sizes = [0, 1, 4000, 32_767, 32_768, 131_071, 131_072, 131_073, 1 << 20, 3_000_001]
    stream = [np.arange(size, dtype=np.uint8) for size in sizes]
    for array, result in zip(stream, manager.compute(tasks.identity, stream), strict=True):
        np.testing.assert_array_equal(array, result)
    with pytest.raises(ZeroDivisionError):
        list(manager.compute(tasks.inverse, [0]))


def test_the_bill_has_what_this_computation_cost(manager: px.Manager, level: str) -> None:
    for count in (10, 40):
        results = manager.compute(tasks.identity, [np.zeros(1 << 18, np.uint8)] * count)
        assert all(len(result) == 1 << 18 for result in results)
        bill = results.bill
        [line] = bill.lines
        assert line.level == level
        # There and back; and there once more where a busy machine holds up an interpreter, and another one takes over.
        assert 2 * count << 18 < line.bytes < (3 * count << 18) * 1.1 + 50_000
        assert bill.wall > 0
        assert (line.protection > 0) == (level != "clear")
        assert (bill.cost > 0) == (level != "clear")
        assert 0 <= bill.share <= 1
        assert level in str(bill)


def test_results_are_a_generator(manager: px.Manager) -> None:
    results = manager.compute(tasks.double, iter(int, 1))
    assert next(results) == 0
    assert next(iter(results)) == 0
    results.close()
    with pytest.raises(StopIteration):
        next(results)


def test_the_journal_tells_levels_and_spendings(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    policy = rules(tmp_path, prefers("safe"))
    with px.Manager(contract=px.ParDegree(1), policy=policy, journal=journal) as manager:
        list(manager.compute(tasks.identity, range(10)))
    facts = [json.loads(line) for line in journal.read_text().splitlines()]
    [protected] = [fact for fact in facts if fact["fact"] == "protected"]
    assert protected["levels"] == {"base": "safe", "data": "safe", "code": "safe"}
    [spent] = [fact for fact in facts if fact["fact"] == "spent"]
    assert [count > 0 for count in spent["bytes"]] == [False, False, True, False]


def test_only_what_is_marked_is_private(tmp_path: Path) -> None:
    policy = rules(tmp_path, '[[rule]]\nmark = "data"\nrequired = "private"\n')
    array = np.zeros(1 << 18, np.uint8)
    with px.Manager(contract=px.ParDegree(1), policy=policy) as manager:
        plain = manager.compute(tasks.identity, [array] * 4)
        list(plain)
        marked = manager.compute(px.Farm(tasks.identity, secure="data"), [array] * 4)
        list(marked)
        future = manager.submit(px.secure_data(lambda given: given), array)
        future.result()
        later = manager.compute(tasks.identity, [array] * 4)
        list(later)
    bytes_of = [{line.level: line.bytes for line in results.bill.lines} for results in (plain, marked, later)]
    assert bytes_of[0]["clear"] > 8 << 18
    assert "private" not in bytes_of[0]
    assert bytes_of[1]["private"] > 8 << 18
    assert bytes_of[1].get("clear", 0) < 1 << 18
    assert "private" not in bytes_of[2]
    private = {line.level: line.bytes for line in manager.summary().bill.lines}["private"]
    assert private > 10 << 18, "what was submitted too"


def test_exceptions_of_marked_functions_are_private(tmp_path: Path) -> None:
    @px.secure_data
    def fails(task: str) -> None:
        raise ValueError(task * 2)

    policy = rules(tmp_path, '[[rule]]\nmark = "data"\nrequired = "private"\n')
    with px.Manager(contract=px.ParDegree(1), policy=policy) as manager:
        results = manager.compute(fails, ["x" * 100_000])
        with pytest.raises(ValueError, match="xxx"):
            list(results)
    bytes_of = {line.level: line.bytes for line in results.bill.lines}
    assert bytes_of["private"] > 300_000
    assert bytes_of.get("clear", 0) < 100_000


def test_exceptions_show_what_a_marked_function_gave_and_are_private(tmp_path: Path) -> None:
    @px.secure_data
    def secret(task: str) -> str:
        return task * 2

    def fails(task: str) -> None:
        raise ValueError(task)

    policy = rules(tmp_path, '[[rule]]\nmark = "data"\nrequired = "private"\n')
    with px.Manager(contract=px.ParDegree(1), policy=policy) as manager:
        results = manager.compute(px.Pipeline(secret, fails, abs, fuse=False), ["x" * 100_000])
        with pytest.raises(ValueError, match="xxx"):
            list(results)
    bytes_of = {line.level: line.bytes for line in results.bill.lines}
    assert bytes_of["private"] > 450_000
    assert bytes_of.get("clear", 0) < 100_000


@pytest.mark.parametrize("body", [lambda program: program, lambda program: px.Map(program, split=lambda task: [task])])
def test_what_comes_of_tokens_that_stayed_is_as_private_as_the_last_function(tmp_path: Path, body: Any) -> None:
    @px.secure_data
    def secret(task: str) -> str:
        return task * 2

    policy = rules(tmp_path, '[[rule]]\nmark = "data"\nrequired = "private"\n')
    with px.Manager(contract=px.ParDegree(1), policy=policy) as manager:
        program = body(px.Pipeline(lambda task: task * 100_000, str.upper, str.lower, secret, fuse=False))
        results = manager.compute(program, ["x"])
        assert len(str(*results)) >= 200_000
        summary = manager.summary()
    assert summary.interpreters[0].bytes_stayed >= 300_000
    bytes_of = {line.level: line.bytes for line in results.bill.lines}
    assert bytes_of["private"] > 200_000
    assert bytes_of.get("clear", 0) < 100_000


def test_marks_of_functions_and_skeletons() -> None:
    @px.secure_data
    @px.secure_code
    def both(task: int) -> int:
        return task

    class Callable:
        @px.secure_code
        def __call__(self, task: int) -> int:
            return task

        @px.secure_data
        def method(self, task: int) -> int:
            return task

    assert marks_of(both) == {"data", "code"}
    assert marks_of(functools.partial(functools.partial(both))) == {"data", "code"}
    assert marks_of(Callable().method) == {"data"}
    assert marks_of(math.sqrt) == marks_of(tasks.double) == frozenset()
    assert marks_of(Callable()) == {"code"}
    assert marks_of(px.secure_data(functools.partial(abs))) == {"data"}


@pytest.mark.parametrize(
    ("program", "code", "data"),
    [
        (px.Pipeline(abs, abs, abs, fuse=False), False, [(False, False)] * 3),
        (px.Farm(abs, secure="code"), True, [(False, False)]),
        (px.Pipeline(abs, px.Farm(abs, secure="data")), False, [(True, True)]),
        (
            px.Pipeline(abs, px.Farm(abs, secure="data"), abs, abs, fuse=False),
            False,
            [(False, True), (True, True), (True, False), (False, False)],
        ),
        (px.Pipeline(px.Pipeline(abs, abs, fuse=False), abs, fuse=False, secure="both"), True, [(True, True)] * 3),
    ],
)
def test_a_token_is_marked_if_either_of_its_ends_is(program: Any, code: bool, data: list[tuple[bool, bool]]) -> None:
    assert staged_marks(program) == (code, data)


def staged_marks(program: Any) -> tuple[bool, list[tuple[bool, bool]]]:
    """What the engine is told of a program's marks."""

    class Native:
        def stage(self, instructions: int, code: bytes, marked_code: bool, data: Any, options: Any) -> int:
            self.said = (marked_code, data)
            return 1

        def stage_graph(
            self, entry: Any, instructions: Any, code: bytes, marked_code: bool, data: Any, options: Any
        ) -> int:
            return self.stage(len(instructions), code, marked_code, data, options)

    native: Any = Native()
    compiled = compile_program(program)
    compiled.stage(native, stage_code(compiled.code))
    said: tuple[bool, list[tuple[bool, bool]]] = native.said
    return said


@pytest.mark.parametrize(
    "program",
    [
        px.Map(abs, secure="both"),
        px.Pipeline(px.Map(px.Map(abs)), abs, secure="both"),
        px.Reduce(max, secure="both"),
        px.Scan(max, secure="both"),
        px.Loop(px.Farm(abs, secure="both"), while_=bool),
        px.Loop(px.Map(abs), while_=bool, secure="both"),
        px.Graph({"a": (abs, "task"), "b": (max, "a", "task")}, result="b", secure="both"),
    ],
)
def test_everything_in_a_marked_skeleton_is_marked(program: Any) -> None:
    code, data = staged_marks(program)
    assert code
    assert all(one == (True, True) for one in data)


def test_in_a_graph_only_what_touches_a_marked_function_is_marked() -> None:
    secret = px.Farm(abs, secure="data")
    plain = px.Pipeline(abs, abs, fuse=False)
    program = px.Graph({"a": (abs, "task"), "b": (secret, "a"), "c": (plain, "a"), "d": (max, "b", "c")}, result="d")
    code, data = staged_marks(program)
    assert not code
    assert sorted(data) == [(False, False), (False, True), (True, False), (True, False), (True, True)]


SECRET = px.Farm(abs, secure="data")


@pytest.mark.parametrize(
    ("program", "data"),
    [
        (px.Map(SECRET), [(True, True), (True, True), (True, True)]),
        (px.Pipeline(abs, px.Map(SECRET)), [(False, True), (True, True), (True, True)]),
        (px.Pipeline(abs, px.Map(SECRET), fuse=False), [(False, True), *[(True, True)] * 3]),
        (px.Pipeline(abs, px.Map(px.Map(SECRET)), fuse=False), [(False, True), *[(True, True)] * 5]),
        (px.Pipeline(px.Map(SECRET), abs, fuse=False), [*[(True, True)] * 3, (True, False)]),
        (px.Pipeline(px.Map(abs, split=list), SECRET), [(False, False), (False, True), (True, True)]),
        (px.Loop(px.Map(SECRET), while_=bool), [(True, True)] * 3),
        (px.Pipeline(px.Loop(px.Map(abs), while_=bool), SECRET), [(True, True)] * 4),
    ],
)
def test_a_list_is_marked_if_its_parts_are(program: Any, data: list[tuple[bool, bool]]) -> None:
    assert staged_marks(program) == (False, data)


def test_a_token_that_one_marked_function_takes_is_marked_wherever_it_goes() -> None:
    program = px.Graph({"a": (SECRET, "task"), "b": (abs, "task"), "c": (max, "a", "b")}, result="c")
    assert sorted(staged_marks(program)[1]) == [(True, False), (True, False), (True, True)]


def test_a_list_of_what_a_marked_function_takes_is_private(tmp_path: Path) -> None:
    policy = rules(tmp_path, '[[rule]]\nmark = "data"\nrequired = "private"\n')
    lists = [[np.full(1 << 18, number, np.uint8) for number in range(4)] for _ in range(4)]
    with px.Manager(contract=px.ParDegree(2), policy=policy) as manager:
        results = manager.compute(px.Map(px.secure_data(np.size)), lists)
        assert list(results) == [[1 << 18] * 4] * 4
    bytes_of = {line.level: line.bytes for line in results.bill.lines}
    assert bytes_of.get("clear", 0) < 1 << 20


def test_functions_that_a_program_calls_mark_it_too() -> None:
    @px.secure_code
    @px.secure_data
    def secret(task: int) -> int:
        return task

    assert staged_marks(lambda task: secret(task)) == (True, [(True, True)])
    assert staged_marks(functools.partial(map, secret))[0]


def test_what_cannot_be_marked() -> None:
    with pytest.raises(px.PolicyError, match=r"px.Farm\(sqrt, secure='data'\)"):
        px.secure_data(math.sqrt)
    with pytest.raises(px.PolicyError, match="mark the function in it"):
        px.secure_code(staticmethod(tasks.double))
    with pytest.raises(px.PolicyError, match="'data', 'code' or 'both'"):
        px.Farm(abs, secure="all")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[rule]]", "rule 1: write one of"),
        ('[[rule]]\nnever = "secret"', "unknown variant"),
        ('[[rule]]\nnetwork = "10.0"\nnever = "clear"', '"10.0" is no network'),
        ("rules", "expected"),
    ],
)
def test_rules_that_cannot_be_read(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(px.PolicyError, match=what):
        px.Manager(policy=rules(tmp_path, text))
    with pytest.raises(px.PolicyError, match="cannot be read"):
        px.Rules(tmp_path / "none.toml")


def test_rules_that_leave_no_level(tmp_path: Path) -> None:
    text = "".join(f'[[rule]]\nnever = "{level}"\n' for level in LEVELS)
    with pytest.raises(px.PolicyError, match="no level is left for a link to the same machine"):
        px.Manager(policy=rules(tmp_path, text))


def test_a_policy_that_may_weaken_links_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phalanx"), px.Manager(contract=px.ParDegree(1)):
        pass
    assert not caplog.records
    policy = rules(tmp_path, '[[rule]]\nnetwork = "10.0.0.0/8"\npreferred = "safe"\n')
    with caplog.at_level(logging.WARNING, "phalanx"), px.Manager(contract=px.ParDegree(1), policy=policy):
        pass
    assert "rule 1 prefers safe" in caplog.text


def explain(hosts: Path, *options: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(commands, ["explain", str(hosts), "--json", *options])
    rows: list[dict[str, Any]] = json.loads(done.output)
    return rows


def test_explain_names_every_pair_its_level_and_what_decided(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("10.1.0.1 7400\n10.2.0.1 7400\ntrusted 10.1.0.0/16\n")
    near, far = "10.1.0.1:7400", "10.2.0.1:7400"
    trusting = explain(hosts, "--takes", "clear")
    assert {row["level"] for row in trusting if row["other"] == near} == {"clear"}
    rows = {(row["one"], row["other"], row["mark"]): row for row in explain(hosts, "--policy", "marked")}
    assert len(rows) == 9
    assert rows["manager", near, "data"]["level"] == "safe"
    assert rows["manager", far, "data"]["level"] == "private"
    assert rows["manager", far, "none"]["level"] == "safe"
    assert rows["manager", far, "none"]["weaker"]
    assert "other end" in rows["manager", far, "none"]["why"]
    assert rows[near, far, "none"]["level"] == "safe"
    shown = CliRunner().invoke(commands, ["explain", str(hosts), "--takes", "clear"])
    assert shown.exit_code == 0
    assert "policy links: trusted network" in shown.output


def test_explain_says_where_nobody_can_talk(tmp_path: Path) -> None:
    hosts, table = tmp_path / "hosts.txt", tmp_path / "rules.toml"
    hosts.write_text("10.2.0.1 7400\n")
    table.write_text('[[rule]]\nnever = "private"\n[[rule]]\nnever = "safe"\n')
    done = CliRunner().invoke(commands, ["explain", str(hosts), "--policy", str(table)])
    assert done.exit_code != 0
    assert "no level is left" in done.output
