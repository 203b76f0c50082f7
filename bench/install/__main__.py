"""From nothing to the first result, beside Ray and Dask: `make bench-install`, or `python -m bench.install`.

A wheel of `make dist` and both peers, which are downloaded, take turns in the same run. bench/README.md says how each
figure is taken.
"""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles

from bench.install.trials import Environment, Peer, Seconds, TrialError
from bench.peers import command
from bench.peers.figures import shown
from bench.peers.processes import Strangers
from bench.peers.table import grid, verdict

_TOP = Path(__file__).resolve().parents[2]
_PINS = _TOP / "requirements" / "bench.txt"
#: A figure by its name: what it is, its unit, and what phalanx must reach. Less is better in all of them.
_FIGURES = {
    "import": ("import, above a bare start of Python", "ms", 60.0),
    "import_cpu": ("… processor time", "ms", None),
    "bare": ("a bare start of Python", "ms", None),
    "warm": ("empty environment to first result, downloads cached", "s", 20.0),
    "warm_install": ("… of which installing", "s", None),
    "warm_program": ("… of which the program, its bytecode not compiled", "s", None),
    "cold": ("empty environment to first result, nothing cached", "s", 20.0),
    "again": ("the program again", "s", None),
    "size": ("installed", "MB", 45.0),
}
Samples = dict[str, list[float]]


def main() -> None:
    """Measure and print the tables."""
    parser = command.table_parser("from an empty environment to the first result")
    parser.add_argument("--wheel", type=Path, help="the wheel to install [default: the one in dist/ for this Python]")
    options = parser.parse_args()
    peers = _peers(options.wheel or _wheel())
    warm, cold, imports = (1, 1, 3) if options.quick else (5, 3, 15)
    strangers = Strangers()
    results: dict[str, Samples] = {peer.title: {} for peer in peers}
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-install-") as folder:
        places = {peer.title: Path(folder, str(at)) for at, peer in enumerate(peers)}
        environments: dict[str, Environment] = {}
        for turn in range(cold + warm):
            kind = "cold" if turn < cold else "warm"
            for peer in peers:
                command.say(f"{strangers.seconds:5.0f} s  {kind}: {peer.title}")
                # An empty cache for each cold turn; warm turns have that of the last one.
                cache = places[peer.title] / f"cache-{min(turn, cold - 1)}"
                environments[peer.title] = Environment(places[peer.title] / "environment", cache)
                _add(results[peer.title], kind, environments[peer.title].first_result(peer))
        for peer in peers:
            _use(environments[peer.title], peer, results[peer.title], warm)
        command.say(f"{strangers.seconds:5.0f} s  imports")
        for _ in range(imports):
            for peer in peers:
                _import(environments[peer.title], peer, results[peer.title])
    facts = {"requirements": [peer.requirement for peer in peers], "results": results}
    report = _report(results, [peer.requirement for peer in peers])
    command.conclude(report, strangers, rounds=warm, file=options.json, facts=facts)


def _peers(wheel: Path) -> list[Peer]:
    pins = dict(re.findall(r"(?m)^(ray|distributed)==(\S+)", _PINS.read_text()))
    return [
        Peer("phalanx", str(wheel), "phalanx", "on_phalanx.py"),
        Peer("Dask", f"distributed=={pins['distributed']}", "distributed", "on_dask.py"),
        Peer("Ray", f"ray=={pins['ray']}", "ray", "on_ray.py"),
    ]


def _wheel() -> Path:
    kind = "cp310" if sys.version_info < (3, 11) else "abi3"
    found = sorted(_TOP.glob(f"dist/phalanx_grid-*{kind}*_{platform.machine()}.whl"))
    if not found:
        raise TrialError('there is no wheel in dist/, make one: make dist ARGS="--machine x86_64"')
    return found[-1]


def _use(environment: Environment, peer: Peer, samples: Samples, times: int) -> None:
    """The program again, where it has run before."""
    samples["size"] = [environment.megabytes]
    samples["again"] = [environment.first_result(peer).program for _ in range(times)]


def _import(environment: Environment, peer: Peer, samples: Samples) -> None:
    bare, imported = environment.milliseconds("pass"), environment.milliseconds(f"import {peer.imports}")
    _put(samples, "bare", bare.elapsed)
    _put(samples, "import", imported.elapsed - bare.elapsed)
    _put(samples, "import_cpu", imported.cpu - bare.cpu)


def _add(samples: Samples, kind: str, taken: Seconds) -> None:
    _put(samples, kind, sum(taken))
    if kind == "warm":
        _put(samples, "warm_install", taken.install)
        _put(samples, "warm_program", taken.program)


def _put(samples: Samples, name: str, value: float) -> None:
    samples.setdefault(name, []).append(value)


def _report(results: dict[str, Samples], requirements: list[str]) -> str:
    ours = results["phalanx"]
    others = {title: samples for title, samples in results.items() if title != "phalanx"}
    head = ("what", "phalanx", "the better of the others", "ratio", "reach", "verdict")
    lines = [_line(name, ours[name], others) for name in _FIGURES if name != "bare"]
    everything = [(_FIGURES[name][0], *(_spread(samples[name], name) for samples in results.values()))
                  for name in _FIGURES]  # fmt: skip
    python = f"Python {sys.version.split()[0]}; {', '.join(Path(it).name for it in requirements)}"
    return "\n\n".join([grid(head, lines), grid(("medians [quartiles]", *results), everything), python])


def _line(name: str, ours: list[float], others: dict[str, Samples]) -> tuple[str, ...]:
    what, unit, reach = _FIGURES[name]
    title, theirs = min(((title, median(samples[name])) for title, samples in others.items()), key=lambda it: it[1])
    mine = median(ours)
    words = [] if reach is None else [verdict(mine, reach, False)]
    if mine > theirs:
        words.append(f"{title} wins")
    return (
        what,
        shown(mine, unit),
        f"{title}: {shown(theirs, unit)}",
        f"{theirs / mine:.1f} × better",
        "-" if reach is None else f"≤ {reach:g} {unit}",
        ", ".join(words) or "-",
    )


def _spread(values: list[float], name: str) -> str:
    unit = _FIGURES[name][1]
    if len(values) < 2:
        return shown(values[0], unit)
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{shown(middle, unit)} [{shown(low, '')}, {shown(high, '')}]"


if __name__ == "__main__":
    command.run(main, TrialError)
