"""Tool parsers for verl's agent loops, by penstock.

    pip install 'penstock[verl]'
    … actor_rollout_ref.rollout.multi_turn.format=penstock_qwen3_coder

verl finds them by the entry point `verl.plugins`. The parser ``penstock`` recognises the format of
each response; ``penstock_FORMAT``, such as ``penstock_hermes``, expects one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser
from verl.utils.rollout_trace import rollout_trace_op

from penstock import _json
from penstock.integrations import list_plugin_formats
from penstock.integrations.tokens import TokenParser
from penstock.tools import Tool


class VerlToolParser(ToolParser):  # type: ignore[misc]
    """Finds calls in the tokens of one response; `format_name` is the format, or ``auto``."""

    format_name: ClassVar[str] = "auto"

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._parser = TokenParser(tokenizer, self.format_name)

    @rollout_trace_op  # type: ignore[untyped-decorator, unused-ignore]
    async def extract_tool_calls(
        self, responses_ids: list[int], tools: list[Any] | None = None
    ) -> tuple[str, list[Any]]:
        """Return the text without calls, and the complete calls."""
        # verl's schemas of tools are models of pydantic in the shape of OpenAI's API.
        known = [Tool.read(tool.model_dump(exclude_none=True)) for tool in tools or ()]
        found = self._parser.parse(responses_ids, tools=known)
        calls = [
            FunctionCall(name=one.name, arguments=_json.encode_wire(one.arguments).decode())
            for one in found.attempts
            if one.call is not None
        ]
        # Reasoning stays in the text: verl puts it back into the conversation.
        in_calls = found.mask("tool_call")
        kept = [one for one, is_call in zip(responses_ids, in_calls, strict=True) if not is_call]
        return self.tokenizer.decode(kept, skip_special_tokens=True), calls


def register() -> None:
    """Register a parser for each format."""
    for known, name in list_plugin_formats().items():
        made = type(f"{known}_parser", (VerlToolParser,), {"format_name": name})
        ToolParser.register(known)(made)


# verl imports what the entry points of `verl.plugins` name, and calls nothing in it: the import
# registers the parsers.
register()
