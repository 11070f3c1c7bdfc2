"""Response parsing for transformers and TRL: `tokenizer.parse_response`, by penstock.

    from penstock.integrations.transformers import use_parser

    trainer = GRPOTrainer(processing_class=use_parser(tokenizer, "qwen3_coder"), tools=[…], …)

transformers parses responses by a `response_template` of the tokenizer, which few models have, and
TRL's trainers that call tools depend on it. `use_parser` replaces the method on one tokenizer, so
that every format of penstock is parsed, with the schemas of the tools.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from penstock.errors import UsageError
from penstock.formats import Format, FormatLike, for_model
from penstock.integrations.tokens import TokenParser, TokenResponse
from penstock.parsing import Reasoning
from penstock.tools import Tool

__all__ = ["ResponseParser", "make_message", "use_parser"]

TokenizerType = TypeVar("TokenizerType")

# The header of ChatML, which Qwen's and many other templates use.
_DEFAULT_ANCHOR: Final = "<|im_start|>assistant\n"


def use_parser(
    tokenizer: TokenizerType,
    format: FormatLike | None = None,  # noqa: A002 - the word of the whole interface
    *,
    reasoning: str | Reasoning | None = None,
    repair: bool = False,
) -> TokenizerType:
    """Make ``tokenizer.parse_response`` use penstock, and return *tokenizer*.

    *format* is by default that of the model which the tokenizer is named after. The method takes
    the same arguments as that of transformers and returns the same messages. A call that is broken
    or cut is text.
    """
    named: Any = tokenizer
    if format is None:
        format = for_model(str(getattr(named, "name_or_path", ""))).format  # noqa: A001
    parser = TokenParser(named, format, reasoning=reasoning, repair=repair)
    named.parse_response = ResponseParser(parser)
    if getattr(named, "response_template", None) is None:
        named.response_template = _make_template(parser)
    return tokenizer


def _make_template(parser: TokenParser) -> dict[str, Any]:
    """Return a response template: TRL checks that there is one, and it is saved with the tokenizer.

    A format that no template can describe has one by which everything is text.
    """
    tokenizer: Any = parser.tokenizer
    anchor = _DEFAULT_ANCHOR
    if getattr(tokenizer, "chat_template", None):
        messages = [{"role": "user", "content": "?"}]
        # What the generation prompt adds to a conversation is where the response begins.
        before = tokenizer.apply_chat_template(messages, tokenize=False)
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        anchor = prompt.removeprefix(before) or anchor
    if isinstance(parser.format, Format):
        with suppress(UsageError):
            return parser.format.response_template(start_anchor=anchor)
    close = getattr(tokenizer, "eos_token", None)
    return {"start_anchor": anchor, "fields": {"content": {"close": close} if close else {}}}


class ResponseParser:
    """`parse_response` of a tokenizer."""

    def __init__(self, parser: TokenParser) -> None:
        self.parser = parser

    def __call__(
        self,
        response: Any,
        schema: Any = None,
        *,
        prefix: Any = None,
        tools: Sequence[dict[str, Any] | Callable[..., Any]] | None = None,
    ) -> Any:
        """Return the message of *response*, or the messages of several.

        *response* and *prefix* are token ids, as a list, an array or a tensor, or text; *schema* is
        not used.
        """
        del schema
        known = [_read_tool(tool) for tool in tools or ()]
        responses, is_batch = _read_batch(response)
        prefixes, has_many = _read_batch("" if prefix is None else prefix)
        if not has_many:
            prefixes = prefixes * len(responses)
        if len(prefixes) != len(responses):
            raise ValueError(
                f"got {len(responses)} responses and {len(prefixes)} prefixes: pass one prefix, or "
                "one for each response"
            )
        messages = [
            make_message(self._parse(one, known, before))
            for one, before in zip(responses, prefixes, strict=True)
        ]
        return messages if is_batch else messages[0]

    def _parse(self, response: Any, tools: list[Tool], prefix: Any) -> TokenResponse:
        return self.parser.parse(
            self._encode(response), tools=tools, prompt_ids=self._encode(prefix)
        )

    def _encode(self, text: Any) -> list[int]:
        if not isinstance(text, str):
            return list(text)
        tokenizer: Any = self.parser.tokenizer
        found: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return found


def make_message(response: TokenResponse) -> dict[str, Any]:
    """Return *response* as a message for a chat template."""
    message = response.message
    made: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.thinking:
        # Chat templates such as Qwen3's read reasoning from this field, and arguments as an object,
        # not as JSON text.
        made["reasoning_content"] = message.thinking
    calls = [one.call for one in response.attempts if one.call is not None]
    if calls:
        made["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return made


def _read_batch(data: Any) -> tuple[list[Any], bool]:
    """Return the sequences in *data*, and whether it is a batch of them."""
    if isinstance(data, str):
        return [data], False
    if hasattr(data, "tolist"):  # a tensor or an array
        data = data.tolist()
    items = list(data)
    if items and not isinstance(items[0], int):
        return [one.tolist() if hasattr(one, "tolist") else one for one in items], True
    return [items], False


def _read_tool(tool: Any) -> Tool:
    if callable(tool):
        from transformers.utils import get_json_schema  # noqa: PLC0415 - only for functions

        tool = get_json_schema(tool)
    return Tool.read(tool)
