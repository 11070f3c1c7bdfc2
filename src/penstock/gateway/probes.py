"""Probes: requests that show how a server behaves, and what each of them found.

A finding reports what was observed. To test whether a server enforces an output format, the format
is one that no model writes by chance, and the prompt does not mention it. Every probe is limited in
time and tokens; a failure is its finding, and the next probe follows.
"""

from __future__ import annotations

import time
from typing import Any, Final, Literal

from msgspec import Struct, field

from penstock import apis
from penstock.events import DELTAS, ENDS, Event, Failed
from penstock.formats import detect, for_model, parse
from penstock.formats.reasoning import STYLES
from penstock.messages import AssistantMessage, ErrorInfo, Text
from penstock.models import ToolMiddleware
from penstock.models.base import Model, Tap, iter_events
from penstock.models.http.attempt import Report
from penstock.request import Request, ResponseFormat, ToolChoice, UserMessage
from penstock.tools import Tool

# --- one request ---


MAX_TOKENS: Final = 512
"""The longest response: a reasoning model needs some tokens before its first text."""

MAX_RECORDED: Final = 4 * 1024 * 1024
"""How many bytes of a response are recorded: some servers ignore every limit."""


class ProbeResult(Tap):
    """One response as it arrived: its message before any text was parsed, and its timing.

    *arrivals* counts the reads that brought deltas, *deltas* the deltas.
    """

    def __init__(self, api: str) -> None:
        self.message = AssistantMessage()
        self.error: ErrorInfo | None = None
        self.status: int | None = None
        self.seconds = 0.0
        self._api = apis.get(api)
        self._report: Report | None = None
        self._restart()

    def _restart(self) -> None:
        self.raw = bytearray()
        self.deltas = 0
        self.arrivals = 0
        self.first_token: float | None = None
        self._decoder = self._api.decoder()
        self._began = time.monotonic()

    def sent(self, body: bytes) -> None:
        """Start again with each call: chat.qwen.ai needs a call that creates a chat first."""
        del body
        self._restart()

    def received(self, data: bytes) -> None:
        """Record a chunk."""
        self.raw += data[: MAX_RECORDED - len(self.raw)]
        self.arrivals += self._count(self._decoder.feed(data)) > 0

    def _count(self, events: list[Event]) -> int:
        deltas = sum(isinstance(event, DELTAS) for event in events)
        self.deltas += deltas
        if deltas and self.first_token is None:
            self.first_token = time.monotonic() - self._began
        return deltas

    def reported(self, report: Report) -> None:
        """Keep the report, which is filled in while the response arrives."""
        self._report = report

    def end(self, error: ErrorInfo | None) -> None:
        """Record the end of the response."""
        self.error = error
        self.seconds = time.monotonic() - self._began
        self._count(self._decoder.finish())  # A whole response is decoded only here.
        self.status = None if self._report is None else self._report.status
        decoder = self._api.decoder()
        events = [*decoder.feed(bytes(self.raw)), *decoder.finish()]
        ends = [event.message for event in events if isinstance(event, ENDS)]
        self.message = ends[-1] if ends else AssistantMessage()

    @property
    def is_inconclusive(self) -> bool:
        """Whether the response failed for a reason that says nothing about the request."""
        error = self.error
        if error is None:
            return False
        return error.kind == "transport" or (error.status or 0) >= 500  # noqa: PLR2004

    @property
    def reason(self) -> str:
        """What went wrong, in one line."""
        if self.error is None:
            return ""
        status = f"{self.status}: " if self.status not in (None, 200) else ""
        return f"{status}{self.error.message}"


class ProbeClient:
    """Sends probes to one *model*, which its server calls *name*, through *api*."""

    def __init__(self, model: Model, api: str, name: str) -> None:
        self._model = model
        self.api = api
        self.name = name

    async def send(self, prompt: str, *, in_prompt: bool = False, **fields: Any) -> ProbeResult:
        """Send *prompt* with the `Request` *fields*; with *in_prompt*, tools are in the prompt."""
        request = Request(
            model=self.name,
            messages=[UserMessage([Text(prompt)])],
            max_tokens=MAX_TOKENS,
            source=self.api,
            **fields,
        )
        result = ProbeResult(self.api)
        model = ToolMiddleware(self._model, retries=0) if in_prompt else self._model
        error: ErrorInfo | None = None
        async for event in iter_events(model.batches(request, result)):
            if isinstance(event, Failed):
                error = event.error
        result.end(error)
        return result


# --- findings ---


Verdict = Literal["yes", "no", "partly", "unknown"]
"""The outcome of a probe; *unknown* if nothing conclusive was observed."""

TIDE: Final = Tool(
    "get_tide",
    "Return the time of the next high water in a port",
    {
        "type": "object",
        "properties": {"port": {"type": "string", "description": "The port, such as Leith"}},
        "required": ["port"],
    },
)
"""The tool that the model should call."""

