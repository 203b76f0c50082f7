"""Which earlier wheels `make dist` tries together with a new one."""

from __future__ import annotations

import re
from pathlib import Path

from distribution.release import neighbours

TAGS = "cp311-abi3-manylinux_2_28_x86_64.whl"


def folder(at: Path, *names: str) -> Path:
    for name in names:
        (at / name).write_text(name)
    return at


def test_wheels_of_the_same_minor_version_and_kind_are_tried(tmp_path: Path) -> None:
    names = [f"phalanx_grid-{version}-{TAGS}" for version in ("0.2.0", "0.2.1", "0.1.9", "0.20.0")]
    others = [name.replace("abi3", "cp311") for name in names]
    at = folder(tmp_path, *names, *others, "click-8.1-py3-none-any.whl")
    near, far = neighbours.chosen(Path(f"phalanx_grid-0.2.2-{TAGS}"), at)
    assert [it.name for it in near] == names[:2]
    assert [bool(re.search(r"0\.1\.9|0\.20\.0", it)) for it in far] == [True, True]


def test_where_there_is_none_the_table_says_so(tmp_path: Path) -> None:
    near, far = neighbours.chosen(Path(f"phalanx_grid-0.2.2-{TAGS}"), tmp_path)
    assert near == []
    assert far == [f"together with an earlier version: dist/{tmp_path.name}/ has no wheel of this MAJOR.MINOR"]
    near, far = neighbours.chosen(Path(f"phalanx_grid-0.2.2-{TAGS}"), folder(tmp_path, f"phalanx_grid-0.1.9-{TAGS}"))
    assert (near, len(far)) == ([], 2)


def test_another_wheel_is_another_state(tmp_path: Path) -> None:
    empty = neighbours.state(tmp_path)
    assert neighbours.state(folder(tmp_path, f"phalanx_grid-0.2.0-{TAGS}")) != empty
