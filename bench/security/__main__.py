"""The price of security: `python -m bench.security` from the top of the repository.

Links between two processes at each level, beside the machine's limits; null tasks and grains of a farm with private
links beside one with clear links, and beside a hand-written loop over pipes with and without Python's TLS; and a mixed
grid beside a clear one. bench/README.md says how each figure is taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.peers import command
from bench.peers.table import grid, verdict
from bench.peers.versions import versions
from bench.security.arrays import LEVELS, array_rates
from bench.security.mixed import clear_share

_TOP = Path(__file__).resolve().parents[2]
_LINKS = ["cargo", "bench", "--quiet", "-p", "phalanx-net", "--bench", "levels", "--"]
_PEERS = "phalanx,phalanx-private,pipes,pipes-tls"


class Line(NamedTuple):
    """A figure that phalanx wants to reach: a ratio of two that were measured in the same run."""

    what: str
    ours: str
    theirs: str
    ratio: float
    reach: float
    higher_is_better: bool = True


def main() -> None:
    """Measure everything and print the tables."""
    options = command.table_parser("what each level of security costs").parse_args()
    quick = ["--quick"] if options.quick else []
    links = json.loads(_run([*_LINKS, *quick]))
    arrays = array_rates(turns=1 if options.quick else 7, count=100 if options.quick else 600)
    peers = _peers(quick)
    mixed = clear_share(turns=1 if options.quick else 7, seconds=1.0 if options.quick else 3.0)
    print(_report({name: median(values) for name, values in links.items()}, arrays, peers, mixed))
    if options.json:
        everything = {"links": links, "arrays": arrays, "peers": peers, "mixed": mixed, "versions": versions()}
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


def _run(words: Sequence[str]) -> str:
    command.say(" ".join(words))
    return subprocess.run(words, cwd=_TOP, stdout=subprocess.PIPE, text=True, check=True).stdout


def _peers(quick: list[str]) -> dict[str, Any]:
    """Null tasks and grains, with the same harness as the farm beside its peers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "peers.json")
        rows = ["--peers", _PEERS, "--only", "null", "--only", "grain", "--json", str(file)]
        _run([sys.executable, "-m", "bench.peers.farm", *rows, *quick])
        results: dict[str, Any] = json.loads(file.read_text())["results"]
    return results


def _report(
    links: dict[str, float], arrays: dict[str, list[float]], peers: dict[str, Any], mixed: dict[str, list[float]]
) -> str:
    head = ("what", "ours", "the other side", "ratio", "reach", "verdict")
    lines = [
        _line(line) for line in (*_array_lines(arrays), *_link_lines(links), *_farm_lines(peers), _mixed_line(mixed))
    ]
    notes = [
        f"a full handshake: {links['handshake CPU us']:.0f} µs CPU of both sides; resumed: "
        f"{links['resumed handshake CPU us']:.0f} µs; the client sends after one round trip in either case",
        ", ".join(f"{name} {version}" for name, version in versions().items() if version != "absent"),
    ]
    return "\n\n".join([grid(head, lines), grid(("level", "MB/s", "CPU s/GB", "MB/s at 10 Gbit/s"), _levels(links)),
                        grid(("limit of one core", "MB/s"), _limits(links)), "\n".join(notes)])  # fmt: skip


def _array_lines(arrays: dict[str, list[float]]) -> list[Line]:
    reaches = {"private": 0.6, "safe": 0.72, "authenticated": 0.95}
    rates = {level: median(values) for level, values in arrays.items()}

    def line(level: str) -> Line:
        pairs = median(one / clear for one, clear in zip(arrays[level], arrays["clear"], strict=True))
        return Line(f"{level} / clear, arrays of 1 MB through compute", f"{rates[level]:.0f} MB/s",
                    f"clear: {rates['clear']:.0f} MB/s", pairs, reaches[level])  # fmt: skip

    private = Line("private, the same", f"{rates['private']:.0f} MB/s", "2.5 GB/s", rates["private"] / 2500, 1.0)
    return [line("private"), private, line("safe"), line("authenticated")]


