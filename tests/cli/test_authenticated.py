"""What an attacker can do at the level ``authenticated`` is said wherever the level is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import phalanx as px
import pytest
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.words import AUTHENTICATED

CAN = "an attacker on the wire can read and change"


def words(text: str) -> str:
    return " ".join(text.split())


def shown(*command: str) -> str:
    done = CliRunner().invoke(commands, command)
    assert done.exit_code == 0, done.output
    return words(done.output)


@pytest.fixture
def hosts(tmp_path: Path) -> str:
    file = tmp_path / "hosts.txt"
    file.write_text("192.0.2.40 7400\n")
    return str(file)


def test_explain_says_what_it_leaves_to_an_attacker(hosts: str) -> None:
    assert words(AUTHENTICATED) in shown("explain", hosts, "--policy", "marked", "--takes", "clear")
    assert CAN not in shown("explain", hosts), "nothing is authenticated there"
    rows = json.loads(CliRunner().invoke(commands, ["explain", hosts, "--policy", "marked", "--json"]).output)
    assert rows[0]["level"] == "safe", "the table for programs is as it was"


@pytest.mark.parametrize("command", ["cp", "ls", "rm", "cat", "sync", "mpirun", "bsprun", "explain"])
def test_the_help_of_every_command_with_levels_says_it(command: str) -> None:
    text = shown(command, "--help")
    assert AUTHENTICATED in text
    assert "what is not marked is only authenticated" in text


@pytest.mark.parametrize("what", [px.Manager, px.copy, px.Rules, px.Grid.files])
def test_what_is_called_with_a_level_says_it(what: object) -> None:
    assert CAN in words(what.__doc__ or "")


def test_a_policy_that_gives_it_is_announced_with_it() -> None:
    [announced] = px._native.weaker(("marked", [], None))
    assert CAN in announced
