"""Spans and metrics of agents, models and tools, as the SDK of OpenTelemetry exports them."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agent.scenes import calls, talking, text
from penstock import Request, ToolMiddleware, _json
from penstock.agent import Agent, tool
from penstock.models.telemetry import OpenTelemetry
from penstock.testing import ScriptedModel, call, fail


class Exported:
    """What an application's SDK would export."""

    def __init__(self, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = OpenTelemetry(
            tracer_provider=tracers,
            meter_provider=MeterProvider([self._metrics]),
            agent="tides",
            **options,
        )

    def spans(self) -> list[ReadableSpan]:
        return sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time or 0)

    def points(self, name: str) -> list[HistogramDataPoint]:
        data = self._metrics.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
            if isinstance(point, HistogramDataPoint)
        ]


@tool
async def look(place: str) -> str:
    """Look somewhere."""
    if place == "nowhere":
        raise ValueError("there is nothing")
    return f"seen {place}"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_run_has_spans_for_responses_and_tools_below_it() -> None:
    exported = Exported()
    script = (calls(("look", {"place": "Leith"})), text("High water."))
    async with talking(*script) as (model, _):
        agent = Agent(model, [look], request=Request(temperature=0.5), telemetry=exported.telemetry)
        assert (await agent.run("Look.")).error is None
    run, first, looked, second = exported.spans()
    assert [span.name for span in (run, first, looked, second)] == [
        "invoke_agent tides", "chat m", "execute_tool look", "chat m",
    ]  # fmt: skip
    assert run.context is not None
    for span in (first, looked, second):
        assert span.parent is not None
        assert span.parent.span_id == run.context.span_id
    assert first.kind is SpanKind.CLIENT
    chat = attributes(first)
    assert chat.pop("gen_ai.response.time_to_first_chunk") > 0
    assert chat == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "m",
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "penstock.repairs": 0,
        "penstock.incomplete_calls": 0,
    }
    assert attributes(looked)["gen_ai.tool.name"] == "look"
    assert attributes(looked)["gen_ai.tool.call.id"] == "c1"
    assert attributes(run)["gen_ai.agent.name"] == "tides"
    assert attributes(run)["gen_ai.usage.output_tokens"] == 6
    assert all("place" not in str(attributes(span)) for span in exported.spans()), "no content"


async def test_metrics_have_the_conventions_names() -> None:
    exported = Exported()
    async with talking(text("High water.")) as (model, _):
        await Agent(model, telemetry=exported.telemetry).run("When?")
    tokens = {
        (point.attributes or {})["gen_ai.token.type"]: point.sum
        for point in exported.points("gen_ai.client.token.usage")
    }
    assert tokens == {"input": 10, "output": 3}
    (duration,) = exported.points("gen_ai.client.operation.duration")
    (first,) = exported.points("gen_ai.client.operation.time_to_first_chunk")
    assert 0 < first.sum <= duration.sum
    assert (duration.attributes or {})["gen_ai.provider.name"] == "openai"


async def test_repairs_and_the_format_are_recorded() -> None:
    exported = Exported()
    damaged = '<tool_call>{"name": "look", "arguments": {"place": "Leith",}}</tool_call>'
    async with talking(text(damaged), text("High water.")) as (model, _):
        agent = Agent(ToolMiddleware(model, "hermes"), [look], telemetry=exported.telemetry)
        await agent.run("Look.")
    chat = attributes(exported.spans()[1])
    assert chat["penstock.format"] == "hermes"
    assert chat["penstock.repairs"] == 1
    assert attributes(exported.spans()[2])["penstock.repairs"] == 1


async def test_failures_have_an_error_type() -> None:
    exported = Exported()
    model = ScriptedModel([call("look", place="nowhere"), fail("no such key", status=401)])
    result = await Agent(model, [look], telemetry=exported.telemetry).run("Look.")
    assert result.error is not None
    run, _, looked, failed = exported.spans()
    for span, kind in ((looked, "tool_error"), (failed, "401"), (run, "provider")):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == kind
    durations = exported.points("gen_ai.client.operation.duration")
    assert {(point.attributes or {}).get("error.type") for point in durations} == {None, "401"}


async def test_content_is_recorded_on_request_only() -> None:
    exported = Exported(content=True)
    model = ScriptedModel([call("look", place="Leith"), "High water."])
    await Agent(model, [look], "Be brief.", telemetry=exported.telemetry).run("Look.")
    _, _, looked, last = exported.spans()
    assert attributes(looked)["gen_ai.tool.call.arguments"] == '{"place":"Leith"}'
    assert attributes(looked)["gen_ai.tool.call.result"] == '"seen Leith"'
    given = _json.decode(attributes(last)["gen_ai.input.messages"])
    assert [message["role"] for message in given] == ["user", "assistant", "tool"]
    assert given[2]["parts"][0]["response"] == "seen Leith"
    assert "Be brief." in attributes(last)["gen_ai.system_instructions"]
    said = _json.decode(attributes(last)["gen_ai.output.messages"])
    assert said[0]["parts"] == [{"type": "text", "content": "High water."}]


async def test_an_aborted_run_ends_its_spans() -> None:
    exported = Exported()
    agent = Agent(ScriptedModel([call("look", place="Leith")] * 9), [look], max_turns=2,
                  telemetry=exported.telemetry)  # fmt: skip
    await agent.run("Look.")
    assert attributes(exported.spans()[0])["error.type"] == "turns"
    assert len(exported.spans()) == 5


@pytest.mark.parametrize("state", ["served", "failed"])
def test_the_gateway_records_what_it_served(state: str) -> None:
    from penstock.messages import AssistantMessage, ErrorInfo, Text, Usage  # noqa: PLC0415

    exported = Exported()
    error = ErrorInfo("overloaded", "provider", status=529) if state == "failed" else None
    message = AssistantMessage(
        "r1", "qwen3", [Text("Hi.")], "error" if error else "stop", usage=Usage(5, 2, total=7),
        error=error,
    )  # fmt: skip
    exported.telemetry.record_served(
        message, request_model="tides", api="ollama", seconds=2.0, first_token=0.5,
        format_name="hermes", repairs=["a trailing comma"],
    )  # fmt: skip
    (span,) = exported.spans()
    assert span.name == "chat tides"
    assert span.kind is SpanKind.SERVER
    assert ((span.end_time or 0) - (span.start_time or 0)) / 1e9 == pytest.approx(2.0)
    shown = attributes(span)
    assert shown["gen_ai.provider.name"] == "ollama"
    assert shown["gen_ai.response.time_to_first_chunk"] == 0.5
    assert shown["penstock.format"] == "hermes"
    assert shown["penstock.repairs"] == 1
    assert shown.get("error.type") == ("529" if error else None)
    (duration,) = exported.points("gen_ai.server.request.duration")
    (first,) = exported.points("gen_ai.server.time_to_first_token")
    assert (duration.sum, first.sum) == (2.0, 0.5)


async def test_the_server_learns_the_trace_of_a_response() -> None:
    exported = Exported()
    async with talking(text("High water at six.")) as (model, upstream):
        await Agent(model, telemetry=exported.telemetry).run("When?")
    span = next(span for span in exported.spans() if span.name.startswith("chat"))
    context = span.context
    assert context is not None
    sent = upstream.seen[0].headers["traceparent"]
    assert sent.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


async def test_without_telemetry_no_trace_is_sent() -> None:
    async with talking(text("High water at six.")) as (model, upstream):
        await Agent(model).run("When?")
    assert "traceparent" not in upstream.seen[0].headers
