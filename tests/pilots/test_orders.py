"""What executors of pilots are told, and what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.errors import IdentityError
from phalanx.pilots._order import Order
from skips import require

GOOD = Order("phalanx1-abc", 2, exports=("/data:ro",), name="n1", seconds=60)


def test_an_order_travels() -> None:
    assert Order.read(GOOD.line()) == GOOD
    for member in ((), ("ada", "eve")):
        order = GOOD._replace(member=member)
        assert Order.read(order.line()) == order


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[" * 100_000,
        b"{}",
        b"[1]\n",
        *(
            json.dumps({**GOOD._asdict(), name: value}).encode()
            for name, value in [
                ("token", ""),
                ("token", "a b"),
                ("token", 5),
                ("interpreters", 0),
                ("interpreters", True),
                ("interpreters", 10**9),
                ("cage", "iron"),
                ("cage", []),
                ("exports", "/data:ro"),
                ("exports", [5]),
                ("silence", 0),
                ("silence", float("inf")),
                ("silence", "20"),
                ("name", None),
                ("seconds", -1),
                ("member", "me"),
                ("member", [5]),
                ("more", 1),
            ]
        ),
    ],
)
def test_what_is_no_order_is_refused(line: bytes) -> None:
    with pytest.raises(IdentityError, match="no order of a pilot"):
        Order.read(line)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_bytes(GOOD.line())
    file.chmod(0o644)
    result = CliRunner().invoke(commands, ["pilot", str(file)])
    assert isinstance(result.exception, IdentityError)
    assert "other users may use it" in str(result.exception)
    missing = CliRunner().invoke(commands, ["pilot", str(tmp_path / "none")])
    assert "no order in" in str(missing.exception)


def test_a_file_of_another_account_is_refused(tmp_path: Path) -> None:
    """Its author could have this account run an executor for another program."""
    require("root")
    file = tmp_path / "order.json"
    file.write_bytes(GOOD.line())
    file.chmod(0o600)
    os.chown(file, 65534, -1)
    result = CliRunner().invoke(commands, ["pilot", str(file)])
    assert isinstance(result.exception, IdentityError)
    assert "order of another account (number 65534)" in str(result.exception)
