"""The same figures for Prometheus, in its text format (version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LEVELS = ("clear", "authenticated", "safe", "private")


class Metric(NamedTuple):
    """One metric: its name without the prefix, its type, what it is, and its samples: labels and a value."""

    name: str
    kind: str
    what: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def exposition(parts: Mapping[str, Any]) -> str:
    """All metrics of the parts of a page, as a text that Prometheus reads."""
    kind = parts.get("about", {}).get("kind")
    metrics = [_up(parts), *(_of_program(parts) if kind == "program" else _of_grid(parts) if kind == "grid" else ())]
    return "".join(_written(metric) for metric in [*metrics, *_of_spaces(parts)] if metric.samples)


def _written(metric: Metric) -> str:
    name = f"phalanx_{metric.name}"
    lines = [f"# HELP {name} {metric.what}", f"# TYPE {name} {metric.kind}"]
    for labels, value in metric.samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{inside}}} {float(value)!r}" if inside else f"{name} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _up(parts: Mapping[str, Any]) -> Metric:
    """Whether the last reading worked, as scrapers want to be warned."""
    return Metric(
        "up", "gauge", "Whether the source of the dashboard answers.", [({}, float(not parts.get("failure")))]
    )


def _of_program(parts: Mapping[str, Any]) -> Iterable[Metric]:
    totals, interpreters = parts.get("totals", {}), parts.get("interpreters", [])
    for name, key, what in (
        ("tasks_delivered_total", "tasks", "Tasks whose outcome was delivered."),
        ("interpreters_lost_total", "lost", "Interpreters that were lost."),
        ("interpreters_replaced_total", "replaced", "Interpreters recruited in place of lost ones."),
        ("tasks_refired_total", "refired", "Tasks that were in flight at an interpreter when it was lost."),
        ("tasks_doubled_total", "doubled", "Tasks fired at a second interpreter because the first took too long."),
    ):
        yield Metric(name, "counter", what, [({}, totals.get(key, 0))])
    yield Metric(
        "interpreters_wanted", "gauge", "Interpreters that the contract wants.", [({}, totals.get("wanted", 0))]
    )
    states = Counter(it["state"] for it in interpreters)
    yield Metric("interpreters", "gauge", "Interpreters by state.", [({"state": s}, n) for s, n in states.items()])
    working = [it for it in interpreters if it["state"] == "working"]
    for name, key, what in (
        ("interpreter_tasks_total", "tasks", "Tasks that an interpreter has answered."),
        ("interpreter_in_flight", "flight", "Tasks in flight at an interpreter."),
        ("interpreter_round_trip_seconds", "round_trip", "Time for a message to an interpreter and back."),
    ):
        kind = "counter" if name.endswith("_total") else "gauge"
        samples = [({"interpreter": it["name"]}, it[key]) for it in working if it[key] is not None]
        yield Metric(name, kind, what, samples)
    runs = [it for it in parts.get("programs", []) if it["open"]]
    labels = [{"run": str(it["run"]), "program": it["name"]} for it in runs]
    settled = [(label, it["settled"]) for label, it in zip(labels, runs, strict=True)]
    yield Metric("run_tasks_settled_total", "counter", "Tasks of an open run that have an outcome.", settled)
    lines = parts.get("bill", {}).get("lines", [])
    what = "Bytes of frames over links of a level."
    yield Metric("link_bytes_total", "counter", what, [({"level": it["level"]}, it["bytes"]) for it in lines])
    what = "Seconds in cryptography at both ends of links of a level."
    samples = [({"level": it["level"]}, it["protection"]) for it in lines]
    yield Metric("protection_seconds_total", "counter", what, samples)


def _of_grid(parts: Mapping[str, Any]) -> Iterable[Metric]:
    members = parts.get("members", [])
    here = Counter((it["role"], "yes" if it["here"] else "no") for it in members if it["role"] != "user")
    what = "Members of the grid by role, and whether they run."
    yield Metric("members", "gauge", what, [({"role": role, "here": h}, n) for (role, h), n in sorted(here.items())])
    told = [it for it in members if it.get("places") is not None]
    yield Metric("places", "gauge", "Places for interpreters and ranks.", [({}, sum(it["places"] for it in told))])
    yield Metric("places_used", "gauge", "Places in use.", [({}, sum(it["used"] or 0 for it in told))])
    lost = [({"executor": it["name"]}, it["lost"]) for it in told]
    yield Metric("executor_lost_total", "counter", "Interpreters and ranks that ended by themselves.", lost)
    closed = sum(bool(it.get("closed")) for it in members)
    yield Metric("executors_closed", "gauge", "Executors that work for nobody now.", [({}, closed)])
    relayed = parts.get("relayed", {})
    yield Metric("relayed_links", "gauge", "Links that the hub relays.", [({}, relayed.get("links", 0))])
    what = "Bytes that the hub has relayed since it started."
    yield Metric("relayed_bytes_total", "counter", what, [({}, relayed.get("bytes", 0))])
    rates: Counter[str] = Counter()
    for link in parts.get("links", []):
        if link["level"] in _LEVELS:
            rates[link["level"]] += link["rate"] or 0
    what = "Bytes a second over links of a level, as executors tell."
    yield Metric("link_rate_bytes", "gauge", what, [({"level": level}, rate) for level, rate in sorted(rates.items())])
    states = Counter(it["state"] for it in parts.get("jobs", []))
    yield Metric("jobs", "gauge", "The latest jobs by state.", [({"state": s}, n) for s, n in sorted(states.items())])


def _of_spaces(parts: Mapping[str, Any]) -> Iterable[Metric]:
    spaces = [it for it in parts.get("spaces", []) if "tuples" in it]
    for name, key, what in (
        ("space_tuples", "tuples", "Tuples in a space."),
        ("space_takers", "takers", "Requests that wait to take a tuple."),
        ("space_readers", "readers", "Requests that wait to read a tuple."),
    ):
        yield Metric(name, "gauge", what, [({"space": it["name"]}, it[key]) for it in spaces])
