"""Drivers of the conformance suite: penstock itself, vLLM, SGLang, transformers and smg.

The packages of other projects are imported when their driver is made; none of them is a dependency.
Their parsers are found by the names that they are registered with, which `penstock.formats` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from typing import Any, Final

import penstock
from penstock import apis, formats
from penstock.conformance.suite import Case, Driver, Reading
from penstock.errors import UsageError
from penstock.events import Event
from penstock.formats.base import Format, build_message
from penstock.formats.reasoning import STYLES
from penstock.testing.server_drivers import SmgDriver, VllmRustDriver
from penstock.testing.text_driver import (
    MarkerTokenizer,
    ReadingPieces,
    TextDriver,
    group_tokens,
    own_names,
    style_for,
    write_tool,
)

PINS: Final = {
    "vllm": "vllm 0.32.0",
    "sglang": "sglang 0.5.23",
    "transformers": "transformers 5.19.0",
    "vllm-rs": "vllm 0.32.0",
    "smg": "smg 1.13.0",
}
"""The packages and versions for which the drivers were written."""


class PenstockDriver:
    """Reads with penstock."""

    name = f"penstock {penstock.__version__}"

    def supports(self, case: Case) -> bool:
        """Return whether *case* can be read: all of them can."""
        del case
        return True

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read *chunks* as a user does; a call that was cut is text."""
        style = case.format if case.suite == "reasoning" and case.format in STYLES else None
        parser = formats.Parser(
            "none" if style else case.format,
            case.read_tools(),
            reasoning=style,
            prompt_suffix=case.prompt,
            # A response that its token limit cut is read as by the others, without repair.
            repair=case.ended,
        )
        events: list[Event] = []
        for chunk in chunks:
            events += parser.feed(chunk)
        return _read_events([*events, *parser.finish(cut=not case.ended)])

    def decode(self, case: Case, chunks: Sequence[bytes]) -> Reading:
        """Decode the stream of a provider."""
        decoder = apis.get(case.format).decoder()
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        return _read_events([*events, *decoder.finish()])


def _read_events(events: Iterable[Event]) -> Reading:
    message = build_message(events)
    calls = tuple((call.name, call.arguments) for call in message.tool_calls if call.complete)
    return Reading(message.text, message.thinking, calls)


# --- other projects ---


