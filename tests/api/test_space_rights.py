"""Who may open and use spaces that are served: rules, groups, shares. All links prove who is at their ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from conftest import Eventually
from phalanx import _native
from phalanx.space import _serve

from laboratory import identities
from laboratory.grid import PHALANX

RULES = """
[[group]]
name = "lab"
members = ["ada", "bob"]

[[rule]]
group = "lab"
space = "lab.*"
may = ["out", "rd", "in", "create"]

[[rule]]
space = "board"
may = ["rd"]

[[rule]]
user = ["ada", "mallory"]
space = "plans.*"
may = ["out", "rd", "in", "create"]

[[rule]]
user = "ada"
may = ["out", "create"]
"""

Reach = Callable[..., px.Space]


@pytest.fixture
def authority() -> str:
    return _native.create_grid()


@pytest.fixture
def reach(authority: str, links: px.Rules, tmp_path: Path) -> Iterator[Reach]:
    """Opens a space as a user; what was opened is closed at the end."""
    with ExitStack() as opened:

        def open_as(user: str, address: str, **options: Any) -> px.Space:
            identity = tmp_path / f"{user}.pem"
            identities.write(identity, _native.issue_member(authority, "user", user))
            return opened.enter_context(px.Space(address, identity=identity, policy=links, **options))

        yield open_as


def serve(authority: str, links: px.Rules, folder: Path, **options: Any) -> _native.SpaceServer:
    identities.write(folder / "labpc.pem", _native.issue_member(authority, "executor", "labpc"))
    (folder / "access.toml").write_text(RULES)
    options = {"access": folder / "access.toml", **options}
    return _serve.start(f"unix:{folder / 's'}", identity=folder / "labpc.pem", policy=links, **options)


@pytest.fixture
def server(authority: str, links: px.Rules, tmp_path: Path) -> Iterator[str]:
    served = serve(authority, links, tmp_path)
    yield served.address
    served.close()


def test_rules_are_about_users_and_groups(server: str, reach: Reach) -> None:
    ada, bob = reach("ada", f"{server}/lab.a"), reach("bob", f"{server}/lab.a")
    ada.out("x", 1)
    assert bob.in_("x", int) == ("x", 1)
    with pytest.raises(px.AccessError, match=r"nothing in the space lab\.a"):
        reach("mallory", f"{server}/lab.a")
    reach("ada", f"{server}/board").out("news", 1)
    board = reach("mallory", f"{server}/board")
    assert board.rdp("news", int) == ("news", 1)
    with pytest.raises(px.AccessError, match="not allowed: out"):
        board.out("news", 2)
    with pytest.raises(PermissionError):
        board.inp("news", int)


def test_a_space_of_a_group_is_its_members_and_stays_so(server: str, reach: Reach) -> None:
    ada = reach("ada", f"{server}/plans.a", group="lab")
    ada.out("plan", 1)
    options = ada.info().options
    assert (options["group"], options["maker"], options["secure"]) == ("lab", "ada", True)
    for words in ({}, {"group": "lab"}, {"group": "others"}, {"create": False}):
        with pytest.raises(px.AccessError, match=r"the space plans\.a is a group's, of which mallory is no member"):
            reach("mallory", f"{server}/plans.a", **words)
    assert reach("ada", f"{server}/plans.a").info().options["group"] == "lab"
    with pytest.raises(px.AccessError, match="no member"):
        reach("mallory", f"{server}/plans.b", group="lab")
    with pytest.raises(px.AccessError, match="no member"):
        reach("ada", f"{server}/plans.b", group="others")
    reach("mallory", f"{server}/plans.c")
    with pytest.raises(px.AccessError, match="is there already, and is not the group lab's"):
        reach("ada", f"{server}/plans.c", group="lab")


def test_a_space_of_a_group_is_so_again_after_a_restart(
    authority: str, links: px.Rules, reach: Reach, tmp_path: Path
) -> None:
    served = serve(authority, links, tmp_path, directory=tmp_path / "kept")
    reach("ada", f"{served.address}/plans.a", group="lab", durable=True).out("plan", 1)
    served.close()
    served = serve(authority, links, tmp_path, directory=tmp_path / "kept")
    with pytest.raises(px.AccessError, match="mallory is no member"):
        reach("mallory", f"{served.address}/plans.a")
    assert reach("ada", f"{served.address}/plans.a").inp("plan", int) == ("plan", 1)
    served.close()


def test_a_lease_is_renewed_by_its_user_after_a_restart(
    authority: str, links: px.Rules, reach: Reach, tmp_path: Path
) -> None:
    (tmp_path / "all.toml").write_text('[[rule]]\nmay = ["out", "rd", "create"]\n')
    options = {"directory": tmp_path / "kept", "access": tmp_path / "all.toml"}
    served = serve(authority, links, tmp_path, **options)
    first = reach("ada", f"{served.address}/todo", durable=True)
    lease = first.out("here", lease=600)
    assert lease is not None
    number = lease._number
    served.close()
    served = serve(authority, links, tmp_path, **options)
    ada, bob = reach("ada", f"{served.address}/todo"), reach("bob", f"{served.address}/todo")
    assert not bob.engine.renew(number, 0.0)
    assert ada.engine.renew(number, 600.0)
    assert bob.count("here") == 1
    served.close()


def test_a_space_of_this_process_can_be_a_groups_where_others_open_it(tmp_path: Path) -> None:
    with px.Space(group="lab") as owner:
        address = owner.serve(f"unix:{tmp_path / 's'}")
        with px.Space(address, group="lab") as own:
            own.out("mine")
        assert owner.info().options["secure"]
        with pytest.raises(px.AccessError, match="not the group others's"):
            px.Space(address, group="others")


def test_one_user_who_takes_a_share_leaves_the_others_theirs(
    authority: str, links: px.Rules, reach: Reach, tmp_path: Path, eventually: Eventually
) -> None:
    served = serve(authority, links, tmp_path, access=None, sessions=12, spaces=8, user_share=50)
    for number in range(4):
        reach("ada", f"{served.address}/{number}")
    with pytest.raises(px.SpaceFullError, match="4 spaces made by one user"):
        reach("ada", f"{served.address}/5")
    reach("ada", f"{served.address}/3")
    eventually(lambda: _is_turned_away(reach, f"{served.address}/0"))
    bob = reach("bob", f"{served.address}/5")
    bob.out("x")
    with px.Transaction(bob):
        pass
    served.close()


def _is_turned_away(reach: Reach, address: str) -> bool:
    try:
        reach("ada", address)
    except px.SpaceFullError as error:
        return "6 clients of one user" in str(error)
    return False


def test_what_a_template_may_be(tmp_path: Path) -> None:
    with px.Space() as owner, px.Space(owner.serve(f"unix:{tmp_path / 's'}")) as space:
        space.out("x", bytes(3 << 20))
        assert space.count("x", bytes(3 << 20)) == 1
        with pytest.raises(px.SpaceError, match="bytes of a template beside its values are more than the limit"):
            space.count("x", px.where() == bytes(3 << 20))
        query = px.where() == 0
        for number in range(1, 40):
            query |= px.where() == number
        with pytest.raises(px.SpaceError, match="64 operations"):
            space.count("x", query)
        assert space.count("x", bytes) == 1


def test_a_space_of_a_group_is_made_on_the_command_line(tmp_path: Path) -> None:
    with px.Space() as owner:
        address = owner.serve(f"unix:{tmp_path / 's'}", name="plans")
        made = subprocess.run(
            [PHALANX, "space", "create", address, "--group", "lab"], capture_output=True, text=True, timeout=60
        )
        assert made.returncode == 1
        assert "is there already, and is not the group lab's" in made.stderr
    with px.Space(group="lab") as owner:
        address = owner.serve(f"unix:{tmp_path / 'g'}", name="plans")
        told = subprocess.run([PHALANX, "space", "info", address, "--json"], capture_output=True, timeout=60)
        assert json.loads(told.stdout)["options"]["group"] == "lab"


def test_a_damaged_authority_is_named_with_its_file(authority: str, tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.touch(mode=0o600)
    for text in (authority[:100], authority[100:], "\xe4"):
        file.write_text(text, encoding="latin-1")
        done = subprocess.run(
            [PHALANX, "grid", "issue", "labpc", "--home", str(tmp_path)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1, text
        assert str(file) in done.stderr
        assert "Traceback" not in done.stderr
