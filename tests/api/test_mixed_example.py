"""The survey of examples/mixed with executors on one machine. On several: tests/cluster/test_mixed_example.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from api.executors import Executors
from api.survey import PROGRAM, STARS, check, frames_in

PATIENCE = 100


def test_four_models_use_one_identity_on_one_machine(tmp_path: Path) -> None:
    light, home, shared = frames_in(tmp_path / "frames", STARS), tmp_path / "home", tmp_path / "shared"
    home.mkdir()
    shared.mkdir()
    with Executors(tmp_path) as grid:
        lines = [f"ws7 = {grid.start('ws7')}", f"ws8 = {grid.start('ws8', '--export', f'{shared}:rw')}"]
        grid.need_cages()
        (tmp_path / "hosts.txt").write_text("\n".join(lines))
        (home / "user.pem").write_bytes(grid.identity.read_bytes())
        (home / "user.pem").chmod(0o600)
        command = [sys.executable, str(PROGRAM), "hosts.txt", f"ws8:{shared}", "frames", "measured"]
        env = {**os.environ, "PHALANX_HOME": str(home)}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    check(done.stdout, tmp_path / "measured", light)
