"""The tables: what phalanx must reach and whether it does, and every figure of every peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.figures import CLAIMS, FIGURES, Claim, best, measured, shown, title
from bench.peers.processes import DISTURBED_PERCENT
from bench.peers.registry import PEERS


def report(results: dict[str, Any], facts: dict[str, Any]) -> str:
    """Return both tables as text, with what they were measured on."""
    parts = [
        grid(("what", "phalanx", "the other side", "ratio", "reach", "verdict"), _verdicts(results)),
        grid(("peer", *(figure.title for figure in FIGURES.values())), _everything(results)),
        *_notes(results, facts),
    ]
    return "\n\n".join(part for part in parts if part)


def _verdicts(results: dict[str, Any]) -> list[Sequence[str]]:
    """Return a line for each claim that was measured."""
    return [_verdict(claim, results, ours) for claim in CLAIMS
            if (ours := measured(results, claim.ours, claim.figure)) is not None]  # fmt: skip


def _verdict(claim: Claim, results: dict[str, Any], ours: float) -> Sequence[str]:
    """Return both sides, their ratio, and by how much the claim is met or missed."""
    figure = FIGURES[claim.figure]
    other = best(results, claim.theirs, claim.figure)
    ratio = ours / other[1] if other and ours != float("inf") else None
    value = ratio if claim.relative else ours
    sign = "≥" if figure.higher_is_better else "≤"
    return (
        claim.what,
        shown(ours, figure.unit),
        f"{title(other[0])}: {shown(other[1], figure.unit)}" if other else "not measured",
        shown(ratio, "×"),
        f"{sign} {claim.reach:g} {'×' if claim.relative else figure.unit}".strip(),
        verdict(value, claim.reach, figure.higher_is_better),
    )


def verdict(value: float | None, reach: float, higher_is_better: bool) -> str:
    """Say whether the value reaches it, and if not by which part of the reach it falls short."""
    if value is None:
        return "not measured"
    if value >= reach if higher_is_better else value <= reach:
        return "met"
    return f"short by {abs(value / reach - 1) * 100:.0f} %" if value != float("inf") else "short by far"


def _everything(results: dict[str, Any]) -> list[Sequence[str]]:
    """Return a line for each peer."""
    return [
        (
            title(peer),
            *(shown(measured(results, peer, name), figure.unit) for name, figure in FIGURES.items()),
        )
        for peer in PEERS
        if peer in results
    ]


def _notes(results: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Return what one must know to judge the figures."""
    lines = [", ".join(f"{name} {version}" for name, version in facts["versions"].items())]
    others, stolen = facts["others_percent"], facts["stolen_percent"]
    lines.append(
        f"medians of {facts['settings']['repeats']}, {facts['seconds']:.0f} s; meanwhile others used "
        f"{others:.0f} % of this machine's cores, and {stolen:.0f} % was taken from outside"
    )
    if others + stolen > DISTURBED_PERCENT:
        lines.append("The machine was not silent: uncertain figures, grain and makespan too kind to many processes.")
    if speedups := sorted(_silent_speedups(results)):
        middle = speedups[len(speedups) // 2]
        lines.append(f"two silent processes reach {speedups[0]:.2f} to {speedups[-1]:.2f}, median {middle:.2f}")
    if chunk := results.get("pool-best", {}).get("null", {}).get("chunk"):
        lines.append(f"Pool's best chunksize: {chunk}")
    return ["\n".join(lines)]


def _silent_speedups(results: dict[str, Any]) -> list[float]:
    """Return what the silent processes reached beside each step of grain, as a multiple of one core."""
    return [step["silent_speedup"] for rows in results.values() for step in rows.get("grain", {}).get("steps", [])]


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return columns as wide as they need, the first to the left, the others to the right."""
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, rule, *lines)
    )
