"""Templates from formats: the `response_template` of Hugging Face that reads a format's calls.

The markers of a format are found in calls that it has written. Formats whose responses are framed
messages are written out below, because text and reasoning are messages there as well. A template
is returned only if it reads calls of the format back.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.formats.base import Format
from penstock.formats.response_template import SAMPLE_CALLS, SAMPLE_TOOLS, read_whole
from penstock.formats.template_fields import ResponseTemplate, TemplateBodyError, load_template
from penstock.messages import ToolCall

_NAME: Final = "qqnameqq"
_OTHER: Final = "rrnamerr"
_KEY: Final = "qqkeyqq"
_VALUE: Final = "qqvalueqq"
_OBJECTS: Final = (f'{{"{_KEY}": "{_VALUE}"}}', f'{{"{_KEY}":"{_VALUE}"}}')
_ARGUMENTS: Final = {_KEY: _VALUE}
# Tokens after calls that have no end marker of their own.
_TURN_ENDS: Final = ("</s>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "<|end|>",
    "<|message_sep|>", "<|endoftext|>")  # fmt: skip
_TRANSFORM: Final = {
    "type": "function",
    "function": {"name": "{name}", "arguments": "{content}"},
}

_START: Final = r"(?:<\|start\|>assistant)?"


def _messages(*headers: str, ends: list[str]) -> dict[str, Any]:
    return {"open": list(headers), "close": ends}


def _started(header: str, ends: list[str]) -> dict[str, Any]:
    """Return the field of messages with *header*; the prompt ends with the start of the first."""
    return _messages(header, f"<|start|>assistant{header}", ends=ends)


_HARMONY_ENDS: Final = ["<|end|>", "<|return|>", "<|call|>"]
_INKLING_ENDS: Final = ["<|end_message|>", "<|content_model_end_sampling|>"]
_MUSE_ENDS: Final = ["<|eom|>", "<|eot|>"]
# The fields of formats whose responses are messages. Text between messages is not content.
_MESSAGES: Final[dict[str, dict[str, Any]]] = {
    "harmony": {
        "thinking": _started("<|channel|>analysis<|message|>", _HARMONY_ENDS),
        "tool_calls": {
            # The recipient comes before the channel, or after it.
            "open_pattern": _START + r"(?:<\|channel\|>commentary)?\s*to=functions\."
            r"(?P<name>[^\s<]+)(?:<\|channel\|>commentary)?\s*(?:<\|constrain\|>)?(?:json)?<\|message\|>",
            "close": ["<|call|>", "<|end|>"],
            "repeats": True,
            "content": "json",
            "transform": _TRANSFORM,
        },
        "content": {
            "open_pattern": _START + r"<\|channel\|>(?:final|commentary)<\|message\|>",
            "close": _HARMONY_ENDS,
        },
    },
    "beam": {
        "thinking": _started("<|channel|>analysis<|message|>", _HARMONY_ENDS),
        "tool_calls": {
            "open_pattern": _START + r"\s*to=(?P<name>[^\s<]+)<\|channel\|>analysis\s*"
            r"<\|constrain\|>xml<\|message\|>",
            "close": ["<|call|>", "<|end|>"],
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r'<rfl:parameter name="(?P<key>[^"]+)">\n(?P<value>.*?)\n'
                "</rfl:parameter>"
            },
            "transform": _TRANSFORM,
        },
        "content": _started("<|channel|>final<|message|>", _HARMONY_ENDS),
    },
    "inkling": {
        "thinking": _messages(
            "<|message_model|><|content_thinking|>", "<|content_thinking|>", ends=_INKLING_ENDS
        ),
        "tool_calls": {
            "open_pattern": r"(?:<\|message_model\|>[^<]*)?<\|content_invoke_tool_json\|>",
            "close": _INKLING_ENDS,
            "repeats": True,
            "content": "json",
            "transform": {
                "type": "function",
                "function": {"name": "{content.name}", "arguments": "{content.args}"},
            },
        },
        "content": _messages(
            "<|message_model|><|content_text|>", "<|content_text|>", ends=_INKLING_ENDS
        ),
    },
    "muse_glimmer": {
        "thinking": _messages("to=self<|message|>", ends=_MUSE_ENDS),
        "tool_calls": {
            "open_pattern": r'<atem:invoke name="(?P<name>[^"]+)">',
            "close": "</atem:invoke>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r'<atem:parameter name="(?P<key>[^"]+)">(?P<value>.*?)'
                "</atem:parameter>"
            },
            "transform": _TRANSFORM,
        },
        "content": _messages("to=user<|message|>", ends=_MUSE_ENDS),
    },
    "solar_open": {
        "thinking": _messages("<|think|>", ends=["<|end|>"]),
        "tool_calls": {
            "open_pattern": r"<\|tool_call:begin\|>[^<]*<\|tool_call:name\|>(?P<name>[^\s<]+)"
            r"<\|tool_call:args\|>",
            "close": "<|tool_call:end|>",
            "repeats": True,
            "content": "json",
            "transform": _TRANSFORM,
        },
        "content": _messages("<|content|>", ends=["<|end|>"]),
    },
}

# Calls whose markers cannot be found by comparing what the format writes.
_CALLS: Final[dict[str, dict[str, Any]]] = {
    "command_r_plus": {  # The JSON is written over several lines.
        "open_pattern": r"Action:\s*```json",
        "close": "```",
        "content": "json",
        "transform": {
            "type": "function",
            "function": {"name": "{tool_name}", "arguments": "{parameters}"},
        },
        "transform_each": True,
    },
    "plamo3": {  # All of its markers end alike.
        "open_pattern": r"(?:<\|plamo:begin_tool_requests:plamo\|>)?"
        r"<\|plamo:begin_tool_request:plamo\|><\|plamo:begin_tool_name:plamo\|>(?P<name>[^\s<]+)"
        r"<\|plamo:end_tool_name:plamo\|><\|plamo:begin_tool_arguments:plamo\|>"
        r"<\|plamo:constrain\|>json<\|plamo:msg\|>",
        "close_pattern": r"<\|plamo:end_tool_arguments:plamo\|><\|plamo:end_tool_request:plamo\|>"
        r"(?:<\|plamo:end_tool_requests:plamo\|>)?",
        "repeats": True,
        "content": "json",
        "transform": _TRANSFORM,
    },
    "sentinel": {  # The name is in JSON, too.
        "open_pattern": r'\[\[SEG_START\s*\{"type":\s*"tool",\s*"tool_name":\s*'
        r'"(?P<name>[^"]+)"\}\]\]',
        "close": "[[SEG_END]]",
        "repeats": True,
        "content": "json",
        "transform": _TRANSFORM,
    },
}


def write_response_template(fmt: Format, *, start_anchor: str) -> dict[str, Any]:
    """Return the `response_template` of *fmt*; *start_anchor* ends the prompt before a response.

    Raises `UsageError` for a format that no template can express.
    """
    if fmt.name in ("auto", "none"):
        raise UsageError(f"the format {fmt.name!r} has no template: it has no markers of its own")
    try:
        template = _write_template(fmt, start_anchor)
        _require_same_calls(fmt, load_template(template))
    except (TemplateBodyError, JSONParseError) as exc:
        raise UsageError(
            f"no response_template can express the format {fmt.name!r}: {exc}"
        ) from exc
    return template


def _require_same_calls(fmt: Format, template: ResponseTemplate) -> None:
    """Raise `TemplateBodyError` unless *template* reads the calls that *fmt* writes."""
    field = template.field("tool_calls")
    for calls in (SAMPLE_CALLS[:1], SAMPLE_CALLS[1:], SAMPLE_CALLS):
        said = [(call.name, call.arguments) for call in calls]
        if not field or read_whole(template, field, fmt.render_calls(calls), SAMPLE_TOOLS) != said:
            raise TemplateBodyError("the template does not read back the format's calls")


def _write_template(fmt: Format, start_anchor: str) -> dict[str, Any]:
    if fmt.name in _MESSAGES:
        fields = copy.deepcopy(_MESSAGES[fmt.name])
        return {"defaults": {"role": "assistant"}, "start_anchor": start_anchor, "fields": fields}
    fields = {}
    reasoning = fmt.usual_reasoning
    if reasoning is not None and reasoning.starts and reasoning.ends:
        close = _any_of(reasoning.ends) + r"\s*"
        fields["thinking"] = {"open": list(reasoning.starts), "close_pattern": close}
    fields["tool_calls"] = _write_calls(fmt)
    ends = [wrapper.marker for wrapper in fmt.wrappers if wrapper.where == "anywhere"]
    fields["content"] = {"close_pattern": _any_of(ends) + r"\s*"} if ends else {}
    return {"defaults": {"role": "assistant"}, "start_anchor": start_anchor, "fields": fields}


def _any_of(texts: Iterable[str]) -> str:
    return "(?:" + "|".join(map(re.escape, texts)) + ")"


def _loose(text: str) -> str:
    """Return the pattern of *text*, with any white space where it has some.

    Kimi K2 counts the calls after their name: ``functions.NAME:0``.
    """
    return r"\s*".join(map(re.escape, re.split(r"\s+", text))).replace(":0", r":\d+")


class _Frame(Struct, frozen=True):
    """What a format writes around calls: *head* and *end* of each, a section around all of them."""

    opening: str
    head: str
    end: str
    closing: str

    @property
    def close_pattern(self) -> str:
        """The closer of a call, and of its section where that follows."""
        if not self.end.strip():  # Nothing ends a call but the next one, or the response.
            return f"(?={_loose(self.head.strip())})|$"
        closing = rf"(?:\s*{_loose(self.closing.strip())})?" if self.closing.strip() else ""
        return _loose(self.end.strip()) + closing + r"\s*"

    def open_pattern(self, name: str, tail: str) -> str:
        """Return the opener of a call: a section may begin before it; *name* is a pattern."""
        opening = rf"(?:{_loose(self.opening.strip())}\s*)?" if self.opening.strip() else ""
        return opening + _loose(self.head.lstrip()) + f"(?P<name>{name})" + _loose(tail.rstrip())


def _find_overlap(before: str, between: str) -> int:
    """Return how many characters *before* and *between* end with alike."""
    sizes = range(len(between), -1, -1)
    return next(n for n in sizes if before.endswith(between[len(between) - n :]))


def _find_frame(fmt: Format, arguments: str) -> _Frame:
    """Find the markers of *fmt* around calls that have *arguments* as their text."""
    one = fmt.render_call(ToolCall("", _NAME, _ARGUMENTS))
    try:
        two = fmt.render_calls([ToolCall("", name, _ARGUMENTS) for name in (_NAME, _OTHER)])
    except UsageError:
        two = one + one.replace(_NAME, _OTHER)
    before, rest = one[: one.find(_NAME)], one[one.rfind(arguments) + len(arguments) :]
    between = two[two.find(arguments) + len(arguments) : two.rfind(_OTHER)]
    head = _find_overlap(before, between)
    end = next(n for n in range(len(between) - head, -1, -1) if rest.startswith(between[:n]))
    if not head:
        raise TemplateBodyError("the calls of one message have no markers of their own")
    return _Frame(
        before[: len(before) - head], before[len(before) - head :], rest[:end], rest[end:]
    )


def _write_calls(fmt: Format) -> dict[str, Any]:
    """Return the field of the calls, from the places of name and arguments in written calls."""
    if fmt.name in _CALLS:
        return copy.deepcopy(_CALLS[fmt.name])
    text = fmt.render_call(ToolCall("", _NAME, _ARGUMENTS))
    if text.count(_NAME) != 1 or text.count(_VALUE) != 1 or text.find(_KEY) < text.find(_NAME):
        raise TemplateBodyError("name, keys and values are not written once each, in this order")
    written = next((one for one in _OBJECTS if one in text), "")
    before = text[: text.find(_KEY)]
    if written and '"' in text[: text.find(written)]:
        return _write_envelope(text)
    content: dict[str, Any] = {"content": "json"}
    bare = re.search(rf"\{{{_KEY}:(\S{{1,20}}){_VALUE}\1\}}", text)
    if bare is not None:
        written = bare[0]
        content["content_args"] = {"string_delims": [[bare[1], bare[1]]], "unquoted_keys": True}
    if not written:
        return _write_parameters(fmt, text, before)
    frame = _find_frame(fmt, written)
    tail = text[text.find(_NAME) + len(_NAME) : text.find(written)]
    return {
        "open_pattern": frame.open_pattern(r"[^\s<>{\[\(|]+", tail),
        "close_pattern": frame.close_pattern,
        "repeats": True,
        **content,
        "transform": _TRANSFORM,
    }


def _write_envelope(text: str) -> dict[str, Any]:
    """Return the field of calls that are JSON objects with their name inside."""
    begin, end = text.find("{"), text.rfind("}") + 1
    is_listed = text[:begin].rstrip().endswith("[") and text[end:].lstrip().startswith("]")
    if is_listed:
        begin, end = text.rfind("[", 0, begin), text.find("]", end) + 1
    start, close = text[:begin].strip(), text[end:].strip()
    if not start:
        raise TemplateBodyError("the calls have no markers around them")
    value = _json.decode(text[begin:end])
    item = value[0] if is_listed else value
    names = [key for key, one in item.items() if one == _NAME]
    arguments = [key for key, one in item.items() if one == _ARGUMENTS]
    if not names or not arguments:
        raise TemplateBodyError("name and arguments are not side by side")
    prefix = "" if is_listed else "content."
    function = {"name": f"{{{prefix}{names[0]}}}", "arguments": f"{{{prefix}{arguments[0]}}}"}
    if close:
        closer = {"close_pattern": re.escape(close) + r"\s*"}
    else:  # The end of the turn ends the calls, if it is printed, or the next call.
        again = "" if is_listed else f"(?={re.escape(start)})|"
        closer = {"close_pattern": again + _any_of(_TURN_ENDS)}
    field = {
        "open": start,
        **closer,
        "repeats": not is_listed,
        "content": "json",
        "transform": {"type": "function", "function": function},
    }
    return {**field, "transform_each": True} if is_listed else field


def _write_parameters(fmt: Format, text: str, before: str) -> dict[str, Any]:
    """Return the field of calls with a tag for each argument."""
    two = fmt.render_call(ToolCall("", _NAME, {_KEY: _VALUE, "rrkeyrr": "rrvaluerr"}))
    middle = text[text.find(_KEY) + len(_KEY) : text.find(_VALUE)]
    # Between two values is the closer of one tag and the opener of the next.
    between = two[two.find(_VALUE) + len(_VALUE) : two.find("rrkeyrr")]
    size = _find_overlap(before, between)
    opener, closer = between[len(between) - size :], between[: len(between) - size]
    if not opener.strip() or not closer.strip():
        raise TemplateBodyError("arguments have no markers around them")
    frame = _find_frame(
        fmt,
        before[before.find(_NAME) + len(_NAME) :]
        + text[len(before) : text.find(_VALUE)]
        + _VALUE
        + closer,
    )
    tail = before[before.find(_NAME) + len(_NAME) : len(before) - size]
    stop = re.escape((tail.strip() or opener.strip())[0])
    last = re.escape((middle.strip() or ">")[0])
    tag = f"{_loose(opener)}(?P<key>[^{last}\\n]+){_loose(middle)}(?P<value>.*?){_loose(closer)}"
    return {
        "open_pattern": frame.open_pattern(rf"[^{stop}\s]+", tail),
        "close_pattern": frame.close_pattern,
        "repeats": True,
        "content": "xml-inline",
        "content_args": {"tag_pattern": tag, "value_parser": {"name": "text"}},
        "transform": _TRANSFORM,
    }
