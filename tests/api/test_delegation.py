"""Tasks at one executor use spaces at another one, and copy there: as their user, as far as the user's program says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.executors import PHALANX, Executors, keeps_files_apart
from api.members import Lab
from click.testing import CliRunner
from phalanx.cli import commands

from laboratory.processes import Process, until

PATIENCE = 60


class Site:
    """Two executors: tasks run at ``labpc``, and ``board`` serves the spaces. Each exports a folder."""

    def __init__(self, folder: Path) -> None:
        self.grid = Executors(folder)
        self.own, self.shared = folder / "own", folder / "shared"
        self.own.mkdir()
        self.shared.mkdir()
        self.labpc = self.grid.start("labpc", "--export", f"{self.own}:rw")
        self.board = self.grid.start("board", "--export", f"{self.shared}:rw")
        self.log = self.grid.started[1]

    def space(self, name: str) -> px.Space:
        return px.Space(f"{self.board}/{name}", identity=self.grid.identity)

    def manager(self, **options: Any) -> px.Manager:
        return px.Manager(self.labpc, identity=self.grid.identity, contract=px.ParDegree(1), **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("delegation"))
    with made.grid:
        made.grid.need_cages()
        yield made


def caught(manager: px.Manager, task: Callable[[], object]) -> tuple[str, str]:
    """The class and the text of the error that a task raises."""

    def call() -> tuple[str, str]:
        try:
            task()
        except Exception as error:
            return type(error).__name__, str(error)
        return "nothing", ""

    return manager.submit(call).result(PATIENCE)


def test_a_space_in_a_closure_arrives_working(site: Site) -> None:
    with site.space("closure") as space, site.manager() as manager:

        def square(number: int) -> int:
            space.out("square", number, number * number)
            return number

        assert list(manager.map(square, range(5))) == list(range(5))
        found = sorted(space.in_("square", int, int) for _ in range(5))
    assert found == [("square", number, number * number) for number in range(5)]
    until(lambda: "a process at labpc acts for ada" in site.log.stderr(), timeout=PATIENCE, what="the log")


def test_a_space_as_an_argument_arrives_working_also_where_nothing_was_given_before(site: Site) -> None:
    def answer(space: px.Space) -> None:
        _, number = space.in_("question", int)
        space.out("answer", number + 1)

    with site.space("arguments") as space, site.manager() as manager:
        assert manager.submit(abs, -1).result(PATIENCE) == 1
        space.out("question", 41)
        manager.submit(answer, space).result(PATIENCE)
        assert space.in_("answer", int, timeout=PATIENCE) == ("answer", 42)


def test_a_space_in_the_tasks_of_a_program_arrives_working(site: Site) -> None:
    def put(task: dict[str, Any]) -> int:
        task["space"].out("task", task["number"])
        return int(task["number"])

    with site.space("tasks") as space, site.manager() as manager:
        tasks = ({"space": space, "number": number} for number in range(3))  # a thread packs what an iterator gives
        assert sorted(manager.compute(px.Farm(put), tasks, ordered=False)) == [0, 1, 2]
        assert space.count("task", int) == 3


def test_a_space_that_this_process_serves_arrives_working(site: Site) -> None:
    server = site.grid.issue("executor", "deskpc")
    with px.Space() as space, site.manager() as manager:
        space.serve(identity=server)
        manager.submit(lambda: space.out("from", "a task")).result(PATIENCE)
        assert space.in_("from", str, timeout=PATIENCE) == ("from", "a task")


def test_a_replicated_space_goes_on_working_at_its_next_leader(site: Site, tmp_path: Path) -> None:
    servers = {}
    for name in ("one", "two", "three"):
        identity = site.grid.issue("executor", name)
        own = ["--identity", str(identity), "--directory", str(tmp_path / name), "--address", "127.0.0.1:0"]
        command = [PHALANX, "space", "serve", *own]
        process = Process(command, title=name, files=tmp_path / f"{name}-says", cwd=tmp_path, env=os.environ)
        servers[name] = process
    try:
        first, *others = [it.line("listening on ", timeout=PATIENCE).split()[2] for it in servers.values()]

        def work(number: int) -> None:
            space.out("began", number)
            space.in_("go", number)
            space.out("done", number)

        with (
            px.Space(f"{first}/kept", replicas=3, members=others, identity=site.grid.identity) as space,
            site.manager() as manager,
        ):
            working = manager.submit(work, 1)
            assert space.in_("began", 1, timeout=PATIENCE)
            (leader,) = (it.name for it in space.info().replicas if it.leads)
            servers[leader].kill()
            space.out("go", 1)
            working.result(PATIENCE)
            assert space.in_("done", 1, timeout=PATIENCE) == ("done", 1)
            space.out("go", 2)
            manager.submit(work, 2).result(PATIENCE)
            [delegated] = [one.delegated for one in manager.summary().interpreters]
            assert delegated is not None
            assert delegated[0] == "spaces at one/kept three/kept two/kept"
    finally:
        for process in servers.values():
            if process.code is None:
                process.kill()


def test_a_task_uses_only_what_was_given(site: Site) -> None:
    board, elsewhere = site.board, site.labpc
    with site.space("given") as space, site.manager() as manager:

        def of_this_server() -> None:
            px.Space(f"{board}/secrets").out("x")

        def of_another_server() -> None:
            px.Space(f"{elsewhere}/given").out("x")

        assert manager.submit(lambda: space.count()).result(PATIENCE) == 0
        kind, text = caught(manager, of_this_server)
        assert (kind, "ada delegated other spaces to this process" in text) == ("AccessError", True), text
        kind, text = caught(manager, of_another_server)
        assert (kind, "not those of labpc" in text) == ("IdentityError", True), text
        kind, text = caught(manager, lambda: px.Manager(board))
        assert (kind, "runs at labpc for a user" in text) == ("IdentityError", True), text


def test_without_a_delegation_the_error_says_what_to_do(site: Site) -> None:
    address = f"{site.board}/closed"
    with site.manager() as manager:
        kind, text = caught(manager, lambda: px.Space(address))
        assert (kind, 'delegate="spaces"' in text) == ("IdentityError", True), text
    with px.Space(address, identity=site.grid.identity) as space, site.manager(delegate=None) as manager:
        future = manager.submit(lambda: space.count())
        with pytest.raises(px.errors.StagingError, match="this process runs at labpc for a user, whose key stays"):
            future.result(PATIENCE)


def test_all_spaces_can_be_delegated(site: Site, tmp_path: Path) -> None:
    address = f"{site.board}/by-address"
    with site.manager(delegate="spaces", journal=tmp_path / "journal") as manager:

        def put() -> None:
            with px.Space(address) as space:
                space.out("opened", "by its address")

        manager.submit(put).result(PATIENCE)
    with site.space("by-address") as space:
        assert space.in_("opened", str, timeout=PATIENCE) == ("opened", "by its address")
    facts = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [fact["scope"] for fact in facts if fact["fact"] == "delegated"] == ["spaces at *"]


def test_a_wrong_word_is_an_error_at_once() -> None:
    with pytest.raises(px.PhalanxError, match="'files' is no delegate: write 'given', 'spaces', 'copies', 'all'"):
        px.Manager(delegate="files")  # type: ignore[arg-type]


def test_copies_can_be_delegated(site: Site, tmp_path: Path) -> None:
    board, shared = site.board, str(site.shared)
    there = f"{board}:{shared}"

    def work(number: int) -> tuple[str, list[str]]:
        Path("made").write_text(str(number * number))
        report = px.copy("made", f"{there}/made-{number}")
        px.copy(f"{there}/made-{number}", "back")
        return Path("back").read_text(), report.peers

    def look() -> list[str]:
        with px.Files(board) as files:
            return sorted(entry.path for entry in files.entries(shared))

    with site.manager(delegate="copies", journal=tmp_path / "journal") as manager:
        assert list(manager.map(work, range(3))) == [(str(number * number), ["board"]) for number in range(3)]
        assert manager.submit(look).result(PATIENCE) == ["made-0", "made-1", "made-2"]
    assert (site.shared / "made-2").read_text() == "4"
    what = "a process at labpc acts for ada, who delegated copies to it"
    until(lambda: what in site.log.stderr(), timeout=PATIENCE, what="the log")
    facts = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [fact["scope"] for fact in facts if fact["fact"] == "delegated"] == ["copies at *"]


def test_a_delegation_of_one_service_is_none_of_the_other(site: Site) -> None:
    board, address, place = site.board, f"{site.board}/never", f"{site.board}:{site.shared}/never"
    for delegate in ("given", "spaces"):
        with site.manager(delegate=delegate) as manager:
            for task in (lambda: px.copy(__file__, place), lambda: px.Files(board)):
                kind, text = caught(manager, task)
                assert (kind, 'px.Manager(..., delegate="copies")' in text) == ("IdentityError", True), text
    with site.manager(delegate="copies") as manager:
        kind, text = caught(manager, lambda: px.Space(address))
        assert (kind, 'px.Manager(..., delegate="spaces")' in text) == ("IdentityError", True), text
        kind, text = caught(manager, lambda: px.Manager(board))
        assert (kind, "managers and message passing programs need that key" in text) == ("IdentityError", True), text
        kind, text = caught(manager, lambda: px.copy(__file__, place, identity="user.pem"))
        assert (kind, "copies are delegated to this process: leave identity= out" in text) == ("IdentityError", True)
    assert not (site.shared / "never").exists()


def test_with_copies_the_spaces_that_were_given_arrive_working_too(site: Site) -> None:
    with site.space("beside") as space, site.manager(delegate="copies") as manager:
        manager.submit(lambda: space.out("from", "a task")).result(PATIENCE)
        assert space.in_("from", str, timeout=PATIENCE) == ("from", "a task")


def test_spaces_and_copies_are_delegated_together(site: Site) -> None:
    address, start, end = f"{site.board}/all", f"{site.board}:{site.shared}/data", f"{site.labpc}:{site.own}/data"
    (site.shared / "data").write_text("x" * 1000)

    def work() -> int:
        report = px.copy(start, end)  # from one executor to another
        with px.Space(address) as space:
            space.out("copied", report.bytes)
        return report.files

    with site.manager(delegate="all") as manager:
        assert manager.submit(work).result(PATIENCE) == 1
    with site.space("all") as space:
        assert space.in_("copied", int, timeout=PATIENCE) == ("copied", 1000)
    assert (site.own / "data").read_text() == "x" * 1000


def test_the_summary_says_what_each_interpreter_may_do_and_until_when(site: Site) -> None:
    with site.space("told") as space, site.manager() as manager:
        assert manager.submit(abs, -1).result(PATIENCE) == 1
        assert [one.delegated for one in manager.summary().interpreters] == [None]
        manager.submit(lambda: space.count()).result(PATIENCE)
        [delegated] = [one.delegated for one in manager.summary().interpreters]
        assert delegated is not None
        assert delegated[0] == "spaces at board/told"
        assert time.time() < delegated[1] <= time.time() + 3600
    with site.manager(delegate="all") as manager:
        assert manager.submit(abs, -1).result(PATIENCE) == 1
        [delegated] = [one.delegated for one in manager.summary().interpreters]
        assert delegated is not None
        assert delegated[0] == "spaces at *, copies at *"


@pytest.mark.parametrize(
    ("delegate", "says"),
    [
        ("given", "In the user's name, interpreters may use the spaces that the program was given."),
        ("given", "ranks may do nothing, unless they are started with --delegate"),
        ("copies", "the files that executors export"),
        ("copies", "ranks that are started with --delegate copies may use the files that executors export"),
        ("all", "all spaces, and the files that executors export"),
        ("none", "In the user's name, interpreters and ranks may do nothing."),
    ],
)
def test_explain_shows_what_a_program_delegates(tmp_path: Path, delegate: str, says: str) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("ws7 = 10.0.0.7:7300\n")
    shown = CliRunner().invoke(commands, ["explain", str(hosts), "--delegate", delegate])
    assert says in shown.output
    facts = CliRunner().invoke(commands, ["explain", str(hosts), "--delegate", delegate, "--json"])
    assert "the user's name" not in facts.output


@pytest.mark.parametrize("revoked", ["eve", "labpc"])
def test_a_link_ends_when_the_user_or_the_executor_is_revoked(tmp_path: Path, revoked: str) -> None:
    lab = Lab(tmp_path)
    try:
        labpc, address = lab.executor("labpc")
        if not keeps_files_apart(labpc):
            pytest.skip("this kernel has no Landlock, and tasks count as the owner's processes")
        board, served = lab.executor("board")
        space = f"{served}/jobs"

        def wait() -> str:
            with px.Space(space) as opened:
                opened.out("waits")
                try:
                    opened.in_("never", int, timeout=PATIENCE)
                except px.SpaceError as error:
                    return type(error).__name__
                return ""

        named = [f"labpc = {address}"]
        with px.Grid(named, identity=lab.issue("user", "eve")).manager(
            contract=px.ParDegree(1), delegate="spaces"
        ) as manager:
            waiting = manager.submit(wait)
            until(lambda: "acts for eve" in board.stderr(), timeout=PATIENCE, what="the task at the space")
            lab.revoke(revoked, lab.folder / "board")
            assert waiting.result(PATIENCE) == "SpaceLostError"
            kind, _ = caught(manager, lambda: px.Space(space))
            assert kind == "SpaceError"
        assert f"{revoked} was revoked" in board.stderr()
    finally:
        for process in lab.started:
            process.kill()


@pytest.mark.parametrize("revoked", ["eve", "labpc"])
def test_a_copy_ends_when_the_user_or_the_executor_is_revoked(tmp_path: Path, revoked: str) -> None:
    lab = Lab(tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    try:
        labpc, address = lab.executor("labpc")
        if not keeps_files_apart(labpc):
            pytest.skip("this kernel has no Landlock, and tasks count as the owner's processes")
        board, served = lab.executor("board", "--export", f"{shared}:rw")
        place = f"{served}:{shared}/data"

        def copy() -> str:
            Path("data").write_bytes(os.urandom(20 << 20))
            try:
                px.copy("data", place, limit="100kB/s", patience=1)
            except px.TransferError as error:
                return type(error).__name__
            return ""

        named = [f"labpc = {address}"]
        with px.Grid(named, identity=lab.issue("user", "eve")).manager(
            contract=px.ParDegree(1), delegate="copies"
        ) as manager:
            copying = manager.submit(copy)
            until(lambda: "serving eve, who copies to" in board.stderr(), timeout=PATIENCE, what="the copy")
            lab.revoke(revoked, lab.folder / "board")
            assert copying.result(PATIENCE) == "TransferError"
        assert f"{revoked} was revoked" in board.stderr()
        assert not (shared / "data").exists()
    finally:
        for process in lab.started:
            process.kill()
