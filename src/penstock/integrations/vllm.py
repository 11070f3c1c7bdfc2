"""A plugin for vLLM: its tool and reasoning parsers, by penstock.

    pip install 'penstock[vllm]'
    vllm serve MODEL --enable-auto-tool-choice --tool-call-parser penstock

vLLM finds the plugin by its entry point (`vllm.general_plugins`). The tool parser ``penstock``
recognises the format of each response; ``penstock_FORMAT``, such as ``penstock_hermes``, expects
one format, and ``penstock_STYLE`` among the reasoning parsers one style.

The parsers are engine-based in vLLM's sense: they get each delta once and keep their own state, so
that a delta costs the same at any length of the response. For `tool_choice: "required"` and named
tools the request gets a structural tag of the format, and the response is read in that format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.reasoning import ReasoningParser, ReasoningParserManager
from vllm.sampling_params import StructuredOutputsParams
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

try:  # Since 0.32.
    from vllm.entrypoints.generate.base import protocol
except ImportError:
    from vllm.entrypoints.openai.engine import protocol

from penstock import _json
from penstock.builder import MessageBuilder
from penstock.errors import UsageError
from penstock.events import (
    Event,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallStart,
)
from penstock.formats import Format
from penstock.formats.detect import find_enforceable
from penstock.formats.parser import Parser
from penstock.formats.reasoning import STYLES
from penstock.integrations import PLUGIN, EngineCalls, list_plugin_formats, read_offered_tools
from penstock.models.base import new_call_id
from penstock.tools import Tool

PROMPT_TOKENS: Final = 32
"""How many tokens at the end of a prompt are searched for a marker that opens reasoning."""


# vLLM starts its engine and its API servers as processes of their own, and loads plugins in each.
def register() -> None:
    """Register the parsers; vLLM calls this in each of its processes."""
    module = __name__
    for name in list_plugin_formats():
        ToolParserManager.register_lazy_module(name, module, name)
    for name in reasoning_parser_names():
        ReasoningParserManager.register_lazy_module(name, module, f"{name}_reasoning")


def reasoning_parser_names() -> list[str]:
    """Return the names of the reasoning parsers."""
    return [PLUGIN, *(f"{PLUGIN}_{name}" for name in STYLES)]


def __getattr__(name: str) -> type:
    """Return the parser class that vLLM asks for by *name*, and keep it."""
    style = name.removesuffix("_reasoning")
    if style != name and style in reasoning_parser_names():
        options: dict[str, Any] = {"style": style.removeprefix(PLUGIN).removeprefix("_") or "think"}
        found: type = type(name, (PenstockReasoningParser,), options)
    elif name in (formats := list_plugin_formats()):
        found = type(name, (PenstockToolParser,), {"format_name": formats[name]})
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


class PenstockToolParser(ToolParser):  # type: ignore[misc]
    """Finds calls in the text of one response; `format_name` is the format, or ``auto``."""

    format_name: ClassVar[str] = "auto"
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, tools: Any = None, **_options: Any) -> None:
        super().__init__(tokenizer, tools)
        self._known = list(read_offered_tools(self.tools))
        self._deltas: _DeltaMaker | None = None
        # A format that can be enforced is read for demanded calls too. In any other, vLLM
        # constrains the response to JSON and reads that itself.
        self.supports_required_and_named = self._find_enforced() is None

    def adjust_request(self, request: Any) -> Any:
        """Keep the tokens that mark calls, and enforce a call that the request demands."""
        tools = list(read_offered_tools(request.tools or ()))
        if not tools or request.tool_choice == "none":
            return request
        request.skip_special_tokens = False
        chosen = _find_demanded(request.tool_choice, tools)
        format_ = self._find_enforced()
        if chosen is None or format_ is None:
            return super().adjust_request(request)
        single = request.tool_choice != "required" or request.parallel_tool_calls is False
        try:
            tag = format_.structural_tag(chosen, at_least_one=True, stop_after_first=single)
        except UsageError:  # Calls of this format must begin the response: there can be only one.
            tag = format_.structural_tag(chosen, at_least_one=True, stop_after_first=True)
        request.structured_outputs = StructuredOutputsParams(structural_tag=json.dumps(tag))
        if isinstance(request, ChatCompletionRequest):
            request.response_format = None
        else:
            request.text = None
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """Parse a whole response."""
        parser = self._make_parser(request, arguments="whole")
        builder = MessageBuilder()
        # vLLM does not say whether the token limit ended the response: assume it, so that no call
        # is completed that was cut.
        for event in (*parser.feed(model_output), *parser.finish(cut=True)):
            builder.add(event)
        calls = [call for call in builder.message.tool_calls if call.complete]
        made = [
            protocol.ToolCall(
                id=call.id,
                function=protocol.FunctionCall(
                    id=call.id, name=call.name, arguments=_json.encode_wire(call.arguments).decode()
                ),
            )
            for call in calls
        ]
        text = builder.message.text
        return protocol.ExtractedToolCallInformation(
            tools_called=bool(made), tool_calls=made, content=text or None
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        """Parse one delta; only *delta_text* is used."""
        del previous_text, current_text, previous_token_ids, current_token_ids, delta_token_ids
        if self._deltas is None:
            self._deltas = _DeltaMaker(self, self._make_parser(request, arguments="live"))
        return self._deltas.feed(delta_text)

    def finish_streaming(self) -> Any:
        """End the response; return what was held."""
        deltas, self._deltas = self._deltas, None
        return deltas.finish() if deltas is not None else None

    def get_remaining_unstreamed_args(self) -> str:
        """Return nothing: arguments are sent as they are parsed."""
        return ""

    def _make_parser(self, request: Any, arguments: Any) -> Parser:
        is_forbidden = request.tool_choice == "none"
        name = "none" if is_forbidden else self.format_name
        tools = self._known or list(read_offered_tools(request.tools or ()))
        single = request.parallel_tool_calls is False
        return Parser(
            name,
            tools,
            arguments=arguments,
            # Reasoning is the reasoning parser's task.
            reasoning="none",
            repair=True,
            ids=new_call_id,
            max_calls=1 if single else None,
        )

    def _find_enforced(self) -> Format | None:
        """Return the format that demanded calls are written in, if it can be enforced."""
        model = str(getattr(self.model_tokenizer, "name_or_path", ""))
        return find_enforceable(self.format_name, model)


class PenstockReasoningParser(ReasoningParser):  # type: ignore[misc]
    """Separates the reasoning of one response from its text; `style` is the style's name."""

    style: ClassVar[str] = "think"
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **options: Any) -> None:
        super().__init__(tokenizer, *args, **options)
        self._reasoning = STYLES[self.style]
        self._prompt = ""
        self._parser: Parser | None = None
        self._has_ended = False

    @property
    def reasoning_start_str(self) -> str | None:
        """The marker that opens reasoning."""
        return self._reasoning.starts[0] if self._reasoning.starts else None

    @property
    def reasoning_end_str(self) -> str | None:
        """The marker that ends reasoning."""
        return self._reasoning.ends[0] if self._reasoning.ends else None

    def adjust_request(self, request: Any) -> Any:
        """Keep the tokens that mark reasoning."""
        request.skip_special_tokens = False
        return request

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        """Remember the end of the prompt, which may have opened the reasoning."""
        tail = list(prompt_token_ids[-PROMPT_TOKENS:])
        self._prompt = self.model_tokenizer.decode(tail, skip_special_tokens=False)

    # vLLM asks for the prompt and for the response: with structured output, it starts to constrain
    # after the reasoning.
    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Return whether the last marker in *input_ids* ends reasoning."""
        ends = [self._find_last(input_ids, marker) for marker in self._reasoning.ends]
        starts = [self._find_last(input_ids, marker) for marker in self._reasoning.starts]
        return max(ends, default=-1) > max(starts, default=-1)

    def is_reasoning_end_streaming(
        self, input_ids: Sequence[int], delta_ids: Iterable[int]
    ) -> bool:
        """Return whether the response is past its reasoning."""
        del delta_ids
        return self._has_ended or self.is_reasoning_end(input_ids)

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Return whether the parser has passed the end of the reasoning."""
        return self._has_ended

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """Return the tokens after the last end marker, or none before it."""
        for marker in self._reasoning.ends:
            at = self._find_last(input_ids, marker)
            if at >= 0:
                return list(input_ids[at + len(self._encode(marker)) :])
        return []

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """Return how many tokens come before the end marker."""
        at = max((self._find_last(token_ids, one) for one in self._reasoning.ends), default=-1)
        return max(at, 0)

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Return the reasoning and the text of a whole response."""
        del request
        parser = self._make_parser(self._prompt or self._guess_prompt(model_output))
        builder = MessageBuilder()
        for event in (*parser.feed(model_output), *parser.finish(cut=False)):
            builder.add(event)
        return builder.message.thinking or None, builder.message.text or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        """Parse one delta; only *delta_text* is used."""
        del previous_text, current_text, previous_token_ids, current_token_ids, delta_token_ids
        if self._parser is None:
            self._parser = self._make_parser(self._prompt)
        return self._make_delta(self._parser.feed(delta_text))

    def finish_streaming(self) -> Any:
        """End the reasoning; return what was held."""
        parser, self._parser = self._parser, None
        return None if parser is None else self._make_delta(parser.finish(cut=False))

    def _make_delta(self, events: list[Event]) -> Any:
        reasoning = "".join(one.text for one in events if isinstance(one, ThinkingDelta))
        content = "".join(one.text for one in events if isinstance(one, TextDelta))
        if any(isinstance(one, ThinkingEnd) for one in events) or content.strip():
            self._has_ended = True
        if not reasoning and not content:
            return None
        return protocol.DeltaMessage(reasoning=reasoning or None, content=content or None)

    def _make_parser(self, prompt: str) -> Parser:
        return Parser("none", reasoning=self._reasoning, prompt_suffix=prompt)

    def _guess_prompt(self, output: str) -> str:
        """Return the start marker if only the prompt can have opened the reasoning of *output*."""
        ends, starts = self._reasoning.ends, self._reasoning.starts
        end = min((at for one in ends if (at := output.find(one)) >= 0), default=-1)
        is_opened = any(0 <= output.find(one) < end for one in starts)
        return starts[0] if starts and end >= 0 and not is_opened else ""

    def _encode(self, marker: str) -> list[int]:
        # Most markers are one special token; where they are text, they have several.
        token = self.vocab.get(marker)
        if token is not None:
            return [token]
        found: list[int] = self.model_tokenizer.encode(marker, add_special_tokens=False)
        return found

    def _find_last(self, ids: Sequence[int], marker: str) -> int:
        """Return where the tokens of *marker* last occur in *ids*, or -1."""
        wanted = self._encode(marker)
        for at in range(len(ids) - len(wanted), -1, -1):
            if list(ids[at : at + len(wanted)]) == wanted:
                return at
        return -1


class _DeltaMaker:
    """Turns text into vLLM's deltas, and keeps the fields that vLLM reads of a tool *parser*."""

    def __init__(self, owner: PenstockToolParser, parser: Parser) -> None:
        self._parser = parser
        self._calls = EngineCalls(owner)

    def feed(self, text: str) -> Any:
        return self._make(self._parser.feed(text))

    def finish(self) -> Any:
        return self._make(self._parser.finish(cut=True))

    def _make(self, events: list[Event]) -> Any:
        if len(events) == 1 and isinstance(one := events[0], TextDelta):  # nearly always
            return protocol.DeltaMessage(content=one.text)
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        calls = [call for event in events for call in self._make_calls(event)]
        if not text and not calls:
            return None
        return protocol.DeltaMessage(content=text or None, tool_calls=calls)

    def _make_calls(self, event: Event) -> Iterator[Any]:
        found = self._calls.add(event)
        if found is None:
            return
        number, piece = found
        if isinstance(event, ToolCallStart):
            function = protocol.DeltaFunctionCall(name=event.name, arguments="")
            yield protocol.DeltaToolCall(
                index=number, id=event.id, type="function", function=function
            )
        else:
            function = protocol.DeltaFunctionCall(arguments=piece)
            yield protocol.DeltaToolCall(index=number, function=function)


def _find_demanded(choice: Any, tools: list[Tool]) -> list[Tool] | None:
    """Return the tools of which one must be called, or None if the model may choose."""
    if choice == "required":
        return tools
    if choice is None or isinstance(choice, str):
        return None
    chosen = choice.model_dump()
    name = chosen.get("function", chosen).get("name")
    return [tool for tool in tools if tool.name == name] or None
