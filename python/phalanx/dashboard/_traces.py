"""One OpenTelemetry trace for each program: its manager is the root, and each run of it a span."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from phalanx import _native
from phalanx.dashboard._clean import text
from phalanx.summary import Summary

try:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'phalanx-grid[traces]'", name=error.name) from None

#: Seconds that the end of a manager waits for the receiver of its trace.
PATIENCE = 5.0

_log = logging.getLogger("phalanx")
Names = Callable[[], Mapping[int, str]]


class Traced:
    """A manager, native or with a page, whose trace is sent when it is closed.

    Parameters
    ----------
    native
        The manager.
    names
        Tells what the runs compute that were opened last.
    """

    def __init__(self, native: _native.Manager, names: Names) -> None:
        self._native = native
        self._names = [names]
        self._began = time.time_ns()
        self._is_sent = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if callable(found):
            setattr(self, name, found)  # found at once from now on
        return found

    def names_from(self, names: Names) -> None:
        """Asks for the names of further runs."""
        self._names.append(names)

    def close(self) -> None:
        """Ends every interpreter, and then sends the trace, once."""
        if self._is_sent:
            return self._native.close()
        self._is_sent = True
        shown = json.loads(self._native.shown())
        named = {number: name for names in self._names for number, name in names().items()}
        try:
            self._native.close()
        finally:
            _send(self._began, shown, Summary.from_native(self._native.summary()), named)


class _Kept(SpanProcessor):
    """Keeps the spans that have ended."""

    def __init__(self) -> None:
        self.spans: deque[ReadableSpan] = deque()

    def on_end(self, span: ReadableSpan) -> None:
        """Keeps a span."""
        self.spans.append(span)


def _send(began: int, shown: dict[str, Any], summary: Summary, names: Mapping[int, str]) -> None:
    """Gives the spans to the provider that the program has set up. If it has none, they go by OTLP over HTTP to where
    the variables of OpenTelemetry say, by default to a collector at this machine."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        _write(provider, began, shown, summary, names)
        return
    kept = _Kept()
    own = TracerProvider(resource=Resource.create({"service.name": "phalanx"}))
    own.add_span_processor(kept)
    _write(own, began, shown, summary, names)
    thread = threading.Thread(target=_export, args=([*kept.spans],), name="phalanx-traces", daemon=True)
    thread.start()
    thread.join(PATIENCE + 1)


def _export(spans: list[ReadableSpan]) -> None:
    exporter = OTLPSpanExporter(timeout=PATIENCE)
    try:
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            _log.warning("the trace of this program was not taken: is a receiver of OTLP over HTTP there?")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _write(
    provider: TracerProvider, began: int, shown: dict[str, Any], summary: Summary, names: Mapping[int, str]
) -> None:
    def at(seconds: float) -> int:
        return began + int(seconds * 1e9)

    tracer = provider.get_tracer("phalanx")
    attributes = {
        "phalanx.tasks": summary.tasks,
        "phalanx.interpreters": len(summary.interpreters),
        "phalanx.lost": summary.lost,
        "phalanx.refired": summary.refired,
        "phalanx.protection_seconds": summary.bill.cost,
    }
    root = tracer.start_span("phalanx program", context=None, start_time=began, attributes=attributes)
    for moment in shown["kept"]["moments"]:
        about = {"interpreter": text(moment["interpreter"]), "text": text(moment["text"]), "times": moment["times"]}
        root.add_event(moment["what"], about, at(moment["at"]))
    inside = trace.set_span_in_context(root)
    for number, run in shown["kept"]["runs"]:
        told = {f"phalanx.{word}": run[word] for word in ("delivered", "raised", "doubled", "bytes_in", "bytes_out")}
        name = text(names.get(number, f"run {number}"))
        span = tracer.start_span(name, inside, start_time=at(run["began"]), attributes=told)
        span.set_attribute("phalanx.busy_seconds", run["busy"])
        span.set_attribute("phalanx.interpreters", len(run["shares"]))
        span.end(at(run["last"]))
    root.end(at(shown["now"]))
