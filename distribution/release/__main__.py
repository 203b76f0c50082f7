"""``make dist``: makes wheels and the source distribution in ``dist/``, checks them, and prints a table.

Takes seconds when nothing has changed since they passed. ``--machine x86_64`` makes the wheels of one machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from distribution.release import building, inspection, neighbours, publishing, pythons, trying
from distribution.release.roots import Root, Unusable
from distribution.release.toolchain import MACHINES, WORK, Machine

#: Where a source distribution is built, and one-line commands run.
USUAL = "3.11"
_STATE = WORK / "state.json"
_START = time.monotonic()


@dataclass
class Row:
    """A file, its bytes as it is and installed, the checks that it passed, that failed, and that could not be run."""

    file: str
    size: int
    installed: int
    passed: list[str]
    failed: list[str]
    missing: list[str]


def main() -> int:
    """Makes and checks everything; returns 1 if something failed."""
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--machine", choices=MACHINES, action="append", help="only the wheels of this machine")
    chosen = parser.parse_args().machine or [*MACHINES]
    WORK.mkdir(parents=True, exist_ok=True)
    key = f"{building.state()} {neighbours.state()} {' '.join(chosen)}"
    try:
        rows = _known(key) or _made([MACHINES[name] for name in chosen])
    except building.BuildError as error:
        raise SystemExit(f"make dist: {error}") from error
    failed = any(row.failed for row in rows)
    if not failed:
        publishing.write([building.OUT / row.file for row in rows if row.size], building.OUT)
        _STATE.write_text(json.dumps({"key": key, "rows": [asdict(row) for row in rows]}))
    _show(rows)
    return int(failed)


def _known(key: str) -> list[Row] | None:
    """What passed the last time, if everything is as it was then."""
    if not _STATE.exists():
        return None
    told = json.loads(_STATE.read_text())
    if told["key"] != key:
        return None
    rows = [Row(**row) for row in told["rows"]]
    whole = all(
        (building.OUT / row.file).exists() and (building.OUT / row.file).stat().st_size == row.size for row in rows
    )
    return rows if whole else None


def _made(machines: list[Machine]) -> list[Row]:
    """Builds and checks all."""
    _say("the source distribution")
    source = building.source()
    rows = [Row(source.name, source.stat().st_size, 0, [], [], [])]
    wheels = {}
    for machine in machines:
        if reason := machine.lacks():
            rows.append(Row(f"(no wheel for {machine.name})", 0, 0, [], [], [reason]))
            continue
        for kind in building.kinds(machine):
            _say(f"{kind} for {machine.name}")
            wheels[machine.name, kind] = building.wheel(machine, kind)
            rows.append(_row(wheels[machine.name, kind], machine, kind))
    if own := wheels.get(("x86_64", "cp311-abi3")):
        _add(rows[0], _of_source(source, own))
    return rows


def _row(wheel: Path, machine: Machine, kind: str) -> Row:
    _say(f"checks of {wheel.name}")
    row = Row(wheel.name, wheel.stat().st_size, inspection.installed_size(wheel), [], [], [])
    try:
        row.passed += inspection.inspect(wheel, machine)
    except inspection.Flaw as flaw:
        row.failed.append(str(flaw))
    _add(row, _trials(wheel, machine, kind))
    return row


def _trials(wheel: Path, machine: Machine, kind: str) -> Iterator[trying.Trial | str]:
    """The wheel in every Python that it is for; in words, where one is not to be had."""
    if machine.name == "aarch64":
        if kind == "cp310-cp310":
            yield "CPython 3.10, aarch64: no Debian has it"
        else:
            yield _in_root(wheel, machine, pythons.EMULATED)
        return
    for version in pythons.VERSIONS:
        if (version == "3.10") != (kind == "cp310-cp310"):
            continue
        if python := pythons.find(version):
            yield trying.in_environment(wheel, python, version)
        elif root := pythons.ROOTS.get(version):
            yield _in_root(wheel, machine, root)
        else:
            yield f"CPython {version}: neither this machine nor a Debian has it"
    if kind != "cp310-cp310":
        yield trying.as_one_line(wheel, pythons.find(USUAL) or Path(sys.executable))
        yield from neighbours.trials(wheel, pythons.find(USUAL) or Path(sys.executable))


def _in_root(wheel: Path, machine: Machine, root: Root) -> trying.Trial | str:
    try:
        return trying.in_root(wheel, machine, root)
    except Unusable as reason:
        return f"{root.python} of Debian {root.suite}, {machine.name}: {reason}"


def _of_source(source: Path, wheel: Path) -> Iterator[trying.Trial | str]:
    _say("a wheel from the source distribution")
    if python := pythons.find(USUAL):
        yield trying.from_source(source, wheel, python, USUAL)
    else:
        yield f"CPython {USUAL}: not on this machine"


def _add(row: Row, trials: Iterator[trying.Trial | str]) -> None:
    for trial in trials:
        if isinstance(trial, str):
            row.missing.append(trial)
            continue
        _say(f"{trial.where}: {'; '.join(trial.lines)}")
        row.failed += [f"{trial.where}: {it}" for it in trial.named("failed")]
        absent = f", not {', '.join(it.split(':')[0] for it in trial.named('absent'))}" if trial.named("absent") else ""
        if not trial.named("failed"):
            row.passed.append(f"{trial.where} ({len(trial.named('passed'))} uses{absent})")


def _say(what: str) -> None:
    """Says what has begun or ended, with the seconds since the start: on the clock, and of all processors."""
    times = os.times()
    used = times.user + times.system + times.children_user + times.children_system
    print(f"make dist: [{time.monotonic() - _START:.0f} s, {used:.0f} s] {what}", file=sys.stderr, flush=True)


def _show(rows: list[Row]) -> None:
    """The table, and below it what each file passed, failed, and what could not be run."""
    width = max(len(row.file) for row in rows)
    print(f"{'file':{width}}  {'MB':>5}  {'installed':>9}  checks")
    for row in rows:
        checks = f"{len(row.passed)} passed" + (f", {len(row.failed)} FAILED" if row.failed else "")
        checks += f", {len(row.missing)} not run" if row.missing else ""
        installed = f"{row.installed / 1e6:9.1f}" if row.installed else " " * 9
        print(f"{row.file:{width}}  {row.size / 1e6:5.1f}  {installed}  {checks}")
    for row in rows:
        print(f"\n{row.file}")
        for word, found in (("passed", row.passed), ("FAILED", row.failed), ("not run", row.missing)):
            for it in found:
                print(f"  {word}: {it}")


if __name__ == "__main__":
    sys.exit(main())
