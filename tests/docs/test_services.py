"""Services that the pages show: systemd accepts the units, launchd reads its file, and phalanx knows the options."""

from __future__ import annotations

import configparser
import plistlib
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from docs.pages import blocks
from phalanx.cli import commands
from skips import require

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "services.md"
TEXTS = [block.text for block in blocks(PAGE) if block.language == "text"]
UNITS = {"--system": TEXTS[0], "--user": TEXTS[1]}
PHALANX = str(Path(sys.executable).with_name("phalanx"))


def parse(words: list[str]) -> click.Context:
    """The options of a service, as phalanx reads them. Raises click.UsageError where it would refuse them."""
    group = commands.make_context("phalanx", [*words])
    name, command, rest = commands.resolve_command(group, words)
    assert command is not None
    return command.make_context(name, rest, parent=group)


def unit(text: str) -> configparser.RawConfigParser:
    read = configparser.RawConfigParser(strict=True)
    read.optionxform = str  # type: ignore[method-assign,assignment]
    read.read_string(text)
    return read


@pytest.mark.parametrize("kind", UNITS)
def test_a_unit_starts_an_executor(kind: str) -> None:
    words = shlex.split(unit(UNITS[kind])["Service"]["ExecStart"])
    assert words[0].endswith("/bin/phalanx")
    assert parse(words[1:]).params["listen"] == "0.0.0.0:7400"


@pytest.mark.parametrize("kind", UNITS)
def test_systemd_accepts_a_unit(kind: str, tmp_path: Path) -> None:
    require("systemd-analyze")
    command = shlex.split(unit(UNITS[kind])["Service"]["ExecStart"])[0]
    file = tmp_path / "phalanx-executor.service"
    file.write_text(UNITS[kind].replace(command, PHALANX))
    done = subprocess.run(["systemd-analyze", kind, "verify", file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "phalanx" in line]) == (0, [])


def test_launchd_reads_its_service() -> None:
    told = plistlib.loads(next(text for text in TEXTS if text.startswith("<?xml")).encode())
    path, *words = told["ProgramArguments"]
    assert path.endswith("/bin/phalanx")
    assert parse(words).params["accept"] == ("alice",), "without a cage, the executor serves one user"