_COUNT: Final = "Count from one to twenty in words, on one line, separated by commas."
_ASK_TIDE: Final = "When is the next high water in Leith? Use the tool."
_HELLO: Final = "Say hello."
_MARK: Final = "zqx-7391-vlk"
"""A string that no model writes in a greeting."""

GRAMMAR: Final = f'root ::= "{_MARK}"\n'
SCHEMA: Final = {
    "type": "object",
    "properties": {"zqx": {"type": "string", "enum": [_MARK]}},
    "required": ["zqx"],
    "additionalProperties": False,
}
STRUCTURAL_TAG: Final = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<zqx>"],
        "tags": [
            {
                "type": "tag",
                "begin": "<zqx>",
                "content": {"type": "const_string", "value": _MARK},
                "end": "</vlk>",
            }
        ],
        "at_least_one": True,
        "stop_after_first": True,
    },
}
_CHAT: Final = "openai-chat"


class ProbeFinding(Struct, frozen=True):
    """What a *probe* found: a sentence in *words*, and *facts* for programs."""

    probe: str
    verdict: Verdict
    words: str
    facts: dict[str, Any] = field(default_factory=dict)


# --- streaming ---


async def probe_stream(client: ProbeClient) -> tuple[ProbeResult, list[ProbeFinding]]:
    """Find out whether a response is streamed, how it ends, and whether it has usage."""
    result = await client.send(_COUNT)
    return result, [_check_stream(result), _check_end(result, client.api), _check_usage(result)]


def _check_stream(result: ProbeResult) -> ProbeFinding:
    first = result.first_token or 0.0
    facts = {
        "pieces": result.deltas,
        "arrivals": result.arrivals,
        "first_token": round(first, 3),
        "seconds": round(result.seconds, 3),
    }
    if not result.deltas:
        return ProbeFinding(
            "stream", "unknown", f"no content: {result.reason or 'the response is empty'}", facts
        )
    if result.arrivals > 1:
        words = (
            f"{result.deltas} deltas, the first after {first:.2f} s, all in {result.seconds:.2f} s"
        )
        return ProbeFinding("stream", "yes", words, facts)
    if result.arrivals and result.deltas > 1:
        words = (
            f"{result.deltas} deltas, all at once after {first:.2f} s: a proxy or server buffers,"
            " or the response was too short to tell"
        )
        return ProbeFinding("stream", "partly", words, facts)
    return ProbeFinding("stream", "no", f"one delta after {first:.2f} s", facts)


def _check_end(result: ProbeResult, api: str) -> ProbeFinding:
    reason = result.message.raw_stop_reason or ""
    is_marked = b"[DONE]" in result.raw
    facts = {"finish_reason": reason, "done_marker": is_marked}
    if result.error is not None:
        verdict: Verdict = "no" if result.deltas else "unknown"
        return ProbeFinding("end", verdict, f"the response failed: {result.reason}", facts)
    missing = ["a finish reason"] if not reason else []
    if api == _CHAT and not is_marked and not result.raw.lstrip().startswith(b"{"):
        missing.append("[DONE]")
    if missing:
        return ProbeFinding("end", "partly", f"without {' and '.join(missing)}", facts)
    return ProbeFinding("end", "yes", f"finish reason {reason!r}", facts)


def _check_usage(result: ProbeResult) -> ProbeFinding:
    usage = result.message.usage
    facts = {"input": usage.input, "output": usage.output}
    if not (usage.input or usage.output):
        if result.error is not None:
            return ProbeFinding("usage", "unknown", "the response failed", facts)
        return ProbeFinding("usage", "no", "the server reports no tokens", facts)
    return ProbeFinding(
        "usage", "yes", f"{usage.input} input tokens, {usage.output} output tokens", facts
    )


# --- calls ---


class ToolOutcome(Struct, frozen=True):
    """The outcome of offering a tool: a native *call*, or one in text of *format*."""

    result: ProbeResult
    call: bool
    format: str = ""

    @property
    def words(self) -> str:
        """The outcome in words."""
        if self.result.error is not None:
            verb = "failed" if self.result.is_inconclusive else "rejected"
            return f"{verb} ({self.result.reason})"
        if self.call:
            return "a native call"
        return f"a call in text ({self.format})" if self.format else "no call"


async def offer_tool(
    client: ProbeClient, mode: Literal["required", "auto", "prompt"]
) -> ToolOutcome:
    """Offer a tool that must be called, that may be called, or that is in the prompt."""
    in_prompt = mode == "prompt"
    choice = None if mode == "prompt" else ToolChoice(mode)
    result = await client.send(_ASK_TIDE, in_prompt=in_prompt, tools=[TIDE], tool_choice=choice)
    calls = [call for call in result.message.tool_calls if call.name == TIDE.name and call.complete]
    found = detect(result.message.text, [TIDE])
    return ToolOutcome(result, bool(calls), "" if found is None else found.name)


