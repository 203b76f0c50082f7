"""Spaces between machines: what a listener can read, who may do what, and which links a secure space takes."""

from __future__ import annotations

import secrets

from cluster.grid import PATIENCE, PHALANX, Grid
from cluster.spaces import Use, serve

EVERYWHERE = "10.77.0.0/16"


def test_links_are_private_unless_the_network_is_trusted(grid: Grid) -> None:
    far, near = serve(grid, "far"), serve(grid, "near", "--trusted", EVERYWHERE)
    marker = secrets.token_hex(500)
    with far.host.cable.capture() as by_far, near.host.cable.capture() as by_near:
        private = Use(grid, far.space(), "put", texts=[marker])
        clear = Use(grid, near.space(), "put", texts=[marker], trusted=[EVERYWHERE])
        assert private.first("put") == clear.first("put") == 1
    assert (private.first("level"), clear.first("level")) == ("private", "clear")
    assert by_near.saw(marker[:32].encode()), "a clear link can be read, or this test proves nothing"
    assert not by_far.saw(marker[:32].encode())


def test_a_server_is_not_talked_into_a_weaker_level(grid: Grid) -> None:
    server = serve(grid, "left")
    rules = grid.desk.home / "rules.toml"
    rules.write_text('[[rule]]\nnever = "safe"\n[[rule]]\nnever = "private"\n')
    kind, text = Use(grid, server.space(), "put", texts=["x"], rules=str(rules)).first("error")
    assert kind == "PolicyError"
    assert "this end takes clear, authenticated, the other safe, private" in text


def test_a_secure_space_is_private_where_others_are_only_safe(grid: Grid) -> None:
    """Under `marked` links are safe, which everybody can read; what is in a secure space nobody can."""
    server = serve(grid, "left")
    made = grid.phalanx("space", "create", server.space("secret"), "--secure", "--policy", "marked")
    assert "private" in made.stdout()
    marker, other = secrets.token_hex(500), secrets.token_hex(500)
    with server.host.cable.capture() as capture:
        secret = Use(grid, server.space("secret"), "put", texts=[marker], policy="marked")
        plain = Use(grid, server.space("plain"), "put", texts=[other], policy="marked")
        assert secret.first("put") == plain.first("put") == 1
    assert (secret.first("level"), plain.first("level")) == ("private", "safe")
    assert capture.saw(other[:32].encode()), "a safe link can be read, or this test proves nothing"
    assert not capture.saw(marker[:32].encode())


def test_a_secure_space_refuses_links_that_others_can_read(grid: Grid) -> None:
    server = serve(grid, "left")
    grid.phalanx("space", "create", server.space("secret"), "--secure")
    rules = grid.desk.home / "rules.toml"
    rules.write_text('[[rule]]\nnever = "private"\n')
    weak = Use(grid, server.space("secret"), "put", texts=["x"], rules=str(rules))
    kind, text = weak.first("error")
    assert kind == "AccessError"
    assert "the space is secure" in text
    assert Use(grid, server.space("plain"), "put", texts=["x"], rules=str(rules)).first("level") == "safe"


ACCESS = """
[[rule]]
space = "tasks"
user = "ada"
may = ["out", "rd", "in", "create"]

[[rule]]
space = "tasks"
user = ["bob"]
first = "found"
may = ["out", "rd"]
"""


def test_users_do_what_the_rules_say_and_nothing_else(grid: Grid) -> None:
    access = grid.desk.home / "access.toml"
    access.write_text(ACCESS)
    server = serve(grid, "left", "--access", str(access))
    everything = dict.fromkeys(["out", "out found", "rd", "rd found", "in", "all"], True)
    assert Use(grid, server.space(), "try", user="ada").first("allowed") == everything
    bobs = {**dict.fromkeys(everything, False), "out found": True, "rd found": True}
    assert Use(grid, server.space(), "try", user="bob").first("allowed") == bobs
    for user, space in (("mallory", "tasks"), ("bob", "other")):
        kind, text = Use(grid, server.space(space), "try", user=user).first("error")
        assert kind == "AccessError"
        assert "not allowed" in text


GROUPS = """
[[group]]
name = "lab"
members = ["ada", "bob"]

[[rule]]
may = ["out", "rd", "in", "create"]

[[rule]]
space = "news"
role = "executor"
may = ["rd"]
"""


def test_a_space_of_a_group_is_for_its_members_and_read_by_nobody_on_the_way(grid: Grid) -> None:
    access = grid.desk.home / "access.toml"
    access.write_text(GROUPS)
    server = serve(grid, "left", "--access", str(access))
    marker = secrets.token_hex(500)
    with server.host.cable.capture() as capture:
        put = Use(grid, server.space("plans"), "put", user="ada", group="lab", texts=[marker], policy="marked")
        assert put.first("put") == 1
        assert Use(grid, server.space("plans"), "take", user="bob", policy="marked").first("got") == ["task", 0, marker]
    assert put.first("level") == "private"
    assert not capture.saw(marker[:32].encode())
    for options in ({}, {"group": "lab"}, {"group": "others"}, {"create": False}):
        kind, text = Use(grid, server.space("plans"), "put", user="mallory", texts=["x"], **options).first("error")
        assert kind == "AccessError"
        assert "mallory is no member" in text
    assert Use(grid, server.space("open"), "put", user="mallory", texts=["x"]).first("put") == 1
    kind, text = Use(grid, server.space("open"), "put", user="ada", group="lab", texts=["x"]).first("error")
    assert kind == "AccessError"
    assert "is there already, and is not the group lab's" in text


def test_members_in_another_role_do_what_rules_for_it_say(grid: Grid) -> None:
    access = grid.desk.home / "access.toml"
    access.write_text(GROUPS)
    server = serve(grid, "left", "--access", str(access))
    assert Use(grid, server.space("news"), "put", user="ada", texts=["x"]).first("put") == 1
    machine = str(grid.issue("far-pc", role="executor"))
    allowed = Use(grid, server.space("news"), "try", identity=machine).first("allowed")
    assert allowed == {"out": False, "out found": False, "rd": True, "rd found": True, "in": False, "all": True}
    strict = serve(grid, "right")
    kind, text = Use(grid, strict.space("news"), "try", identity=machine).first("error")
    # It may ask how transactions have ended, and nothing else.
    assert (kind, text) == ("AccessError", "not allowed: nothing in the space news")
    assert "far-pc" not in strict.process.stderr()


def test_a_server_serves_only_users_that_it_accepts(grid: Grid) -> None:
    server = serve(grid, "left", "--accept", "ada")
    assert Use(grid, server.space(), "rate", user="ada").first("served") == 100
    kind, text = Use(grid, server.space(), "rate", user="bob").first("error")
    assert kind == "SpaceError"
    assert "refused" in text
    assert "the user bob is not among those accepted here" in server.process.stderr()


def test_rules_that_cannot_be_read_are_named(grid: Grid) -> None:
    access = grid.desk.home / "access.toml"
    access.write_text('[[rule]]\nmay = ["write"]\n')
    refused = grid.desk.run(
        [PHALANX, "space", "serve", "--access", access], env=grid.env, check=False, timeout=PATIENCE
    )
    assert refused.code == 1
    assert "unknown variant `write`" in refused.stderr()
