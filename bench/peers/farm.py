"""phalanx and its peers side by side: `python -m bench.peers.farm` from the top of the repository.

Every peer is measured in fresh processes, two interpreters each, start-up excluded;
bench/README.md says how each figure is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers import command
from bench.peers.processes import Strangers, adopt_orphans, end_descendants
from bench.peers.registry import PEERS, ROWS, missing
from bench.peers.settings import FULL, QUICK, Settings
from bench.peers.table import report
from bench.peers.versions import versions

Samples = dict[str, dict[str, Any]]

_TOP = Path(__file__).resolve().parents[2]
_TIMEOUT = 300.0


def main() -> None:
    """Measure what was asked for and print the table."""
    options = _options()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder  # whatever peers leave behind goes with it
        results, facts = _run(options)
    print(report(results, facts))
    if options.json:
        options.json.write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")


def _run(options: argparse.Namespace) -> tuple[dict[str, Samples], dict[str, Any]]:
    """Return the samples of each peer and row, and what is to be known about the run."""
    settings = QUICK if options.quick else FULL
    results: dict[str, Samples] = {}
    strangers = Strangers()
    for name, rows, repeats in _plan(_present(options.peers), options.only, settings):
        command.say(f"{strangers.seconds:5.0f} s  {PEERS[name].title}: {', '.join(ROWS[row] for row in rows)}")
        samples = _first(name) if rows == ["first"] else _measure(name, rows, settings._replace(repeats=repeats))
        _merge(results.setdefault(name, {}), samples)
    seconds, (others, stolen) = strangers.seconds, strangers.percents()
    return results, {
        "versions": versions(),
        "seconds": seconds,
        "others_percent": others,
        "stolen_percent": stolen,
        "settings": settings._asdict(),
    }


def _options() -> argparse.Namespace:
    """Read the command line."""
    parser = command.table_parser("phalanx and its peers side by side", ROWS)
    parser.add_argument("--peers", metavar="LIST", default=",".join(PEERS), help=",".join(PEERS))
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    if unknown := set(options.peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    return options


def _present(names: list[str]) -> list[str]:
    """Return the peers that are installed, and say which are not."""
    for name in names:
        if lacking := missing(name):
            command.say(f"absent: {PEERS[name].title} is skipped, not installed: {', '.join(lacking)}")
    return [name for name in names if not missing(name)]


def _plan(names: list[str], rows: list[str], settings: Settings) -> Iterator[tuple[str, list[str], int]]:
    """Yield who measures which rows next, and with how many repeats.

    Those that start fast take turns, row by row, so that what is compared was measured within seconds; those
    that start slowly do all their rows at once.
    """
    for row in ROWS:
        for _ in range(settings.repeats if row in rows else 0):
            for name in names:
                if row in PEERS[name].rows and (row == "first" or not PEERS[name].heavy):
                    yield name, [row], 1
    for name in names:
        at_once = [row for row in rows if row in PEERS[name].rows and row != "first"]
        if PEERS[name].heavy and at_once:
            yield name, at_once, settings.repeats


def _measure(name: str, rows: list[str], settings: Settings) -> Samples:
    """Return the samples of the rows, taken in a fresh process; nothing when it fails, which is said."""
    if PEERS[name].heavy:
        settings = settings._replace(pipeline_tasks=settings.pipeline_tasks // 4)
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder, "out.json"), Path(folder, "log")
        try:
            with log.open("w") as stream:
                subprocess.run(
                    _command("run_one", name, json.dumps(settings._asdict()), str(out), *rows),
                    **_surroundings(), stdout=stream, stderr=stream, timeout=_TIMEOUT, check=True,
                )  # fmt: skip
        except subprocess.SubprocessError as error:
            what = "did not stop by itself" if out.exists() else "failed"
            command.say(f"{PEERS[name].title} {what}, {type(error).__name__}:\n{log.read_text()[-1000:]}")
        finally:
            end_descendants()
        return json.loads(out.read_text()) if out.exists() else {}


def _first(name: str) -> Samples:
    """Return the time (s) from starting a script to reading its first result."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        _command("first_result", name),
        **_surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    try:
        answered, _, _ = select.select([process.stdout], [], [], _TIMEOUT)
        line = process.stdout.readline() if answered else ""
        elapsed = time.perf_counter() - begin
    finally:
        end_descendants()
        process.communicate()
    if not line.strip().isdigit():
        command.say(f"{PEERS[name].title} failed: no first result")
        return {}
    return {"first": {"s": [elapsed]}}


def _command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this folder."""
    return [sys.executable, "-m", f"bench.peers.{module}", *arguments]


def _surroundings() -> dict[str, Any]:
    """Return where and in which environment peers run: this repository importable, their commands found."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"cwd": _TOP, "env": {**os.environ, "PATH": path, "PYTHONPATH": str(_TOP)}}


def _merge(into: Samples, samples: Samples) -> None:
    """Append the samples of each row to those of earlier rounds."""
    for row, figures in samples.items():
        kept = into.setdefault(row, {})
        for name, value in figures.items():
            kept[name] = kept[name] + value if isinstance(kept.get(name), list) else value


if __name__ == "__main__":
    try:
        command.run(main)
    finally:
        end_descendants()
