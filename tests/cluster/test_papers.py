"""The experiments of the papers run from end to end: machines in namespaces, one tiny figure."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.grid import Grid

from bench.transfer import gridftp
from laboratory.lab import Lab

TOP = Path(__file__).parents[2]


def muskel(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.papers.muskel", *options]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=100)


def test_a_figure_is_measured_tabled_and_drawn(lab: Lab, tmp_path: Path) -> None:
    done = muskel("--only", "fig5", "--scale", "tiny", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    kinds = {"md", "json"} | ({"png", "svg"} if importlib.util.find_spec("matplotlib") else set())
    assert set(done.stdout.split()) == {f"{tmp_path}/fig5.{kind}" for kind in kinds}
    assert all(path.stat().st_size > 500 for path in tmp_path.iterdir())
    mixes = json.loads((tmp_path / "fig5.json").read_text())["mixes"]
    assert {mix["data"] for mix in mixes} == {"Small", "Large", "Huge"}
    for data in ("Small", "Large", "Huge"):
        some = [mix for mix in mixes if mix["data"] == data]
        # As the policy has decided the levels, not as the benchmark has planned the machines.
        assert [(mix["local"], mix["remote"]) for mix in some] == [(2, 0), (1, 1), (0, 2)]
    for mix in mixes:
        assert all(sum(local + remote) == pytest.approx(1) for local, remote in
                   zip(mix["local_shares"], mix["remote_shares"], strict=True))  # fmt: skip
        assert 0 < mix["samples"][0] <= 2.2
        assert f"| {mix['local']} + {mix['remote']} " in (tmp_path / "fig5.md").read_text()


def test_the_same_command_measures_machines_of_a_hosts_file(grid: Grid, tmp_path: Path) -> None:
    lab, user = grid.desk.lab, f"{grid.desk.address}/32"
    near = grid.executor(lab.host("near"), options=["--trusted", user])
    machines = [near, grid.executor(lab.host("far", lab.site("router")), options=["--trusted", user])]
    hosts = tmp_path / "hosts.txt"
    lines = [f"{executor.host.address} {executor.port}  # of the test" for executor in machines]
    hosts.write_text("\n".join(["# machines", f"trusted {near.host.address}/32", *lines, ""]))
    command = [sys.executable, "-m", "bench.papers.muskel", "--hosts", str(hosts), "--only", "fig5", "--scale", "tiny"]
    grid.desk.run([*command, "--out", str(tmp_path)], env={**grid.env, "PYTHONPATH": str(TOP)}, timeout=100)
    measured = json.loads((tmp_path / "fig5.json").read_text())
    assert measured["work"] == "busy"  # each machine has cores of its own, as far as anybody can tell
    assert {(mix["local"], mix["remote"]) for mix in measured["mixes"]} == {(2, 0), (1, 1), (0, 2)}


def test_who_cannot_have_namespaces_is_told_what_to_do(lab: Lab, tmp_path: Path) -> None:
    program = (
        "import os, runpy, sys; os.geteuid = lambda: 1000; runpy.run_module('bench.papers.muskel', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert "sudo" in done.stderr
    assert "--hosts" in done.stderr


@pytest.mark.usefixtures("runtime_folder")
def test_a_case_study_runs_in_all_settings_with_private_links_between_machines(lab: Lab, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.papers.linda", "--quick", "--only", "matrix-blocks", "--out", str(tmp_path)]
    raw = tmp_path / "raw"
    done = subprocess.run([*command, "--raw", str(raw)], cwd=TOP, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    points = json.loads((tmp_path / "matrix-blocks.json").read_text())["points"]
    assert {(point["place"], point["crew"]) for point in points} == {
        (place, crew) for place in ("threads", "processes", "machines") for crew in (1, 5)
    }
    for point in points:
        (run,) = point["runs"]
        assert 0 < run["remote reading time"] < run["total time"]
    # Each process has written a file of its own, named after its machine.
    files = [path.name for path in raw.glob("*-5-machines-0/*")]
    assert len(files) == 6
    assert {f"crew{number}" for number in range(5)} <= {name.split("-")[0] for name in files}
    assert "| machines" in (tmp_path / "matrix-blocks.md").read_text()


@pytest.mark.usefixtures("runtime_folder")
def test_tables_and_figures_of_copies_are_measured_beside_gridftp(lab: Lab, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.papers.gridftp", "--quick", "--counts", "1", "--out", str(tmp_path)]
    chosen = ["--only", "fig1-safe", "--only", "fig2"]
    done = subprocess.run([*command, *chosen], cwd=TOP, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    systems = {"phalanx"} | (set() if gridftp.missing() else {"gridftp"})
    heat, stripes = (json.loads((tmp_path / f"{name}.json").read_text())["samples"] for name in ("fig1-safe", "fig2"))
    assert {(cell["system"], cell["level"], cell["streams"]) for cell in heat} == {(one, "safe", 1) for one in systems}
    assert {(cell["system"], cell["stripes"]) for cell in stripes} == {(one, n) for one in systems for n in (1, 2)}
    assert all(rate > 0 for cell in (*heat, *stripes) for rate in cell["gigabytes_per_second"])
    for cell in stripes:
        # Each stripe has a line of 1 Gbit/s, headers included: more than that, and the line was not there.
        assert all(rate < 0.125 * 1.2 * cell["stripes"] for rate in cell["gigabytes_per_second"])
