"""`ToolMiddleware`: tool calls for a model without native tools.

On the way to the upstream, tools, calls and results become text; on the way back, text becomes
calls. A middleware is itself a model, so its users (scripts, the agent, the gateway) see a model
that calls tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from copy import copy
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from penstock import _json
from penstock.apis.history import content_text, result_text
from penstock.apis.qwen import NO_OUTPUT
from penstock.debug import DebugSettings, Summary
from penstock.errors import UsageError
from penstock.formats import AnyFormat, Format, FormatLike, Placement, Template, for_model, get
from penstock.messages import AssistantMessage, ToolResult
from penstock.models import tool_choice
from penstock.models.attempts import AttemptRunner, ReadOptions, RequestPlan
from penstock.models.base import (
    Batches,
    Model,
    OutputMode,
    Tap,
    collect_message,
    ensure_end,
    ids_for,
    iter_events,
)
from penstock.models.prompts import PromptRenderer, ShownReasoning
from penstock.models.tool_choice import Constraint, make_call_events
from penstock.models.tracing import Tracer, Write
from penstock.models.untrusted import untrusted_in
from penstock.parsing import Arguments, FencedCalls, OnError, QuotedCalls, Reasoning
from penstock.parsing.body import ReasoningOnly, StrayReasoning, check_reasoning_options
from penstock.parsing.quotations import check_choice
from penstock.request import Request, RequestLike, make_request
from penstock.streams import EventStream
from penstock.tools import Tool, read_tools
from penstock.values.schema import Schema

RETRIES: Final = 1
"""How often an unusable response is requested again."""

UNKNOWN_MODEL: Final = "hermes"
"""The format for unknown models: most models have seen it in training."""

# vLLM, SGLang and llama.cpp serve it.
DEFAULT_API: Final = "openai-chat"
"""The API of an upstream that does not name one: servers with grammars use this one."""


class ToolMiddleware(Model):
    """Wraps *model* and lets it call tools in text of *format*.

    With ``auto`` the model is instructed in the format that fits its name, and its text is parsed
    in whatever format it uses.

    * Requests: *template* replaces the format's description of the tools and *placement* is its
      position in the system prompt; *results* renders a tool result; *shown_reasoning* selects the
      earlier reasoning that the model sees; *stops* replaces the format's stop strings.
    * Responses: *arguments*, *repair*, *trim*, *reasoning*, *prompt_suffix*, *fenced*,
      *reasoning_only* and *stray_reasoning* are options of `penstock.Parser`; *repair* and *trim*
      are on by default.
    * *quoted* decides what happens to a call that occurs literally in a tool result, a document or
      an earlier user message of the conversation: ``text`` (the default) keeps it as text and
      notifies *on_error*, ``calls`` accepts it. *quoted_tools* overrides this for single tools, by
      name or pattern: ``{"read_*": "calls"}``.
    * *constrain* is the kind of constrained output that the upstream supports; a demanded call is
      then forced. Otherwise a response without the call is requested again, up to *retries* times.
      With *send_back* this also applies to calls of unknown tools and to arguments that do not
      satisfy the schema of the tool.
    * *on_error* is called for text that looks like a call and is not accepted as one. *debug* is a
      mode of `penstock.debug`, by default that of the environment; its lines go to *write*, or else
      to stderr, and its summary to *on_summary* if that is given.

    Raises `UsageError` for an unknown format and for negative *retries*.
    """

    def __init__(  # noqa: PLR0913 - each is an independent option with a default
        self,
        model: Model,
        format: FormatLike = "auto",  # noqa: A002 - the public name of this option
        *,
        arguments: Arguments = "whole",
        repair: bool = True,
        trim: bool = True,
        reasoning: str | Reasoning | None = None,
        prompt_suffix: str = "",
        quoted: QuotedCalls = "text",
        quoted_tools: Mapping[str, QuotedCalls] | None = None,
        fenced: FencedCalls = "text",
        reasoning_only: ReasoningOnly | None = None,
        stray_reasoning: StrayReasoning | None = None,
        placement: Placement = "first",
        template: Template | None = None,
        results: Callable[[ToolResult], str] | None = None,
        shown_reasoning: ShownReasoning | None = None,
        stops: Iterable[str] | None = None,
        constrain: Constraint | None = None,
        retries: int = RETRIES,
        send_back: bool = False,
        on_error: OnError | None = None,
        debug: str | DebugSettings | None = None,
        write: Write | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        if retries < 0:
            raise UsageError(f"retries must be 0 or more, got {retries}")
        for value in (quoted, fenced, *(quoted_tools or {}).values()):
            check_choice("each of quoted, quoted_tools and fenced", value)
        self._model = model
        rendering = {
            "template": template,
            "placement": placement,
            "result": results,
            "shown_reasoning": shown_reasoning,
            "stops": None if stops is None else tuple(stops),
            "on_error": on_error,
        }
        # A format of the user's own may not know the newer options: pass only those that are set.
        parser: dict[str, Any] = {"arguments": arguments, "repair": repair, "trim": trim}
        if prompt_suffix:
            parser["prompt_suffix"] = prompt_suffix
        if fenced != "text":
            parser["fenced"] = fenced
        check_reasoning_options(reasoning_only, stray_reasoning)
        if reasoning_only is not None:
            parser["reasoning_only"] = reasoning_only
        if stray_reasoning is not None:
            parser["stray_reasoning"] = stray_reasoning
        tracer = Tracer(debug, write, on_summary)
        self._planner = RequestPlanner(get(format), rendering, reasoning, constrain)
        self._options = ReadOptions(parser, retries, send_back, on_error, tracer)
        self._quoted = quoted, quoted_tools

    @property
    def name(self) -> str:
        """The name of the upstream model."""
        return self._model.name

    @property
    def api_name(self) -> str:
        """The name of the upstream's API."""
        return self._model.api_name

    @property
    def interval(self) -> float:
        """The minimum number of seconds between two deltas of a stream: the upstream's."""
        return self._model.interval

    def stream(self, request: RequestLike) -> EventStream:
        """Start the response to *request*; every failure is reported in the stream.

        Raises `UsageError` if *request* is not a request, as do `batches` and `complete`.
        """
        batches = self._respond(make_request(request), None)
        return EventStream(iter_events(batches), interval=self.interval)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the response as they arrive.

        *tap* observes the exchange with the upstream, in every attempt.
        """
        return ensure_end(self._respond(make_request(request), tap))

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Return the whole response; a failed one has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    def without_retries(self) -> ToolMiddleware:
        """Return a copy that tries once and whose upstream tries once; close the original only."""
        twin = copy(self)
        twin._model = self._model.without_retries()  # noqa: SLF001 - our own copy
        twin._options = replace(self._options, retries=0)  # noqa: SLF001 - our own copy
        return twin

    @property
    def format_name(self) -> str:
        """The name of the format in which calls in the text are read."""
        return self._planner.format.name

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return how the model can be made to write JSON, best first.

        Its server may ignore a response format, so that is used only with *constrain*.
        """
        # A response format constrains the whole response, so no call could be in it.
        if self._planner.constrain == "json_schema" and not has_tools:
            return ("native", "prompt")
        return ("prompt", "tool")

    async def close(self) -> None:
        """Close the upstream model."""
        await self._model.close()

    async def _respond(self, request: Request, tap: Tap | None) -> Batches:
        plan = self._planner.plan(request, self._model.name, self._model.api_name)
        ids = ids_for(request)
        if plan.whole:
            message = await collect_message(self._model.batches(plan.request, tap))
            yield make_call_events(message, plan.demand, ids(), self._options.on_error)
            return
        untrusted = untrusted_in(request, *self._quoted)
        runner = AttemptRunner(self._model, plan, self._options, ids, tap, untrusted)
        async with aclosing(runner.batches()) as batches:
            async for batch in batches:
                yield batch


