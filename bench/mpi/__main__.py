"""Message passing beside MPICH and Open MPI: `make bench-mpi`, or `python -m bench.mpi` from the top.

Both come from PyPI, each into an environment of its own, and take turns with ours in the same run. bench/README.md
says how each figure is taken.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.mpi.cores import Cores
from bench.mpi.libraries import OURS, PEERS
from bench.mpi.rows import ROWS, Figure, Row, Samples
from bench.mpi.runs import Failure, Runs
from bench.mpi.settings import FULL, QUICK
from bench.peers import command
from bench.peers.figures import shown
from bench.peers.processes import Strangers
from bench.peers.table import grid, verdict
from bench.peers.versions import versions

_HEAD = ("what", OURS.title, *(peer.title for peer in PEERS), "ours / better", "reach", "verdict")


def main() -> None:
    """Measure what was asked for and print the table."""
    options = command.table_parser("message passing beside MPICH and Open MPI", ROWS).parse_args()
    settings = QUICK if options.quick else FULL
    results: dict[str, Samples] = {}
    strangers = Strangers()
    with tempfile.TemporaryDirectory(prefix="bench-mpi-") as folder:
        runs, cores = Runs(Path(folder)), Cores(Path(folder), measured=not options.quick)
        for name in options.only:
            command.say(f"{strangers.seconds:5.0f} s  {name}")
            results[name] = ROWS[name].measure(settings, runs, cores)
    facts = {"versions": _versions(), "settings": settings._asdict(), "results": results}
    report = "\n".join(filter(None, [_report(results), str(cores)]))
    command.conclude(report, strangers, rounds=settings.rounds, file=options.json, facts=facts)


def _report(results: dict[str, Samples]) -> str:
    lines = [
        _line(ROWS[row], figure, results[row][name]) for row in results for name, figure in ROWS[row].figures.items()
    ]
    machine = ", ".join(f"{name} {version}" for name, version in _versions().items())
    reasons = {
        f"not measured, {way}: {library.title}: {reason}"
        for row in results
        for library in (OURS, *ROWS[row].peers)
        if (reason := library.missing(way := ROWS[row].way)) and (library is OURS or way != "private")
    }
    return "\n\n".join([grid(_HEAD, lines), "\n".join([*sorted(reasons), machine])])


def _line(row: Row, figure: Figure, samples: dict[str, list[float]]) -> tuple[str, ...]:
    medians = {title: median(values) for title, values in samples.items()}
    ours = medians.get(OURS.title)
    theirs = {peer.title: medians[peer.title] for peer in row.peers if peer.title in medians}
    better = (max if figure.higher_is_better else min)(theirs.values()) if theirs else None
    ratio = ours / better if ours is not None and better is not None else None
    sign, unit = "≥" if figure.higher_is_better else "≤", "×" if figure.relative else figure.unit
    words = []
    if figure.reach is not None:
        words.append(verdict(ratio if figure.relative else ours, figure.reach, figure.higher_is_better))
    if ratio is not None and (ratio < 1 if figure.higher_is_better else ratio > 1):
        words.append(f"behind {' and '.join(_winners(theirs, ours, figure.higher_is_better))}")
    return (
        figure.what,
        shown(ours, figure.unit),
        *(shown(theirs.get(peer.title), figure.unit) for peer in PEERS),
        "-" if ratio is None else f"{ratio:.2f} ×",
        "-" if figure.reach is None else f"{sign} {figure.reach:g} {unit}",
        ", ".join(words) or "-",
    )


def _winners(theirs: dict[str, float], ours: float | None, higher_is_better: bool) -> list[str]:
    """Who does better than we."""
    if ours is None:
        return []
    return [title for title, value in theirs.items() if (value > ours if higher_is_better else value < ours)]


def _versions() -> dict[str, str]:
    found = {name: version for name, version in versions().items() if name in {"python", "machine", "phalanx", "numpy"}}
    for peer in PEERS:
        if peer.missing(""):
            continue
        name = peer.title.lower().replace(" ", "")
        files = list((Path(sys.prefix) / name / "lib").glob(f"python*/site-packages/{name}-*.dist-info"))
        found[name] = files[0].name.removeprefix(f"{name}-").removesuffix(".dist-info") if files else "unknown"
    return found


if __name__ == "__main__":
    command.run(main, Failure, subprocess.TimeoutExpired)
