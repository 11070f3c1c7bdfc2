"""A renderer and tool parsers for the package renderers, which verifiers trains with.

    renderer = create_renderer(tokenizer, CustomRendererConfig(
        import_path="penstock.integrations.renderers.PenstockRenderer", format="qwen3_coder"))

`PenstockRenderer` renders with the model's chat template and parses responses of any format, with
the schemas of the tools. `register` adds its tool parsers to those that ``DefaultRendererConfig``
names: ``penstock``, ``penstock_hermes``, ….
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from renderers.base import ParsedResponse, ParsedToolCall, ToolCallParseStatus
from renderers.configs import DefaultRendererConfig
from renderers.default import DefaultRenderer
from renderers.parsers import TOOL_PARSERS

from penstock.integrations import list_plugin_formats
from penstock.integrations.tokens import TokenCall, TokenParser

__all__ = ["PenstockRenderer", "PenstockRendererConfig", "RendererToolParser", "register"]

_STATUSES: Final = {
    "ok": ToolCallParseStatus.OK,
    "unknown_tool": ToolCallParseStatus.UNKNOWN_TOOL,
    "cut": ToolCallParseStatus.UNCLOSED_BLOCK,
    "invalid_json": ToolCallParseStatus.INVALID_JSON,
    "missing_name": ToolCallParseStatus.MISSING_NAME,
    "malformed": ToolCallParseStatus.MALFORMED_STRUCTURE,
}


class RendererToolParser:
    """Finds calls in token ids; `format_name` is the format, or ``auto``."""

    format_name: ClassVar[str] = "auto"

    def __init__(self, tokenizer: Any) -> None:
        self._parser = TokenParser(tokenizer, self.format_name, reasoning="none")

    def extract(self, token_ids: list[int]) -> tuple[list[int], list[ParsedToolCall]]:
        """Return the tokens that belong to no call, and all attempts to call a tool."""
        found = self._parser.parse(token_ids, is_cut=False)
        kept, at = [], 0
        for attempt in found.attempts:
            kept += token_ids[at : attempt.start]
            at = attempt.end
        return [*kept, *token_ids[at:]], [make_call(one) for one in found.attempts]


class PenstockRendererConfig(DefaultRendererConfig):  # type: ignore[misc]
    """The options of `PenstockRenderer`."""

    name: Literal["penstock"] = "penstock"
    format: str = "auto"
    """The format of the model's calls."""

    _internal_fields = frozenset({"tool_parser", "reasoning_parser", "format"})


class PenstockRenderer(DefaultRenderer):  # type: ignore[misc]
    """Renders with the chat template, and parses responses with penstock."""

    config_class = PenstockRendererConfig

    def __init__(self, tokenizer: Any, config: PenstockRendererConfig | None = None) -> None:
        config = config or PenstockRendererConfig()
        super().__init__(tokenizer, config)
        self._parser = TokenParser(tokenizer, config.format)

    @property
    def supports_tools(self) -> bool:
        """Return True: every format has calls."""
        return True

    def parse_response(
        self,
        token_ids: list[int],
        *,
        tools: list[Any] | None = None,
        prompt_ids: list[int] | None = None,
    ) -> ParsedResponse:
        """Parse a response: text, reasoning and all attempts to call a tool."""
        found = self._parser.parse(token_ids, tools=tools or (), prompt_ids=prompt_ids or ())
        message = found.message
        is_open = found.is_cut and bool(found.spans) and found.spans[-1].kind == "thinking"
        return ParsedResponse(
            content=found.content,
            reasoning_content=message.thinking or None,
            tool_calls=[make_call(one) for one in found.attempts],
            reasoning_complete=not is_open,
        )


def make_call(attempt: TokenCall) -> ParsedToolCall:
    """Return *attempt* as a record of renderers."""
    return ParsedToolCall(
        raw=attempt.raw,
        name=attempt.name or None,
        arguments=attempt.call.arguments if attempt.call is not None else None,
        token_span=(attempt.start, attempt.end),
        status=_STATUSES[attempt.status],
        id=None,
    )


def register() -> None:
    """Add a tool parser for each format to those of renderers."""
    for known, name in list_plugin_formats().items():
        made = type(f"{known}_parser", (RendererToolParser,), {"format_name": name})
        TOOL_PARSERS[known] = made
