"""The interface for other languages: its document, and what it reads and writes as JSON."""

from __future__ import annotations

import ast
import functools
import json
import math
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import phalanx.api
import pytest
from conftest import Eventually
from openapi_spec_validator import validate
from phalanx._grids import Joined
from phalanx.api.application import DOCUMENT, Interface
from phalanx.api.copies import MOST_OF_USER, Copies, Copying
from phalanx.api.files import Served
from phalanx.api.logs import MOST_LINKS
from phalanx.api.logs import SHARE as LINKS_OF_USER
from phalanx.api.opened import Opened, Spaces, Taken
from phalanx.api.refusals import STATUSES, Refused, problem
from phalanx.api.spaces import SHARE, THREADS
from phalanx.api.tuples import MOST_ELEMENTS, TYPES, check_elements, read_template, read_tuple, write_tuple
from phalanx.api.users import MOST_AT_A_TIME, MOST_THREADS, Shares, Users
from phalanx.errors import TransferError
from phalanx.tes.at_hub import AtHub
from phalanx.tes.document import DocumentError
from phalanx.tes.files import Folders, ReadOnlyError
from starlette.routing import Route

SOURCES = sorted(Path(phalanx.api.__path__[0]).glob("*.py"))


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(DOCUMENT.read_text(encoding="utf-8"))


def test_the_document_is_openapi(document: Any) -> None:
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_each_route_is_in_the_document_and_no_other_one(document: Any, tmp_path: Path) -> None:
    joined = Joined("lab", tmp_path, "lab", ("127.0.0.1:1",), "0" * 64)
    interface = Interface(joined, AtHub(None), Folders([]))
    try:
        routes = [it for it in interface.application.routes if isinstance(it, Route)]
        served = {
            (method, it.path.replace(":path}", "}"))
            for it in routes
            for method in it.methods or ()
            # The framework answers HEAD wherever there is GET. Files, outputs and logs say their lengths so.
            if method != "HEAD" or it.path.startswith("/files") or "outputs" in it.path or it.path.endswith("{stream}")
        }
    finally:
        interface.close()
    described = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
        if method in ("get", "head", "put", "post", "delete")
    }
    assert served == described


def test_each_status_that_the_source_names_is_in_the_document(document: Any) -> None:
    described = {
        int(status) for item in document["paths"].values() for it in item.values() for status in it["responses"]
    }
    assert {*STATUSES.values()} <= described
    named = {
        (source.name, int(call.args[0].value))
        for source in SOURCES
        for call in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Refused"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, int)
    }
    assert len(named) > 20, "the source refuses in other words now"
    assert {status for _, status in named} <= described


def test_each_type_of_templates_is_in_the_document(document: Any) -> None:
    one, several = document["components"]["schemas"]["Formal"]["properties"]["type"]["oneOf"]
    assert sorted(one["enum"]) == sorted(several["items"]["enum"]) == sorted(TYPES)


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ((), []),
        (("a", 1, 1.0, True, None), ["a", 1, 1.0, True, None]),
        ((b"\0\xff",), [{"bytes": "AP8="}]),
        (([1, (2, [3])],), [[1, {"tuple": [2, [3]]}]]),
        ((math.inf, -math.inf), [{"float": "Infinity"}, {"float": "-Infinity"}]),
        ((2**100, "ä\U0001f600"), [2**100, "ä\U0001f600"]),
    ],
)
def test_a_tuple_is_the_same_after_it_was_written(fields: tuple[Any, ...], written: list[Any]) -> None:
    assert write_tuple(fields) == written
    again = read_tuple(json.loads(json.dumps(written)), "tuple")
    assert again == fields
    assert [type(it) for it in again] == [type(it) for it in fields]


def test_a_user_has_a_bounded_number_of_requests() -> None:
    users = Users(lambda token: None)
    with ExitStack() as asking:
        for _ in range(MOST_AT_A_TIME):
            asking.enter_context(users.asking("bob"))
        with pytest.raises(Refused) as raised, users.asking("bob"):
            pass
        assert raised.value.status == 429
        with users.asking("eve"):
            pass
    with users.asking("bob"):
        pass