class RequestPlanner(Struct, frozen=True):
    """Plans requests; *rendering* are options of `PromptRenderer`."""

    format: AnyFormat
    rendering: dict[str, Any]
    reasoning: str | Reasoning | None = None
    constrain: Constraint | None = None

    def plan(self, request: Request, model: str, api: str) -> RequestPlan:
        """Return the plan for *request* to *model*, whose server uses *api*.

        Raises `UsageError` for a tool choice that cannot be satisfied.
        """
        demand = tool_choice.parse_demand(request)
        renderer = PromptRenderer(self._choose_format(model, request.model), **self.rendering)
        # A schema cannot say "text or a call", so it is used only where a call was demanded.
        whole = self.constrain == "json_schema" and demand.forced
        prompt = tool_choice.render_json_prompt(demand.tools) if whole else None
        upstream = renderer.render(request, demand.tools, rule=demand.rule, prompt=prompt)
        reads, reasoning = self.format, self.reasoning
        if whole:
            upstream = tool_choice.constrain_to_json(upstream, demand)
        elif self.constrain is not None:
            constrained = tool_choice.constrain_request(
                upstream, demand, renderer.format, self.constrain, api or DEFAULT_API
            )
            if constrained is not None:
                upstream, reads = constrained, renderer.format
        if not demand.tools:
            reads, reasoning = without_calls(reads, reasoning)
        return RequestPlan(demand, renderer, upstream, reads, reasoning, whole)

    def _choose_format(self, *models: str) -> AnyFormat:
        """Return the format for the prompt: the given one, or else the one of the model's name."""
        if self.format.name != "auto":
            return self.format
        found = [for_model(model).format for model in models]
        return get(next((name for name in found if name != "auto"), UNKNOWN_MODEL))