class VllmDriver(TextDriver):
    """Reads with vLLM's Python parsers, as its server does: token by token.

    The markers that a parser asks its tokenizer for are tokens, and a token is never cut.
    """

    # Their parsers need the model's own tokens, and raise for text.
    _unreachable = ("cohere_command", "harmony")

    def __init__(self) -> None:
        super().__init__("vllm")
        self._tools = import_module("vllm.tool_parsers.abstract_tool_parser").ToolParserManager
        self._reasoning = import_module("vllm.reasoning").ReasoningParserManager
        self._delegating = import_module("vllm.parser.abstract_parser").DelegatingParser
        protocol = import_module("vllm.entrypoints.openai.chat_completion.protocol")
        self._request = protocol.ChatCompletionRequest
        self._register(
            own_names(self._tools.list_registered()),
            own_names(self._reasoning.list_registered()),
        )

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read *chunks*; in one chunk, by the method for whole responses."""
        found = self._names[case.suite, case.format]
        is_reasoning = case.suite == "reasoning"
        beside = self._names.get(("reasoning", style_for(case)))
        tool_parser = None if is_reasoning else self._tools.get_tool_parser(found)
        name = found if is_reasoning else beside
        reasoning_parser = self._reasoning.get_reasoning_parser(name) if name else None

        # vLLM's server makes such a class of the two parsers that its command line names.
        class Both(self._delegating):  # type: ignore[name-defined, misc]
            tool_parser_cls = tool_parser
            reasoning_parser_cls = reasoning_parser

        tools = [write_tool(tool) for tool in case.read_tools()]
        body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        request = self._request(**body, **({"tools": tools} if tools else {}))
        tokenizer = MarkerTokenizer()
        parser = Both(tokenizer, request.tools)
        if len(chunks) == 1:
            return _read_vllm_whole(parser.parse(case.text, request, enable_auto_tools=True))
        pieces = ReadingPieces()
        groups = [*group_tokens(tokenizer.split(case.text), chunks)]
        for number, group in enumerate(groups):
            text = "".join(group)
            delta = parser.parse_delta(
                text, tokenizer.encode(text), request, [], finished=number == len(groups) - 1
            )
            if delta is None:
                continue
            pieces.content += delta.content or ""
            pieces.reasoning += delta.reasoning or ""
            for call in delta.tool_calls:
                function = call.function
                pieces.add(call.index, function and function.name, function and function.arguments)
        return pieces.make_reading()


# vLLM reads whole responses with other code than streams, and the results differ.
def _read_vllm_whole(result: tuple[str | None, str | None, Any]) -> Reading:
    reasoning, content, calls = result
    pieces = ReadingPieces()
    pieces.content, pieces.reasoning = content or "", reasoning or ""
    for index, call in enumerate(calls or ()):
        pieces.add(index, call.name, call.arguments)
    return pieces.make_reading()


class SglangDriver(TextDriver):
    """Reads with SGLang's detectors."""

    def __init__(self) -> None:
        super().__init__("sglang")
        protocol = import_module("sglang.srt.entrypoints.openai.protocol")
        self._tool = protocol.Tool
        self._calls = import_module("sglang.srt.function_call.function_call_parser")
        self._parsers = import_module("sglang.srt.parser.reasoning_parser")
        self._register(
            own_names(self._calls.FunctionCallParser.ToolCallParserEnum),
            own_names(self._parsers.ReasoningParser.DetectorMap),
        )

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read *chunks*; in one chunk, by the methods for whole responses."""
        found = self._names[case.suite, case.format]
        is_reasoning = case.suite == "reasoning"
        name = found if is_reasoning else self._names.get(("reasoning", style_for(case)))
        whole = len(chunks) == 1
        pieces = ReadingPieces()
        texts = [*chunks]
        if name:
            reasoning = self._parsers.ReasoningParser(name, stream_reasoning=True)
            read = reasoning.parse_non_stream if whole else reasoning.parse_stream_chunk
            results = [read(chunk) for chunk in chunks]
            pieces.reasoning = "".join(one or "" for one, _ in results)
            texts = [text for _, text in results if text]
        if is_reasoning or not case.tools:
            pieces.content = "".join(texts)
            return pieces.make_reading()
        tools = [self._tool(**write_tool(tool)) for tool in case.read_tools()]
        parser = self._calls.FunctionCallParser(tools, found)
        if whole:
            content, items = parser.parse_non_stream("".join(texts))
            pieces.content = content
            for index, item in enumerate(items):
                pieces.add(index, item.name, item.parameters)
            return pieces.make_reading()
        steps: list[Any] = [parser.parse_stream_chunk(text) for text in texts]
        steps.append(parser.parse_stream_end())
        for content, items in steps:
            pieces.content += content
            for item in items:
                pieces.add(item.tool_index, item.name, item.parameters)
        return pieces.make_reading()


class TransformersDriver(TextDriver):
    """Reads with transformers and the response templates that penstock writes for its formats."""

    def __init__(self) -> None:
        super().__init__("transformers")
        self._parsing = import_module("transformers.utils.chat_parsing")
        self._templates: dict[str, dict[str, Any]] = {}
        for name in formats.names():
            found = formats.get(name)
            if isinstance(found, Format):
                with suppress(UsageError):
                    self._templates[name] = found.response_template(start_anchor="<|bot|>\n")
        self._names = {("calls", name): name for name in self._templates}

    def parse(self, case: Case, chunks: Sequence[str]) -> Reading:
        """Read *chunks*; in one chunk, by the function for whole responses."""
        template = self._templates[case.format]
        tools = [write_tool(tool) for tool in case.read_tools()]
        if len(chunks) == 1:
            message = self._parsing.parse_response(case.text, template, prefix="", tools=tools)
        else:
            parser = self._parsing.ResponseParser(template, prefix="", tools=tools)
            for chunk in chunks:
                parser.feed(chunk)
            message, _ = parser.finalize()
        calls = tuple(
            (call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        )
        reasoning = message.get("thinking") or message.get("reasoning_content") or ""
        return Reading(message.get("content") or "", reasoning, calls)


DRIVERS: Final[Mapping[str, Callable[[], Driver]]] = {
    "penstock": PenstockDriver,
    "vllm": VllmDriver,
    "sglang": SglangDriver,
    "transformers": TransformersDriver,
    "vllm-rs": VllmRustDriver,
    "smg": SmgDriver,
}
"""The drivers by name."""


def make_driver(name: str) -> Driver:
    """Return the driver *name*; raise `UsageError` if it is unknown or cannot be imported."""
    make = DRIVERS.get(name)
    if make is None:
        raise UsageError(f"unknown driver {name!r}: the drivers are {', '.join(DRIVERS)}")
    try:
        return make()
    except (ImportError, AttributeError) as exc:
        pin = PINS.get(name, "")
        is_absent = isinstance(exc, PackageNotFoundError)
        reason = f"{exc.name} is not installed" if is_absent else str(exc)
        raise UsageError(
            f"cannot load the driver {name!r}: {reason}; it is written for {pin}: "
            f"pip install {pin.replace(' ', '==')}"
        ) from exc