def test_a_user_has_a_bounded_number_of_threads() -> None:
    users, most, now, lock = Users(lambda token: None), 0, 0, threading.Lock()

    def work() -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1

    async def ask() -> None:
        with users.asking("bob"):
            async with anyio.create_task_group() as group:
                for _ in range(3 * MOST_THREADS):
                    group.start_soon(users.thread, "bob", work)

    anyio.run(ask)
    assert most == MOST_THREADS


def test_a_user_cannot_hold_all_threads_for_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request beyond the share is refused after a while. What ends earlier work is not."""
    monkeypatch.setattr("phalanx.api.users.SHARE_PATIENCE", 0.05)
    shares, goes_on = Shares(4, 2, "spaces"), threading.Event()
    refused: list[Refused] = []

    async def ask() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(shares.run, "bob", goes_on.wait, 60)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(Refused) as raised:
                await shares.run("bob", str)
            refused.append(raised.value)
            assert await shares.run("eve", str, 1) == "1"
            goes_on_later = functools.partial(shares.run, "bob", str, refuses=False)
            group.start_soon(goes_on_later)
            await anyio.sleep(0.2)
            goes_on.set()
        assert await shares.run("bob", str, 2) == "2"
        assert not shares._rooms, "nothing is left of users who ask no more"

    anyio.run(ask)
    assert [(it.status, it.headers) for it in refused] == [(429, {"Retry-After": "0"})]
    assert "bob has 2 requests about spaces already" in str(refused[0])
    assert SHARE < THREADS / 2
    assert LINKS_OF_USER < MOST_LINKS / 2


def test_a_problem_with_half_of_a_surrogate_pair_is_told() -> None:
    assert json.loads(bytes(problem(400, "x\ud800: this field is not known here").body))["detail"].startswith(
        "x\\ud800"
    )
    with pytest.raises(Refused) as raised:
        read_tuple([{"\ud800": 1}], "tuple")
    str(raised.value).encode()


def test_elements_are_bounded_also_inside_of_others() -> None:
    many = [[[0] * (MOST_ELEMENTS // 4)] for _ in range(4)]
    with pytest.raises(Refused) as raised:
        check_elements({"tuples": many}, "the body")
    assert raised.value.status == 400
    check_elements({"tuples": many[:3]}, "the body")
    for fields in [(many,), ("x" * (5 << 20),), ([1 << 4000] * 10_000,)]:
        with pytest.raises(Refused, match="may have") as raised:
            write_tuple(fields)
        assert raised.value.status == 409


def test_a_refused_name_tells_nothing_of_what_is_outside(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "served")
    (tmp_path / "elsewhere").symlink_to("/etc/hidden-target")
    (tmp_path / "served" / "out").symlink_to("/etc/hidden-target")
    folders = Folders([f"{tmp_path}/named:ro"])
    try:
        for name in (f"{tmp_path}/served/a", f"{tmp_path}/named/a", f"{tmp_path}/named/b/../a"):
            assert folders.place(name, "path", writes=False)[1] == (tmp_path / "served" / "a").resolve()
        for name in ("elsewhere", "named/out", "named/../elsewhere", "\ud800"):
            with pytest.raises(DocumentError) as raised:
                folders.place(f"{tmp_path}/{name}", "path", writes=False)
            assert "hidden-target" not in str(raised.value)
        with pytest.raises(ReadOnlyError, match="reading only"):
            folders.place(f"{tmp_path}/named/a", "path", writes=True)
        for name, status in [("named/a", 403), ("elsewhere", 404), ("named", 404)]:
            with pytest.raises(Refused) as refused:
                Served(folders).place(f"{tmp_path}/{name}", "path", writes=True)
            assert refused.value.status == status
    finally:
        folders.close()


def test_all_spaces_are_closed_though_the_first_one_fails() -> None:
    closed: list[str] = []

    class Engine:
        members = ()

        def close(self) -> None:
            closed.append("closed")
            raise OSError("broken")

    spaces = Spaces(None)  # type: ignore[arg-type]  # nothing is opened
    for name in ("a", "b"):
        spaces._open["bob", "", name] = Opened(Engine())  # type: ignore[arg-type]
    spaces.close()
    assert closed == ["closed"] * 2


def test_the_end_waits_for_no_tuples_that_are_taken() -> None:
    """The thread is in one abort when the end comes, and begins no other one."""
    aborted, goes_on = threading.Event(), threading.Event()
    aborts: list[int] = []

    class Engine:
        members = ()

        def abort(self, number: int) -> None:
            aborts.append(number)
            aborted.set()
            goes_on.wait(60)

        def close(self) -> None:
            goes_on.set()

    spaces = Spaces(None)  # type: ignore[arg-type]  # nothing is opened
    opened = spaces._open["bob", "", "a"] = Opened(Engine())  # type: ignore[arg-type]
    with spaces._lock:
        late = time.monotonic()
        spaces._taken = {f"{number}": Taken("bob", opened, number, late) for number in range(50)}
        opened.uses = 50
    assert aborted.wait(60)
    spaces.close()
    assert not spaces._thread.is_alive()
    assert aborts == [0]


class Endless:
    """A copy that goes on until it is canceled."""

    def __init__(self) -> None:
        self.canceled = threading.Event()

    def wait(self, patience: float) -> None:
        if self.canceled.is_set():
            raise TransferError("the copy was canceled")

    def progress(self) -> tuple[int, int, bool]:
        return 1, 2, True

    def cancel(self) -> None:
        self.canceled.set()


def test_copies_are_bounded_and_end_with_the_membership(eventually: Eventually) -> None:
    members = {"bob", "eve"}
    copies = Copies(None, members.__contains__)  # type: ignore[arg-type]  # nothing is begun
    try:
        own = [Copying("bob", "a:/x", "b:/y", Endless()) for _ in range(MOST_OF_USER)]  # type: ignore[arg-type]
        hers = Copying("eve", "a:/x", "b:/y", Endless())  # type: ignore[arg-type]
        for copying in [*own, hers]:
            copies._check_room(copying.user, copying)
        with pytest.raises(Refused) as raised:
            copies._check_room("bob")
        assert (raised.value.status, raised.value.headers) == (429, {"Retry-After": "10"})
        copies._check_room("eve")
        members.remove("bob")
        eventually(lambda: all(it.ended for it in own), what="the end of the copies of bob")
        told = own[0].told()
        assert (told["state"], told["why"]) == ("CANCELED", "bob is no member of the grid any more")
        assert hers.told()["state"] == "RUNNING"
        own[0].ended = time.time() - 3601
        eventually(lambda: len(copies.of("bob")) == MOST_OF_USER - 1, what="the old one to be forgotten")
    finally:
        copies.close()
    assert hers.native.canceled.is_set()  # type: ignore[attr-defined]


def test_what_json_has_no_word_for_is_refused() -> None:
    assert math.isnan(read_tuple([{"float": "NaN"}], "tuple")[0])
    assert write_tuple((math.nan,)) == [{"float": "NaN"}]
    for fields in [(1, 2**5000), ({},), (object(),), ([{1}],)]:
        with pytest.raises(Refused) as raised:
            write_tuple(fields)
        assert raised.value.status == 409


def test_a_template_has_formals_also_in_tuples_and_not_in_lists() -> None:
    assert read_template([{"type": "integer"}, {"tuple": [{"type": "bytes"}]}], "template") == (int, (bytes,))
    assert read_template([{"type": ["integer", "null"]}], "template") == (int | None,)
    with pytest.raises(Refused, match=r"template\[0\]\[0\].type"):
        read_template([[{"type": "integer"}]], "template")
