"""A plugin for SGLang: its tool call and reasoning parsers, by penstock.

    pip install 'penstock[sglang]'
    sglang serve --model-path MODEL --tool-call-parser penstock

SGLang finds the plugin by its entry point (`sglang.srt.plugins`). The tool call parser ``penstock``
recognises the format of each response; ``penstock_FORMAT``, such as ``penstock_hermes``, expects
one format, and ``penstock_STYLE`` among the reasoning parsers one style. Calls of tools that were
not offered are reported like any other call: SGLang's own parsers drop them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, StructureInfo, ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser import reasoning_parser
from xgrammar import StructuralTag

from penstock.errors import UsageError
from penstock.events import (
    Event,
    TextDelta,
    ThinkingDelta,
    ToolCallStart,
)
from penstock.formats import Format
from penstock.formats.detect import find_enforceable
from penstock.formats.parser import Parser
from penstock.formats.reasoning import STYLES
from penstock.integrations import PLUGIN, EngineCalls, list_plugin_formats, read_offered_tools
from penstock.parsing import Arguments


def register() -> None:
    """Register the parsers; SGLang calls this in each of its processes."""
    for known, name in list_plugin_formats().items():
        made = type(f"{known}_detector", (PenstockDetector,), {"format_name": name})
        FunctionCallParser.ToolCallParserEnum[known] = made
    for style in STYLES:
        known = PLUGIN if style == "think" else f"{PLUGIN}_{style}"
        made = type(f"{known}_reasoning", (PenstockReasoningDetector,), {"style": style})
        reasoning_parser.ReasoningParser.DetectorMap[known] = made


class PenstockDetector(BaseFormatDetector):  # type: ignore[misc]
    """Finds calls in the text of one response; `format_name` is the format, or ``auto``."""

    format_name: ClassVar[str] = "auto"

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        self._model = str(getattr(tokenizer, "name_or_path", ""))
        self._parser: Parser | None = None
        self._calls = EngineCalls(self)

    def has_tool_call(self, text: str) -> bool:
        """Return whether *text* has a call that may be complete.

        SGLang asks this of every whole response, and takes False for a response without calls.
        """
        del text
        return True

    def detect_and_parse(self, text: str, tools: list[Any]) -> StreamingParseResult:
        """Parse a whole response."""
        parser = self._make_parser(tools, "whole")
        # SGLang does not say whether the token limit ended the response: assume it, so that no
        # call is completed that was cut.
        result = self._make_result([*parser.feed(text), *parser.finish(cut=True)])
        calls: list[ToolCallItem] = []
        for item in result.calls:
            if item.name:
                calls.append(item)
            else:
                calls[-1].parameters += item.parameters
        return StreamingParseResult(normal_text=result.normal_text, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: list[Any]) -> StreamingParseResult:
        """Parse one delta."""
        if self._parser is None:
            self._parser = self._make_parser(tools, "live")
        return self._make_result(self._parser.feed(new_text))

    def finish(self, tools: list[Any]) -> StreamingParseResult:
        """End the response; return what was held."""
        del tools
        parser, self._parser = self._parser, None
        return self._make_result([] if parser is None else parser.finish(cut=True))

    def supports_structural_tag(self) -> bool:
        """Return whether demanded calls can be enforced in the format."""
        return self._find_enforced() is not None

    def get_structural_tag(
        self,
        tools: list[Any] | None = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,  # noqa: FBT001, FBT002 - SGLang's interface
        parallel_tool_calls: bool = True,  # noqa: FBT001, FBT002 - SGLang's interface
    ) -> Any:
        """Return the structural tag of the calls that *tool_choice* allows, or None."""
        del thinking_mode  # SGLang's reasoning grammar comes before it.
        format_ = self._find_enforced()
        known = list(read_offered_tools(tools or ()))
        if format_ is None or not known:
            return None
        is_demanded = tool_choice != "auto"
        if not isinstance(tool_choice, str):
            known = [tool for tool in known if tool.name == tool_choice.function.name]
        single = not parallel_tool_calls or not isinstance(tool_choice, str)
        for stop in (single, True):  # Some formats can enforce one call only.
            with suppress(UsageError):
                tag = format_.structural_tag(known, at_least_one=is_demanded, stop_after_first=stop)
                return StructuralTag.model_validate(tag)
        return None

    def structure_info(self) -> Callable[[str], StructureInfo]:
        """Raise: `get_structural_tag` has what SGLang needs."""
        raise NotImplementedError("penstock writes whole structural tags")

    def _find_enforced(self) -> Format | None:
        """Return the format that demanded calls are written in, if it can be enforced."""
        return find_enforceable(self.format_name, self._model)

    def _make_parser(self, tools: list[Any], arguments: Arguments) -> Parser:
        known = list(read_offered_tools(tools))
        return Parser(self.format_name, known, arguments=arguments, reasoning="none", repair=True)

    def _make_result(self, events: list[Event]) -> StreamingParseResult:
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        calls = [item for event in events for item in self._make_items(event)]
        return StreamingParseResult(normal_text=text, calls=calls)

    def _make_items(self, event: Event) -> Iterator[ToolCallItem]:
        found = self._calls.add(event)
        if found is not None:
            name = event.name if isinstance(event, ToolCallStart) else None
            yield ToolCallItem(tool_index=found[0], name=name, parameters=found[1])


class PenstockReasoningDetector(reasoning_parser.BaseReasoningFormatDetector):  # type: ignore[misc]
    """Separates the reasoning of one response from its text; `style` is the style's name."""

    style: ClassVar[str] = "think"

    def __init__(self, **options: Any) -> None:
        self._reasoning = STYLES[self.style]
        start = self._reasoning.starts[0] if self._reasoning.starts else ""
        end = self._reasoning.ends[0] if self._reasoning.ends else ""
        super().__init__(start, end, **options)
        self._parser: Parser | None = None

    def detect_and_parse(self, text: str) -> Any:
        """Parse a whole response."""
        parser = self._make_parser(self._guess_prompt(text))
        result = self._make_result([*parser.feed(text), *parser.finish(cut=False)])
        return self._maybe_apply_force_nonempty_content(result)

    def parse_streaming_increment(self, new_text: str) -> Any:
        """Parse one delta."""
        if self._parser is None:
            self._parser = self._make_parser(self._guess_prompt(""))
        return self._make_result(self._parser.feed(new_text))

    def finish(self) -> Any:
        """End the response; return what was held."""
        parser, self._parser = self._parser, None
        return self._make_result([] if parser is None else parser.finish(cut=False))

    def _make_parser(self, prompt: str) -> Parser:
        return Parser("none", reasoning=self._reasoning, prompt_suffix=prompt)

    def _guess_prompt(self, output: str) -> str:
        """Return the start marker if the prompt opened the reasoning of *output*."""
        ends, starts = self._reasoning.ends, self._reasoning.starts
        if not starts:
            return ""
        if self._in_reasoning and not output.lstrip().startswith(starts):
            return starts[0]
        end = min((at for one in ends if (at := output.find(one)) >= 0), default=-1)
        is_opened = any(0 <= output.find(one) < end for one in starts)
        return starts[0] if end >= 0 and not is_opened else ""

    def _make_result(self, events: list[Event]) -> Any:
        return reasoning_parser.StreamingParseResult(
            "".join(one.text for one in events if isinstance(one, TextDelta)),
            "".join(one.text for one in events if isinstance(one, ThinkingDelta)),
        )