def _link_lines(links: dict[str, float]) -> list[Line]:
    def rate(name: str) -> float:
        return links[f"{name} MB/s"]

    def line(level: str, reach: float, shaped: str = "") -> Line:
        ours, clear = rate(level + shaped), rate("clear" + shaped)
        what = f"{level} / clear, bare link, 1 MB messages{shaped}"
        return Line(what, f"{ours:.0f} MB/s", f"clear: {clear:.0f} MB/s", ours / clear, reach)

    shaped = " at 10 Gbit/s"
    private = rate("private")
    return [
        line("private", 0.6),
        Line("private, the same", f"{private:.0f} MB/s", "2.5 GB/s", private / 2500, 1.0),
        line("private", 0.99, shaped),
        line("safe", 0.72),
        line("safe", 0.99, shaped),
        line("authenticated", 0.95),
    ]


def _farm_lines(peers: dict[str, Any]) -> list[Line]:
    rates = {name: median(rows["null"]["rate"]) for name, rows in peers.items()}
    grains = {name: median(rows["grain"]["grain_ms"]) for name, rows in peers.items()}

    def null(what: str, ours: str, theirs: str, reach: float) -> Line:
        return Line(f"null tasks, {what}", f"{rates[ours]:.0f} /s", f"{rates[theirs]:.0f} /s",
                    rates[ours] / rates[theirs], reach)  # fmt: skip

    def grain(what: str, ours: str, theirs: str, reach: float) -> Line:
        return Line(f"grain of 90 %, {what}", f"{grains[ours]:.3f} ms", f"{grains[theirs]:.3f} ms",
                    grains[ours] / grains[theirs], reach, False)  # fmt: skip

    own = "private / clear", "phalanx-private", "phalanx"
    beside = "loop over pipes, Python's TLS / clear", "pipes-tls", "pipes"
    lines = [null(*own, 0.9), grain(*own, 1.2)]
    if beside[1] not in peers:  # it is not installed, and the farm's benchmark has said so
        return lines
    return [lines[0], null(*beside, 0.0), lines[1], grain(*beside, float("inf"))]


def _mixed_line(mixed: dict[str, list[float]]) -> Line:
    ours, theirs = median(mixed["mixed"]), median(mixed["clear"])
    pairs = median(one / other for one, other in zip(mixed["mixed"], mixed["clear"], strict=True))
    return Line(
        "clear link in a mixed grid / in a clear one", f"{ours:.0f} tasks/s", f"{theirs:.0f} tasks/s", pairs, 0.97
    )


def _line(line: Line) -> tuple[str, ...]:
    sign = "≥" if line.higher_is_better else "≤"
    a_reach = line.reach not in (0.0, float("inf"))
    met = verdict(line.ratio, line.reach, line.higher_is_better) if a_reach else "a peer"
    return (
        line.what,
        line.ours,
        line.theirs,
        f"{line.ratio:.2f} ×",
        f"{sign} {line.reach:g} ×" if a_reach else "-",
        met,
    )


def _levels(links: dict[str, float]) -> list[tuple[str, ...]]:
    rows = [(level, links[f"{level} MB/s"], links[f"{level} CPU s/GB"], links[f"{level} at 10 Gbit/s MB/s"])
            for level in LEVELS]  # fmt: skip
    raw = ("bare TCP", f"{links['raw MB/s']:.0f}", f"{links['raw CPU s/GB']:.2f}", "-")
    return [raw, *((name, f"{rate:.0f}", f"{cpu:.2f}", f"{shaped:.0f}") for name, rate, cpu, shaped in rows)]


def _limits(links: dict[str, float]) -> list[tuple[str, ...]]:
    names = ("memcpy", "AEGIS-128X2 MAC", "AES-128-GCM seal")
    return [(name, f"{links[f'{name} MB/s']:.0f}") for name in names]


if __name__ == "__main__":
    command.run(main, subprocess.CalledProcessError)
