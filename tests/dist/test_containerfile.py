"""The Containerfile: what it names exists, and phalanx knows its default command.

Building it needs a container engine.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import click
from phalanx.cli import commands

ROOT = Path(__file__).parents[2]
#: The instructions of Containerfiles that ours may have.
KNOWN = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR"}


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its words."""
    lines = [line for line in (ROOT / "Containerfile").read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    return [
        (name, " ".join(words.split()))
        for name, _, words in (line.partition(" ") for line in text.splitlines())
        if name
    ]


def last(name: str) -> str:
    return [words for known, words in instructions() if known == name][-1]


def test_it_has_known_instructions_and_stages() -> None:
    assert {name for name, _ in instructions()} <= KNOWN
    stages = re.findall(r"FROM \$\{BASE\} AS (\w+)", "\n".join(f"{name} {words}" for name, words in instructions()))
    assert re.findall(r"--from=(\w+)", last("COPY")) == stages


def test_shells_can_read_what_it_runs() -> None:
    for words in (words for name, words in instructions() if name == "RUN"):
        subprocess.run(["sh", "-n"], input=words, text=True, check=True)


def test_phalanx_knows_its_default_command() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["phalanx"]
    name, *options = json.loads(last("CMD"))
    with click.Context(commands) as group:
        executor = commands.get_command(group, name)
        assert executor is not None
        listen = executor.make_context(name, options).params["listen"]
    assert listen == f"0.0.0.0:{last('EXPOSE')}"


def test_it_does_not_run_as_root_and_any_number_can_write_at_home() -> None:
    number, group = last("USER").split(":")
    assert int(number) > 0, "Kubernetes believes numbers only"
    assert group == "0", "OpenShift's containers are in group 0"
    environment = dict(word.split("=", 1) for word in shlex.split(last("ENV")))
    assert environment["HOME"] == environment["PHALANX_HOME"] == last("WORKDIR")
    assert re.search(rf"--owner {number} --group 0 --mode 0770 {environment['HOME']}$", last("RUN"))


def test_what_is_ignored_is_not_needed_to_build() -> None:
    patterns = [line.lstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("/")]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    ignored = {
        name.split("/")[0]
        for name in listed.split("\0")
        for pattern in patterns
        if f"{name}/".startswith(f"{pattern}/")
    }
    assert ignored == {"fuzz"}
