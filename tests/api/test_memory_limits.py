"""How much memory a server of spaces believes that it may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from phalanx.space import _serve

MACHINE = 64 << 30


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    """A file system of control groups: of version 2 at the top, of version 1 in `memory`."""
    for folder, name, text in [
        ("system.slice/spaces.service", "memory.max", "max\n"),
        ("system.slice", "memory.max", "2147483648\n"),
        ("memory/docker/abc", "memory.limit_in_bytes", "1073741824\n"),
        ("memory", "memory.limit_in_bytes", "9223372036854771712\n"),
    ]:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("groups", "least"),
    [
        ("0::/system.slice/spaces.service\n", 2 << 30),
        ("0::/user.slice\n", MACHINE),
        ("5:cpu,memory:/docker/abc\n4:cpuset:/\n0::/\n", 1 << 30),
        ("0::/../../elsewhere\n", MACHINE),
        ("", MACHINE),
        ("no group\n", MACHINE),
    ],
)
def test_the_least_limit_of_a_group_and_those_around_it_counts(limits: Path, groups: str, least: int) -> None:
    file = limits / "groups"
    file.write_text(groups)
    assert min([MACHINE, *_serve.group_limits(file, limits)]) == least


def test_a_system_without_groups_has_no_limits(tmp_path: Path) -> None:
    assert list(_serve.group_limits(tmp_path / "none", tmp_path)) == []
    assert _serve.memory() >= 1 << 20
