"""What a running gateway exports with the SDK of OpenTelemetry.

The providers of a process can be set only once, so a process of its own sets them, serves and asks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.serving import CLIENTS, DEADLINE, Stage, ask, request_of, tools_of, upstream_table
from models.loopback_servers import Reply, streamed
from penstock.messages import AssistantMessage, Text, Usage

PRINTED = (
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": "3"}}</tool_call>'
)

TRACE_PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def serve(folder: Path) -> dict[str, Any]:
    """Ask a gateway over HTTP; return the spans and the metrics that were exported."""
    from opentelemetry import metrics, trace  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([reader]))

    usage = Usage(input=20, output=9, total=29)
    printed = AssistantMessage("r", "m", [Text(PRINTED)], "stop", usage=usage)
    statuses = []
    with Stage() as stage:
        actor = stage.actor("openai-chat")
        served = stage.gateway(folder, upstream_table(actor, retries=0))
        good = streamed(actor.api, printed)
        actor.play(good, good, good, Reply(status=500, whole=b'{"error": {"message": "full"}}'))
        for api, path in CLIENTS.items():
            body = request_of(api, "tides", tools=tools_of(api))
            statuses.append(ask(served, path, body, traceparent=TRACE_PARENT).status)
        received = actor.seen[0].headers.get("traceparent")
        statuses.append(ask(served, CLIENTS["openai-chat"], request_of("openai-chat", "m")).status)
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: [dict(point.attributes or {}) for point in metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    finished = [
        {"name": span.name, "kind": span.kind.name, "status": span.status.status_code.name,
         "trace": f"{span.context.trace_id:032x}",
         "parent": f"{span.parent.span_id:016x}" if span.parent else "",
         "nanoseconds": (span.end_time or 0) - (span.start_time or 0), **(span.attributes or {})}
        for span in spans.get_finished_spans()
    ]  # fmt: skip
    return {"statuses": statuses, "spans": finished, "points": points, "received": received}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    tests = Path(__file__).parents[1]
    folder = tmp_path_factory.mktemp("telemetry")
    path = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "gateway.test_telemetry", str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=3 * DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_running_gateway_exports_a_span_for_each_response(exported: dict[str, Any]) -> None:
    assert exported["statuses"][:3] == [200, 200, 200]
    assert len(exported["spans"]) == 4
    for span in exported["spans"][:3]:
        assert (span["name"], span["kind"], span["status"]) == ("chat tides", "SERVER", "UNSET")
        assert span["gen_ai.operation.name"] == "chat"
        assert span["gen_ai.request.model"] == "tides"
        assert span["gen_ai.response.model"] == "m"
        assert span["gen_ai.response.finish_reasons"] == ["tool_use"]
        assert span["gen_ai.usage.input_tokens"] == 20
        assert span["gen_ai.usage.output_tokens"] == 9
        assert span["penstock.format"] == "auto"
        assert span["penstock.repairs"] == 1  # "3" is an integer of the schema
        assert 0 < span["gen_ai.response.time_to_first_chunk"] * 1e9 <= span["nanoseconds"]


def test_a_span_belongs_to_the_trace_of_the_client(exported: dict[str, Any]) -> None:
    _, trace, parent, _ = TRACE_PARENT.split("-")
    found = [(span["trace"], span["parent"]) for span in exported["spans"]]
    assert found[:3] == [(trace, parent)] * 3
    assert found[3][0] != trace  # that client sent no trace
    assert found[3][1] == ""
    assert exported["received"] == TRACE_PARENT  # so that the upstream's spans belong to it too


def test_a_failed_response_has_an_error_type(exported: dict[str, Any]) -> None:
    failed = exported["spans"][3]
    assert exported["statuses"][3] >= 500
    assert (failed["name"], failed["status"], failed["error.type"]) == ("chat m", "ERROR", "500")


def test_a_running_gateway_exports_metrics(exported: dict[str, Any]) -> None:
    points = exported["points"]
    duration = points["gen_ai.server.request.duration"]
    assert {one["gen_ai.request.model"] for one in duration} == {"tides", "m"}
    assert [one["gen_ai.request.model"] for one in points["gen_ai.server.time_to_first_token"]] == [
        "tides"
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(serve(Path(sys.argv[1]))))
