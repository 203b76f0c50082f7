"""`phalanx completion`: the script that a shell reads, and what it then completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
#: What bash calls when Tab is pressed behind some words, and what it would offer.
ASK = """
eval "$(phalanx completion bash)"
COMP_WORDS=({words}) COMP_CWORD={last}
_phalanx_completion phalanx
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def run(*command: str) -> str:
    env = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("phalanx mpi", ["mpicc", "mpicxx", "mpirun"]),
        ("phalanx grid re", ["renew", "request", "revoke"]),
        ("phalanx cp --level pri", ["private"]),
    ],
)
def test_bash_completes_commands_and_words_of_options(words: str, expected: list[str]) -> None:
    script = ASK.format(words=words, last=len(words.split()) - 1)
    assert run("bash", "--norc", "-c", script).split() == expected


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete --")])
def test_each_shell_has_a_script(shell: str, word: str) -> None:
    script = run("phalanx", "completion", shell)
    assert word in script
    assert f"_PHALANX_COMPLETE={shell}_complete" in script
