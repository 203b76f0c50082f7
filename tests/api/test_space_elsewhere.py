"""Spaces at servers of other kinds: a package brings the engine, and the address's scheme finds it."""

from __future__ import annotations

from pathlib import Path

import phalanx as px
import pytest
from phalanx.space import _elsewhere

ENGINE = """
from phalanx import _native

def engine(address, objects, options):
    assert address == "memory+here://any/name"
    return _native.LocalSpace(options, objects)
"""


def test_a_package_brings_the_engine_for_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "memory_spaces-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: memory-spaces\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[phalanx.spaces]\nmemory+here = memory_spaces:engine\n")
    (tmp_path / "memory_spaces.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(tmp_path)
    with px.Space("memory+here://any/name") as space:
        space.out("n", 1)
        assert space.inp("n", int) == ("n", 1)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+unix", "redis+cluster"])
def test_without_its_package_an_address_says_what_to_install(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_elsewhere, "entry_points", lambda **_: ())
    with pytest.raises(px.SpaceError, match=r"pip install 'phalanx-grid\[redis\]'"):
        px.Space(f"{scheme}://localhost:6379/0/name")


def test_machines_and_unix_sockets_have_no_scheme() -> None:
    for address in ("redis1:7400/jobs", "redis:7400/jobs", "unix://tmp/socket", "hosts.txt/jobs", "[::1]:7400/jobs"):
        assert not _elsewhere.is_elsewhere(address), address
    assert _elsewhere.is_elsewhere("redis+unix:///tmp/socket/0/jobs")
