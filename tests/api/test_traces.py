"""`px.Manager(traces=True)` with a receiver of OTLP over HTTP, and with a program's own provider."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import phalanx as px
import pytest
from api import tasks
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Receiver(BaseHTTPRequestHandler):
    """Takes traces as a collector does."""

    taken: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ExportTraceServiceRequest]]:
    """What a receiver has taken."""
    found: list[ExportTraceServiceRequest] = []
    with HTTPServer(("127.0.0.1", 0), type("Own", (Receiver,), {"taken": found})) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def spans(taken: list[ExportTraceServiceRequest]) -> dict[str, Any]:
    """All spans by name."""
    (request,) = taken
    (resource,) = request.resource_spans
    return {span.name: span for scope in resource.scope_spans for span in scope.spans}


def attributes(span: Any) -> dict[str, Any]:
    return {it.key: it.value.int_value for it in span.attributes}


def test_a_program_is_one_trace_with_a_span_for_each_run(taken: list[Any]) -> None:
    with px.Manager(contract=px.ParDegree(2), traces=True) as manager:
        assert len(list(manager.compute(px.Pipeline(tasks.double, tasks.double), range(100)))) == 100
        assert manager.submit(pow, 2, 5).result() == 32
    found = spans(taken)
    assert {*found} == {"phalanx program", "Pipeline(double, double)", "pow"}
    root, run = found["phalanx program"], found["Pipeline(double, double)"]
    assert len({span.trace_id for span in found.values()}) == 1
    assert (root.parent_span_id, run.parent_span_id) == (b"", root.span_id)
    assert attributes(root)["phalanx.tasks"] == 101
    assert attributes(run)["phalanx.delivered"] == 100
    assert root.start_time_unix_nano <= run.start_time_unix_nano < run.end_time_unix_nano <= root.end_time_unix_nano
    assert "recruited" in [event.name for event in root.events]


def test_losses_are_events_of_the_program(taken: list[Any]) -> None:
    with (
        px.Manager(contract=px.ParDegree(1), traces=True) as manager,
        closing(manager.compute(tasks.nap, [0.01] * 10_000)) as results,
    ):
        next(results)
        os.kill(manager.summary().interpreters[0].pid, signal.SIGKILL)
        while not manager.summary().replaced:
            next(results)
    events = [event.name for event in spans(taken)["phalanx program"].events]
    assert events.index("lost") < len(events) - 1 - events[::-1].index("recruited")


def test_the_provider_of_the_program_is_used(monkeypatch: pytest.MonkeyPatch, taken: list[Any]) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with px.Manager(contract=px.ParDegree(1), traces=True) as manager:
        assert list(manager.compute(abs, [-1])) == [1]
    assert {span.name for span in kept.get_finished_spans()} == {"phalanx program", "abs"}
    assert taken == []
    provider.shutdown()


def test_without_a_receiver_the_program_ends_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with px.Manager(contract=px.ParDegree(1), traces=True) as manager:
        assert list(manager.compute(abs, [-1])) == [1]
    assert "the trace of this program was not taken" in caplog.text
    manager.close()  # again: nothing is sent twice
    assert caplog.text.count("was not taken") == 1


def test_what_is_missing_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "phalanx.dashboard._traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'phalanx-grid\[traces\]'"):
        px.Manager(contract=px.ParDegree(1), traces=True)
