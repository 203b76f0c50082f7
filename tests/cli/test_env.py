"""Secrets in the environment of ranks."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

PHALANX = str(Path(sys.executable).with_name("phalanx"))

LOOK = """
import os, pathlib
secret = os.environ["SECRET"]
shown = []
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        shown += [process.name for _ in [0] if secret.encode() in (process / "cmdline").read_bytes()]
    except OSError:
        pass  # it has just ended
print(secret, len(shown))
"""


def test_a_variable_taken_from_the_environment_is_in_no_command_line(tmp_path: Path) -> None:
    secret = f"{random.getrandbits(128):x}"
    script = tmp_path / "look.py"
    script.write_text(LOOK)
    command = [PHALANX, "mpirun", "-n", "2", "--no-prefix", "--env", "SECRET", sys.executable, str(script)]
    done = subprocess.run(
        command, env={**os.environ, "SECRET": secret}, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [f"{secret} 0"] * 2


def test_the_help_says_how_a_secret_is_handed_on() -> None:
    for command in ("mpirun", "bsprun"):
        done = subprocess.run([PHALANX, command, "--help"], capture_output=True, text=True, check=True, timeout=60)
        text = " ".join(done.stdout.split())
        assert "write a secret so, because other users of this machine can read command lines" in text
