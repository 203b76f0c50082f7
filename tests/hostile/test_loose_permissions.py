"""Files that decide what is protected are refused if other accounts may write them, with the command that mends it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import phalanx as px
import pytest
from hostile.accounts import as_another


def test_another_account_decides_nothing_in_a_hosts_file(place: Path) -> None:
    file = place / "hosts of the lab.txt"
    file.write_text("ws7 = 127.0.0.1:7417\n")
    assert px.Hosts(file).trusted == []
    file.chmod(0o666)
    as_another("sh", "-c", 'echo "ws7 = 127.0.0.1:7418 as evil" > "$1"', "sh", file)
    with pytest.raises(
        px.RecruitError, match="every account of this machine may write it; mend that with: "
    ) as refused:
        px.Hosts(file)
    command = shlex.split(str(refused.value).rpartition("with: ")[2])
    subprocess.run(command, check=True)
    assert list(px.Hosts(file).machines.values()) == ["127.0.0.1:7418"], "its owner knows what it says"
    with pytest.raises(subprocess.CalledProcessError):
        as_another("sh", "-c", 'echo "trusted 0.0.0.0/0" >> "$1"', "sh", file)
