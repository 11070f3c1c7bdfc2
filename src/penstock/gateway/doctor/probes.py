"""What can be asked of a server to learn how it behaves: each probe is a question and a verdict.

A verdict says what was seen, not what is written somewhere. Where a server is to be held to a form,
the form is one that no model writes by chance, and the question does not speak of it. Every probe
is bounded in time and in tokens; what fails in one is its finding, and the next one is asked.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, field

from penstock import apis
from penstock.formats import detect, for_model, parse
from penstock.formats.reasoning import STYLES
from penstock.gateway.doctor.probe import ProbeClient, ProbeResult
from penstock.request import Request, ResponseFormat, ToolChoice
from penstock.tools import Tool

Verdict = Literal["yes", "no", "partly", "unknown"]
"""What came of a probe; *unknown* where nothing came that tells."""

TIDE: Final = Tool(
    "get_tide",
    "Give the time of the next high water in a port",
    {
        "type": "object",
        "properties": {"port": {"type": "string", "description": "The port, such as Leith"}},
        "required": ["port"],
    },
)
"""The tool that is offered."""

_COUNT: Final = "Count from one to twenty in words, on one line, separated by commas."
_ASK_TIDE: Final = "When is the next high water in Leith? Use the tool."
_HELLO: Final = "Say hello."
_MARK: Final = "zqx-7391-vlk"
"""What no model says when it says hello."""

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
    """What a *probe* found, in words and, for machines, in *facts*."""

    probe: str
    verdict: Verdict
    words: str
    facts: dict[str, Any] = field(default_factory=dict)


# --- how answers come ---


async def probe_stream(asker: ProbeClient) -> tuple[ProbeResult, list[ProbeFinding]]:
    """See how an answer comes, how it ends, and whether it says what it cost."""
    heard = await asker.ask(_COUNT)
    return heard, [_streams(heard), _ends(heard, asker.api), _usage(heard)]


def _streams(heard: ProbeResult) -> ProbeFinding:
    first = heard.first or 0.0
    facts = {
        "pieces": heard.deltas,
        "arrivals": heard.arrivals,
        "first_token": round(first, 3),
        "seconds": round(heard.took, 3),
    }
    if not heard.deltas:
        return ProbeFinding("stream", "unknown", f"nothing came: {heard.why or 'no word'}", facts)
    if heard.arrivals > 1:
        words = f"{heard.deltas} pieces, the first after {first:.2f} s, all in {heard.took:.2f} s"
        return ProbeFinding("stream", "yes", words, facts)
    if heard.arrivals and heard.deltas > 1:
        words = f"{heard.deltas} pieces, but all at once after {first:.2f} s: something buffers"
        return ProbeFinding("stream", "partly", words, facts)
    return ProbeFinding("stream", "no", f"everything in one piece after {first:.2f} s", facts)


def _ends(heard: ProbeResult, api: str) -> ProbeFinding:
    reason = heard.message.raw_stop_reason or ""
    is_marked = b"[DONE]" in heard.raw
    facts = {"finish_reason": reason, "done_marker": is_marked}
    if heard.error is not None:
        return ProbeFinding("end", "no", f"the answer failed: {heard.why}", facts)
    missing = ["a finish reason"] if not reason else []
    if api == _CHAT and not is_marked and not heard.raw.lstrip().startswith(b"{"):
        missing.append("[DONE]")
    if missing:
        return ProbeFinding("end", "partly", f"without {' and '.join(missing)}", facts)
    return ProbeFinding("end", "yes", f"finish reason {reason!r}", facts)


def _usage(heard: ProbeResult) -> ProbeFinding:
    usage = heard.message.usage
    facts = {"input": usage.input, "output": usage.output}
    if not (usage.input or usage.output):
        return ProbeFinding("usage", "no", "no tokens are reported", facts)
    return ProbeFinding("usage", "yes", f"{usage.input} tokens in, {usage.output} out", facts)


# --- calls ---


class Offered(Struct, frozen=True):
    """What came of a tool that was offered: a *call* of the server's own, or one in *format*."""

    heard: ProbeResult
    call: bool
    format: str = ""

    @property
    def words(self) -> str:
        """What was seen."""
        if self.heard.error is not None:
            return f"refused ({self.heard.why})"
        if self.call:
            return "a call"
        return f"a call as text ({self.format})" if self.format else "no call"


