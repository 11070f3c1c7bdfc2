"""Traces and metrics of agents, models, tools and the gateway, by OpenTelemetry's conventions.

`OpenTelemetry` writes spans and metrics with the names of the GenAI semantic conventions. It needs
the extra ``otel``; an SDK and its exporters are the application's choice. `Telemetry`, its base,
does nothing, so that code without telemetry has no cost and no conditions.

====================  ===============================================================
span                  for
====================  ===============================================================
``invoke_agent NAME``  a run of an agent
``chat MODEL``         one response of a model; its children are the HTTP requests
``execute_tool NAME``  one call of a tool
====================  ===============================================================

Beside the conventions' attributes a response has ``penstock.format`` (how calls in its text are
read), ``penstock.repairs`` and ``penstock.incomplete_calls``. The content of messages is recorded
only with *content*: it may contain personal data.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from functools import cache
from typing import Any, Final, Literal

from penstock import _json
from penstock.errors import UsageError
from penstock.events import DELTAS
from penstock.messages import (
    AssistantMessage,
    ErrorInfo,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.models.base import Batches, Model
from penstock.request import Message, Request, SystemMessage

Role = Literal["client", "server"]
"""Whether a response is requested (by an agent) or served (by the gateway)."""

# The conventions' names of providers, by API.
_PROVIDERS: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "ollama": "ollama",
    "qwen": "qwen",
}

_SCOPE: Final = "penstock"


class RunSpan:
    """A run of an agent that is being recorded."""

    def finish(self, usage: Usage, error: ErrorInfo | None) -> None:
        """Record the end of the run."""


class ResponseSpan:
    """A response that is being recorded."""

    def watch(self, batches: Batches) -> Batches:
        """Return *batches*, whose first delta is timed."""
        return batches

    def trace_headers(self) -> dict[str, str]:
        """Return the headers that make the spans of the server children of this one."""
        return {}

    def finish(self, message: AssistantMessage) -> None:
        """Record the end of the response."""


class ToolSpan:
    """A call of a tool that is being recorded."""

    def finish(self, content: object, *, is_error: bool) -> None:
        """Record the result of the call."""


class Telemetry:
    """Records nothing; the base of classes that do."""

    def start_run(self, model: Model) -> AbstractContextManager[RunSpan]:
        """Start to record a run of an agent on *model*."""
        del model
        return nullcontext(RunSpan())

    def start_response(
        self, request: Request, model: Model
    ) -> AbstractContextManager[ResponseSpan]:
        """Start to record the response of *model* to *request*."""
        del request, model
        return nullcontext(ResponseSpan())

    def start_tool(self, call: ToolCall, description: str = "") -> AbstractContextManager[ToolSpan]:
        """Start to record *call*."""
        del call, description
        return nullcontext(ToolSpan())


class OpenTelemetry(Telemetry):
    """Records spans and metrics by OpenTelemetry's GenAI semantic conventions.

    The providers are those of the application unless given. *agent* is the name of the agent in its
    spans. With *content*, prompts, responses, arguments and results are recorded.

    Raises `UsageError` without the extra ``otel``.
    """

    def __init__(
        self,
        *,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        agent: str = "",
        content: bool = False,
    ) -> None:
        try:  # Imported here, so that penstock works without the extra.
            from opentelemetry import metrics, propagate, trace  # noqa: PLC0415
        except ImportError as exc:
            raise UsageError("OpenTelemetry needs: pip install 'penstock[otel]'") from exc
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._agent = agent
        self._content = content
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Number of input and output tokens."
        )
        self._durations = {
            "client": meter.create_histogram("gen_ai.client.operation.duration", "s"),
            "server": meter.create_histogram("gen_ai.server.request.duration", "s"),
        }
        self._first = {
            "client": meter.create_histogram("gen_ai.client.operation.time_to_first_chunk", "s"),
            "server": meter.create_histogram("gen_ai.server.time_to_first_token", "s"),
        }

    @contextmanager
    def start_run(self, model: Model) -> Iterator[RunSpan]:
        """Start to record a run of an agent on *model*."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": _PROVIDERS.get(model.api_name, _SCOPE),
            "gen_ai.request.model": model.name,
        }
        if self._agent:
            attributes["gen_ai.agent.name"] = self._agent
        name = f"invoke_agent {self._agent}".rstrip()
        with self._start(name, "INTERNAL", attributes) as span:
            yield _RecordedRun(self, span)

    @contextmanager
    def start_response(self, request: Request, model: Model) -> Iterator[ResponseSpan]:
        """Start to record the response of *model* to *request*."""
        name = request.model or model.name
        common = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(model.api_name, _SCOPE),
            "gen_ai.request.model": name,
        }
        attributes = {**common, **_read_request(request)}
        if model.format_name:
            attributes["penstock.format"] = model.format_name
        if self._content:
            attributes["gen_ai.input.messages"] = _write_messages(request.messages)
            if request.system:
                parts = [{"type": "text", "content": request.system}]
                attributes["gen_ai.system_instructions"] = _json.encode(parts).decode()
        with self._start(f"chat {name}".rstrip(), "CLIENT", attributes) as span:
            recorded = _RecordedResponse(self, span, common, "client")
            try:
                yield recorded
            finally:
                recorded.end()

    @contextmanager
    def start_tool(self, call: ToolCall, description: str = "") -> Iterator[ToolSpan]:
        """Start to record *call*."""
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if description:
            attributes["gen_ai.tool.description"] = description
        if call.repairs:
            attributes["penstock.repairs"] = len(call.repairs)
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _json.encode(call.arguments).decode()
        with self._start(f"execute_tool {call.name}", "INTERNAL", attributes) as span:
            yield _RecordedTool(self, span)

    # Written at once at the end, since the gateway's log already has all times: no context is kept
    # open through the response.
    def record_served(  # noqa: PLR0913 - each is an attribute of its own
        self,
        message: AssistantMessage,
        *,
        request_model: str,
        api: str,
        seconds: float,
        first_token: float | None,
        format_name: str = "",
        repairs: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Record a response that the gateway served, as a span that ends now.

        *headers* of the request may name the trace of the client, which the span then belongs to.
        """
        common: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(api, _SCOPE),
            "gen_ai.request.model": request_model,
        }
        end = time.time_ns()
        span = self._tracer.start_span(
            f"chat {request_model}".rstrip(),
            # `traceparent` of W3C Trace Context, unless the application has chosen another
            # propagator.
            context=self._propagate.extract(headers or {}),
            kind=self._trace.SpanKind.SERVER,
            attributes={**common, **({"penstock.format": format_name} if format_name else {})},
            start_time=end - round(seconds * 1e9),
        )
        recorded = _RecordedResponse(self, span, common, "server")
        recorded.finish(message)
        span.set_attribute("penstock.repairs", len(repairs))
        if first_token is not None:
            span.set_attribute("gen_ai.response.time_to_first_chunk", first_token)
            self._first["server"].record(first_token, common)
        self._durations["server"].record(seconds, common)
        span.end(end_time=end)

    def _start(self, name: str, kind: str, attributes: Mapping[str, Any]) -> Any:
        return self._tracer.start_as_current_span(
            name,
            kind=self._trace.SpanKind[kind],
            attributes=attributes,
            # Tracebacks may quote prompts; the type of the error is recorded as `error.type`.
            record_exception=False,
            set_status_on_exception=True,
        )

    def _fail(self, span: Any, error_type: str, message: str) -> None:
        span.set_attribute("error.type", error_type)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, message))


class _RecordedRun(RunSpan):
    def __init__(self, telemetry: OpenTelemetry, span: Any) -> None:
        self._telemetry = telemetry
        self._span = span

    def finish(self, usage: Usage, error: ErrorInfo | None) -> None:
        self._span.set_attributes(_read_usage(usage))
        if error is not None:
            self._telemetry._fail(self._span, error.type or error.kind, error.message)  # noqa: SLF001


class _RecordedTool(ToolSpan):
    def __init__(self, telemetry: OpenTelemetry, span: Any) -> None:
        self._telemetry = telemetry
        self._span = span

    def finish(self, content: object, *, is_error: bool) -> None:
        if self._telemetry._content:  # noqa: SLF001 - a part of it
            result = _json.encode(content).decode()
            self._span.set_attribute("gen_ai.tool.call.result", result)
        if is_error:
            self._telemetry._fail(self._span, "tool_error", "the tool failed")  # noqa: SLF001


class _RecordedResponse(ResponseSpan):
    def __init__(
        self, telemetry: OpenTelemetry, span: Any, common: dict[str, Any], role: Role
    ) -> None:
        self._telemetry = telemetry
        self._span = span
        self._common = common
        self._role = role
        self._began = time.perf_counter()

    def trace_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        self._telemetry._propagate.inject(headers)  # noqa: SLF001 - a part of it
        return headers

    async def watch(self, batches: Batches) -> Batches:
        is_first = True
        async with aclosing(batches):
            async for batch in batches:
                if is_first and any(isinstance(event, DELTAS) for event in batch):
                    is_first = False
                    seconds = time.perf_counter() - self._began
                    self._span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
                    self._telemetry._first[self._role].record(seconds, self._common)  # noqa: SLF001
                yield batch

    def finish(self, message: AssistantMessage) -> None:
        telemetry, span, usage = self._telemetry, self._span, message.usage
        if message.model:
            self._common["gen_ai.response.model"] = message.model
            span.set_attribute("gen_ai.response.model", message.model)
        if message.id:
            span.set_attribute("gen_ai.response.id", message.id)
        if message.stop_reason is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [message.stop_reason])
        span.set_attributes(_read_usage(usage))
        calls = message.tool_calls
        span.set_attribute("penstock.repairs", sum(len(call.repairs) for call in calls))
        span.set_attribute("penstock.incomplete_calls", sum(not call.complete for call in calls))
        if telemetry._content:  # noqa: SLF001 - a part of it
            span.set_attribute("gen_ai.output.messages", _write_messages([message]))
        prompt = usage.input + usage.cache_read + usage.cache_write
        if self._role == "client" and (prompt or usage.output):
            for kind, count in (("input", prompt), ("output", usage.output)):
                labels = {**self._common, "gen_ai.token.type": kind}
                telemetry._tokens.record(count, labels)  # noqa: SLF001
        if message.error is not None:
            error = message.error
            reason = error.type or (str(error.status) if error.status else error.kind)
            self._common["error.type"] = reason
            telemetry._fail(span, reason, error.message)  # noqa: SLF001

    def end(self) -> None:
        """Record the duration, whatever ended the response."""
        seconds = time.perf_counter() - self._began
        self._telemetry._durations[self._role].record(seconds, self._common)  # noqa: SLF001


def _read_request(request: Request) -> dict[str, Any]:
    """Return the attributes of the options of *request*."""
    wanted = request.response_format
    found = {
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.top_k": request.top_k,
        "gen_ai.request.seed": request.seed,
        "gen_ai.request.stop_sequences": request.stop or None,
        "gen_ai.conversation.id": request.session or None,
        "gen_ai.output.type": None if wanted is None or wanted.kind == "text" else "json",
    }
    return {key: value for key, value in found.items() if value is not None}


def _read_usage(usage: Usage) -> dict[str, int]:
    """Return the attributes of *usage*; the conventions' input includes the cache."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    found = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": usage.output}
    optional = {
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    return found | {key: count for key, count in optional.items() if count}


def _write_messages(messages: Iterable[Message]) -> str:
    """Return *messages* as JSON in the conventions' shape."""
    written: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolResult):
            part = {"type": "tool_call_response", "id": message.id, "response": message.content}
            written.append({"role": "tool", "parts": [part]})
            continue
        if isinstance(message, SystemMessage):
            parts: list[dict[str, Any]] = [{"type": "text", "content": message.text}]
            written.append({"role": "system", "parts": parts})
            continue
        parts = []
        for block in message.content:
            if isinstance(block, Text):
                parts.append({"type": "text", "content": block.text})
            elif isinstance(block, Thinking):
                parts.append({"type": "reasoning", "content": block.text})
            elif isinstance(block, ToolCall):
                call = {"id": block.id, "name": block.name, "arguments": block.arguments}
                parts.append({"type": "tool_call", **call})
            else:
                parts.append({"type": block.type})
        entry: dict[str, Any] = {"role": "user", "parts": parts}
        if isinstance(message, AssistantMessage):
            entry = {"role": "assistant", "parts": parts, "finish_reason": message.stop_reason}
        written.append(entry)
    return _json.encode(written).decode()


@cache
def find_telemetry() -> OpenTelemetry | None:
    """Return telemetry with the providers of the process; None without the extra ``otel``.

    ``opentelemetry-instrument penstock serve`` sets the providers. Without them nothing is
    recorded.
    """
    try:
        return OpenTelemetry()
    except UsageError:
        return None
