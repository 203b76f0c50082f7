"""A user whom the machine knows by a number only: no account, no home folder, as in a container that was started so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from skips import require

UID = "12345"
PHALANX = str(Path(sys.executable).with_name("phalanx"))
# A home folder that belongs to another user: only its owner and the kernel's may look into it.
CLOSED = "/proc/1/cwd"
PROGRAM = """
import os
import phalanx as px

assert os.getuid() == 12345
with px.Manager(contract=px.ParDegree(1)) as manager:
    print(list(manager.compute(px.Farm(abs), [-1, -2])))
with px.Space() as own, px.Space(own.serve("127.0.0.1:0")) as reached:
    reached.out("here")
    print(own.in_(str))
"""
HOMES = pytest.mark.parametrize("home", [None, CLOSED], ids=["no home", "another's home"])


def run(folder: Path, home: str | None, *command: str) -> subprocess.CompletedProcess[str]:
    """A command of user 12345, whom no account names."""
    require("user namespaces")
    known = {"HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "PHALANX_HOME"}
    env = {name: value for name, value in os.environ.items() if name not in known}
    inside = ["unshare", "--user", f"--map-user={UID}", f"--map-group={UID}", *command]
    env |= {"HOME": home} if home else {}
    return subprocess.run(inside, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@HOMES
def test_programs_run(tmp_path: Path, home: str | None) -> None:
    done = run(tmp_path, home, sys.executable, "-c", PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2]\n('here',)\n", "")


@HOMES
def test_processes_that_pass_messages_run(tmp_path: Path, home: str | None) -> None:
    done = run(tmp_path, home, PHALANX, "mpirun", "-n", "2", "--no-prefix", "id", "-u")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{UID}\n" * 2, "")


@HOMES
@pytest.mark.parametrize(
    "arguments",
    [
        ("grid", "create"),
        ("grid", "create", "--home", "grid"),
        ("grid", "issue", "desk"),
        ("executor", "--listen", "127.0.0.1:0"),
        ("ls", "127.0.0.1:/"),
    ],
    ids=" ".join,
)
def test_what_needs_a_name_or_a_home_says_so(tmp_path: Path, home: str | None, arguments: tuple[str, ...]) -> None:
    done = run(tmp_path, home, PHALANX, *arguments)
    assert done.returncode
    assert done.stderr.startswith("phalanx: ")
    assert "Traceback" not in done.stderr
    assert any(word in done.stderr for word in ("PHALANX_HOME", "--user", "--home", "--identity", "grid create"))


@HOMES
def test_a_grid_is_made_in_a_folder_and_for_a_user_that_are_named(tmp_path: Path, home: str | None) -> None:
    done = run(tmp_path, home, PHALANX, "grid", "create", "--home", "grid", "--user", "alice")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "grid" / "user.pem").exists()