async def offer(asker: ProbeClient, mode: Literal["required", "auto", "words"]) -> Offered:
    """Offer a tool: as one that must be called, as one that may be, or in words of the prompt."""
    in_words = mode == "words"
    choice = None if mode == "words" else ToolChoice(mode)
    heard = await asker.ask(_ASK_TIDE, in_words=in_words, tools=[TIDE], tool_choice=choice)
    calls = [call for call in heard.message.tool_calls if call.name == TIDE.name and call.complete]
    found = detect(heard.message.text, [TIDE])
    return Offered(heard, bool(calls), "" if found is None else found.name)


async def probe_tools(asker: ProbeClient) -> tuple[list[Offered], ProbeFinding]:
    """See whether the server calls tools by itself."""
    required, auto = await offer(asker, "required"), await offer(asker, "auto")
    facts = {"required": required.words, "auto": auto.words}
    words = f"required: {required.words}; auto: {auto.words}"
    verdict: Verdict = "no"
    if auto.call and required.call:
        verdict, words = "yes", "required or not, a native call"
    elif auto.call or required.call:
        verdict = "partly"
    return [required, auto], ProbeFinding("tools", verdict, words, facts)


async def probe_format(
    asker: ProbeClient, offered: list[Offered], *, is_native: bool
) -> tuple[Offered | None, ProbeFinding]:
    """See in which format calls are written as text: as the tools were offered, else in words."""
    by_name = for_model(asker.name)
    usual = str(getattr(by_name.format, "name", by_name.format))
    facts: dict[str, Any] = {"by_name": usual, "pattern": by_name.pattern, "seen": "", "told": ""}
    known = f"; by its name it is {usual}" if by_name.pattern else "; its name tells nothing"
    seen = next((one.format for one in offered if one.format), "")
    if seen:
        facts["seen"] = seen
        return None, ProbeFinding("format", "yes", f"calls come as text of {seen}{known}", facts)
    if is_native:
        return None, ProbeFinding("format", "unknown", f"no call came as text{known}", facts)
    told = await offer(asker, "words")
    facts["told"] = told.format
    if told.format:
        words = f"told of tools in words, it calls as {told.format}{known}"
        return told, ProbeFinding("format", "yes", words, facts)
    why = told.heard.why or "an answer without a call"
    return told, ProbeFinding("format", "no", f"told of tools in words: {why}{known}", facts)


# --- reasoning ---


def probe_reasoning(answers: list[ProbeResult], name: str) -> ProbeFinding:
    """See in what came already whether reasoning are kept apart, or left in the text."""
    facts: dict[str, Any] = {"where": "", "style": None, "prompt_suffix": ""}
    messages = [heard.message for heard in answers]
    if any(message.thinking for message in messages):
        facts["where"] = "apart"
        return ProbeFinding("reasoning", "yes", "thoughts are kept apart from the text", facts)
    for message in messages:
        style, suffix = _thoughts_in(message.text, name)
        if style is not None or suffix:
            facts |= {"where": "text", "style": style or None, "prompt_suffix": suffix}
            return ProbeFinding("reasoning", "no", f"thoughts are in the text{_as(style)}", facts)
    return ProbeFinding("reasoning", "unknown", "no thoughts were seen", facts)


def _thoughts_in(text: str, name: str) -> tuple[str | None, str]:
    """Return the style that finds reasoning in *text* (empty: any does), or what opened them.

    Some templates open the thought themselves, so that only its end is in the answer.
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


def _as(style: str | None) -> str:
    return f", marked as {style}" if style else ", where penstock finds them"


# --- forms ---


async def probe_form(asker: ProbeClient, form: str) -> ProbeFinding:
    """See whether the server holds its model to a form; *form* is a word of `constrain`."""
    fields, words = _FORMS[form]
    if form != "json_schema" and asker.api != _CHAT:
        return ProbeFinding(form, "no", "this API has no word for it")
    request = Request(response_format=fields.get("response_format"), source=asker.api)
    if "response_format" in apis.get(asker.api).left_out(request):
        return ProbeFinding(form, "no", "this API has no word for it")
    heard = await asker.ask(_HELLO, **fields)
    if _MARK in heard.message.text:
        return ProbeFinding(form, "yes", f"{words} is honoured")
    if heard.error is not None:
        return ProbeFinding(form, "no", f"refused ({heard.why})")
    return ProbeFinding(form, "no", f"{words} is ignored")


_FORMS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "json_schema": (
        {"response_format": ResponseFormat("schema", SCHEMA, "greeting", strict=True)},
        "a JSON schema",
    ),
    "grammar": ({"extra": {"grammar": GRAMMAR}}, "a grammar (GBNF)"),
    "structural_tag": ({"extra": {"response_format": STRUCTURAL_TAG}}, "a structural tag"),
}
FORMS: Final = tuple(_FORMS)
"""The forms that a server may be held to, as `constrain` calls them."""
