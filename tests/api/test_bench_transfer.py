"""The benchmark of bulk transfer runs from end to end: our side alone where its peers are not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.transfer import gridftp, rclone, ssh

TOP = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("runtime_folder")


def bench(*options: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.transfer", "--quick", *options]
    environment = {**os.environ, "PYTHONPATH": str(TOP), **({"PATH": path} if path else {})}
    return subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, timeout=100)


def test_rows_are_measured_beside_their_peers(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench("--only", "setup", "--only", "small", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout
    results = json.loads(file.read_text())["results"]
    for name, figure in (("setup", "setup"), ("small", "files")):
        found = results[name]
        assert all(sample[figure] > 0 for samples in found["samples"].values() for sample in samples)
        for peer, titles in ((gridftp, ["GridFTP", "globus"]), (rclone, ["rclone"]), (ssh, ["tar", "ssh"])):
            there = [title for title in found["samples"] if any(word in title for word in titles)]
            assert bool(there) == (peer.missing() is None), found["reasons"]


def test_peers_that_are_absent_are_named_with_the_package_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = bench("--only", "small", path=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "small files, private" in done.stdout
    for package in ("openssh-server", "rclone", "globus-gridftp-server-progs"):
        assert f"Debian: {package}" in done.stdout
    assert "not measured" in done.stdout
