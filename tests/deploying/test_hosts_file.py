"""A machine's line in a hosts file."""

from __future__ import annotations

from pathlib import Path

import pytest
from phalanx.deploying import hosts_file
from phalanx.errors import DeployError
from phalanx.hosts import Hosts


def test_lines_are_added_replaced_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    assert hosts_file.add(file, "ws7", "10.0.0.7:7400")
    assert not hosts_file.add(file, "ws7", "10.0.0.7:7400"), "it is there already"
    assert hosts_file.add(file, "ws8", "[fe80::1]:7400")
    file.write_text(f"# the lab\nlab 7400\n{file.read_text().replace('10.0.0.7:7400', '10.0.0.7:7400  # by the door')}")
    file.chmod(0o640)
    assert hosts_file.add(file, "ws7", "10.0.0.9:7500")
    assert file.read_text() == "# the lab\nlab 7400\nws7 = 10.0.0.9:7500  # by the door\nws8 = [fe80::1]:7400\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert Hosts(file).machines["ws7"] == "10.0.0.9:7500"
    assert hosts_file.remove(file, "ws7")
    assert not hosts_file.remove(file, "ws7")
    assert file.read_text() == "# the lab\nlab 7400\nws8 = [fe80::1]:7400\n"


def test_a_file_without_further_lines_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    hosts_file.add(file, "ws7", "10.0.0.7:7400")
    assert hosts_file.remove(file, "ws7")
    assert list(tmp_path.iterdir()) == []


def test_two_members_at_one_address_leave_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("ws7 = 10.0.0.7:7400\n")
    with pytest.raises(DeployError, match=r"hosts\.txt would be no hosts file"):
        hosts_file.add(file, "ws8", "10.0.0.7:7400")
    assert file.read_text() == "ws7 = 10.0.0.7:7400\n"
    assert list(tmp_path.iterdir()) == [file]