def without_calls(
    format: AnyFormat,  # noqa: A002 - the public name of this option
    reasoning: str | Reasoning | None,
) -> tuple[AnyFormat, str | Reasoning | None]:
    """Return a format and a style that read reasoning and no calls: a call stays text.

    A format that can only tell reasoning from calls by parsing both is returned unchanged.
    """
    if not isinstance(format, Format) or format.usual_reasoning is None:
        return format, reasoning
    return get("none"), reasoning or format.usual_reasoning


# --- presets of `ToolMiddleware` for well-known model families ---


def gemma_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools that it calls in code blocks labelled ``tool_call``."""
    return ToolMiddleware(model, "gemma", **options)


def hermes_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools that it calls with JSON between ``<tool_call>`` tags."""
    return ToolMiddleware(model, "hermes", **options)


def xml_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools that it calls with an XML element named after the tool."""
    return ToolMiddleware(model, "morph_xml", **options)


def qwen_tools(model: Model, **options: Any) -> ToolMiddleware:
    """Return *model* with tools as for chat.qwen.ai: a plain list at the end of the prompt."""
    own: dict[str, Any] = {
        "template": qwen_prompt,
        "placement": "last",
        "results": qwen_result,
        **options,
    }
    return ToolMiddleware(model, "qwen_web", **own)


# --- the prompt for chat.qwen.ai ---

_QWEN: Final = """\
====

TOOL USE

You have tools. To use one, write an element whose tag is the name of the tool, with one element \
inside for each parameter, as its usage shows. Use exactly one tool per message: its result comes \
in the next message. A list has one <item> for each of its elements. Write values as they are and \
close every tag.

<tools>
{tools}
</tools>"""

_EXAMPLES: Final = {
    "string": "example_value",
    "integer": "100",
    "number": "100",
    "boolean": "true",
    "array": "[]",
    "object": "{}",
}


def qwen_prompt(shown: str) -> str:
    """Return the tools, given as a JSON list, as a plain list with an example call for each."""
    tools = read_tools(_json.decode(shown))
    return _QWEN.replace("{tools}", "\n\n".join(_describe(tool) for tool in tools))


def qwen_result(result: ToolResult) -> str:
    """Return the text of a tool result for chat.qwen.ai."""
    name = f" from {result.name}" if result.name else ""
    return f"Tool Result{name}:\n{result_text(result).strip() or NO_OUTPUT}"


def _describe(tool: Tool) -> str:
    schema = Schema(tool.parameters)
    names = list(schema.properties)
    listed = ["Parameters:", *(_describe_parameter(name, schema) for name in names)]
    usage = [
        f"<{tool.name}>",
        *(_describe_usage(name, schema) for name in names),
        f"</{tool.name}>",
    ]
    return "\n".join(
        [
            f"## {tool.name}",
            f"Description: {tool.description}",
            *(listed if names else ["Parameters: None"]),
            "",
            "Usage:",
            *usage,
        ]
    )


def _describe_parameter(name: str, schema: Schema) -> str:
    inner = schema.property(name)
    needed = "required" if name in schema.required else "optional"
    kind = (inner.wants if inner is not None else None) or "string"
    description = inner.raw.get("description") if inner and isinstance(inner.raw, dict) else ""
    return f"- {name}: ({needed}) {kind}" + (f" - {description}" if description else "")


def _describe_usage(name: str, schema: Schema) -> str:
    inner = schema.property(name)
    raw = inner.raw if inner is not None and isinstance(inner.raw, dict) else {}
    if raw.get("default") is not None:
        value = content_text(raw["default"])
    else:
        value = _EXAMPLES.get((inner.wants if inner is not None else None) or "", "value")
    return f"<{name}>{value}</{name}>"