async def probe_tools(client: ProbeClient) -> tuple[list[ToolOutcome], ProbeFinding]:
    """Find out whether the server supports tools natively."""
    required, auto = await offer_tool(client, "required"), await offer_tool(client, "auto")
    facts = {"required": required.words, "auto": auto.words}
    words = f"required: {required.words}; auto: {auto.words}"
    verdict: Verdict = "no"
    if auto.call and required.call:
        verdict, words = "yes", "a native call, required or not"
    elif auto.call or required.call:
        verdict = "partly"
    elif auto.result.is_inconclusive or required.result.is_inconclusive:
        verdict = "unknown"
    return [required, auto], ProbeFinding("tools", verdict, words, facts)


async def probe_format(
    client: ProbeClient, outcomes: list[ToolOutcome], *, is_native: bool
) -> tuple[ToolOutcome | None, ProbeFinding]:
    """Find the format of calls in text: with native tools, or else with tools in the prompt."""
    by_name = for_model(client.name)
    usual = by_name.format if isinstance(by_name.format, str) else by_name.format.name
    facts: dict[str, Any] = {
        "by_name": usual,
        "pattern": by_name.pattern,
        "seen": "",
        "prompted": "",
    }
    known = f"; its name suggests {usual}" if by_name.pattern else "; its name is unknown"
    seen = next((one.format for one in outcomes if one.format), "")
    if seen:
        facts["seen"] = seen
        return None, ProbeFinding("format", "yes", f"calls are text in {seen}{known}", facts)
    if is_native:
        return None, ProbeFinding("format", "unknown", f"no call was text{known}", facts)
    prompted = await offer_tool(client, "prompt")
    facts["prompted"] = prompted.format
    if prompted.format:
        words = f"with tools in the prompt, calls are text in {prompted.format}{known}"
        return prompted, ProbeFinding("format", "yes", words, facts)
    reason = prompted.result.reason or "a response without a call"
    words = f"with tools in the prompt: {reason}{known}"
    verdict: Verdict = "unknown" if prompted.result.is_inconclusive else "no"
    return prompted, ProbeFinding("format", verdict, words, facts)


# --- reasoning ---


def probe_reasoning(results: list[ProbeResult], name: str) -> ProbeFinding:
    """Find out from earlier *results* whether reasoning is separate or in the text."""
    facts: dict[str, Any] = {"where": "", "style": None, "prompt_suffix": ""}
    messages = [result.message for result in results]
    if any(message.thinking for message in messages):
        facts["where"] = "apart"
        return ProbeFinding("reasoning", "yes", "reasoning is separate from the text", facts)
    for message in messages:
        style, suffix = _find_reasoning(message.text, name)
        if style is not None or suffix:
            facts |= {"where": "text", "style": style or None, "prompt_suffix": suffix}
            how = f", marked as {style}" if style else ", where penstock finds it"
            return ProbeFinding("reasoning", "no", f"reasoning is in the text{how}", facts)
    return ProbeFinding("reasoning", "unknown", "no reasoning was seen", facts)


def _find_reasoning(text: str, name: str) -> tuple[str | None, str]:
    """Return the style that finds reasoning in *text* (empty: any does), or the prompt suffix.

    Some chat templates end with ``<think>``, so that only the end marker is in the response.
    """
    if parse(text, "auto", [TIDE]).thinking:
        return "", ""
    by_name = for_model(name).reasoning
    named = [by_name] if isinstance(by_name, str) and by_name in STYLES else []
    for style in (*named, *STYLES):
        if parse(text, "auto", [TIDE], reasoning=style).thinking:
            return style, ""
    if "</think>" in text and "<think>" not in text:
        return None, "<think>\n"
    return None, ""


# --- constrained output ---


async def probe_constraint(client: ProbeClient, kind: str) -> ProbeFinding:
    """Find out whether the server enforces an output format; *kind* is a value of `constrain`."""
    fields, name = _CONSTRAINTS[kind]
    request = Request(response_format=fields.get("response_format"), source=client.api)
    if (kind != "json_schema" and client.api != _CHAT) or (
        "response_format" in apis.get(client.api).omitted_fields(request)
    ):
        return ProbeFinding(kind, "no", "the API has no field for it")
    result = await client.send(_HELLO, **fields)
    if _MARK in result.message.text:
        return ProbeFinding(kind, "yes", f"{name} is enforced")
    if result.is_inconclusive:
        return ProbeFinding(kind, "unknown", f"the request failed ({result.reason})")
    if result.error is not None:
        return ProbeFinding(kind, "no", f"rejected ({result.reason})")
    return ProbeFinding(kind, "no", f"{name} is ignored")


_CONSTRAINTS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "json_schema": (
        {"response_format": ResponseFormat("schema", SCHEMA, "greeting", strict=True)},
        "a JSON schema",
    ),
    "grammar": ({"extra": {"grammar": GRAMMAR}}, "a grammar (GBNF)"),
    "structural_tag": ({"extra": {"response_format": STRUCTURAL_TAG}}, "a structural tag"),
}
CONSTRAINTS: Final = tuple(_CONSTRAINTS)
"""The kinds of constrained output, as `constrain` names them."""
