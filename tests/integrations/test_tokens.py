"""Responses of token ids: blocks, calls and failed attempts, each with its tokens."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from integrations.printed_calls import SCHEMA
from integrations.tokenizers_for_tests import (
    END,
    PAD,
    ByteTokenizer,
    WordTokenizer,
    make_trained_tokenizer,
)
from penstock import formats
from penstock.errors import UsageError
from penstock.integrations.tokens import TokenParser, TokenResponse
from penstock.integrations.transformers import make_message, use_parser
from penstock.messages import ToolCall

TOOL = {"name": "weather", "parameters": SCHEMA}
GOOD = '<tool_call>{"name": "weather", "arguments": {"city": "Zürich 🌧"}}</tool_call>'
BROKEN = '<tool_call>{"name": "weather", "arguments": {"city": }}</tool_call>'
NAMELESS = '<tool_call>{"arguments": {"city": "Oslo"}}</tool_call>'
UNKNOWN = '<tool_call>{"name": "rain", "arguments": {}}</tool_call>'
ANSWER = f"<think>Hm 🤔.</think>\n\nÆ 🌍: {GOOD}"

KINDS = ["bytes", "words", "trained"]


def make_tokenizer(kind: str) -> Any:
    if kind == "trained":
        if find_spec("tokenizers") is None:
            pytest.skip("`make rl` installs tokenizers")
        return make_trained_tokenizer()
    return ByteTokenizer() if kind == "bytes" else WordTokenizer()


def encode(tokenizer: Any, text: str) -> list[int]:
    found = tokenizer.encode(text)
    return list(found) if isinstance(found, list) else list(found.ids)


def parse(kind: str, text: str, format: str = "hermes", **options: Any) -> TokenResponse:  # noqa: A002
    tokenizer = make_tokenizer(kind)
    parser = TokenParser(tokenizer, format, [TOOL])
    found = parser.parse(encode(tokenizer, text), **options)
    # Spans cover every token once, in their order.
    at = 0
    for span in found.spans:
        assert span.start == at
        at = span.end
    assert at == len(encode(tokenizer, text))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_their_tokens(kind: str) -> None:
    found = parse(kind, ANSWER)
    tokenizer = make_tokenizer(kind)
    ids = encode(tokenizer, ANSWER)
    texts = [
        (one.kind, tokenizer.decode(ids[one.start : one.end], skip_special_tokens=False))
        for one in found.spans
    ]
    assert [one for one, _ in texts] == ["thinking", "text", "tool_call"]
    assert found.message.thinking == "Hm 🤔."
    assert found.calls == [ToolCall("call_1", "weather", {"city": "Zürich 🌧"})]
    if kind != "words":  # Its tokens reach over the borders of blocks.
        mask = found.mask("tool_call")
        tokens = [one for one, is_call in zip(ids, mask, strict=True) if is_call]
        assert tokens == encode(tokenizer, GOOD)
    assert found.attempts[0].status == "ok"
    assert found.attempts[0].raw == GOOD


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [one for one in formats.names() if one != "none"])
def test_every_format(kind: str, name: str) -> None:
    call = ToolCall("call_1", "weather", {"city": "Zürich"})
    try:
        text = formats.get(name).render_call(call)
    except UsageError:
        return
    found = parse(kind, f"{text}", name, is_cut=False)
    assert [(one.name, one.arguments) for one in found.calls] == [("weather", call.arguments)]
    assert found.content.strip() == ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_attempt_has_a_status_and_its_tokens(kind: str) -> None:
    text = f"A {BROKEN} b {GOOD} c {NAMELESS} d {UNKNOWN} e"
    found = parse(kind, text)
    assert [one.status for one in found.attempts] == [
        "invalid_json",
        "ok",
        "missing_name",
        "unknown_tool",
    ]
    tokenizer = make_tokenizer(kind)
    ids = encode(tokenizer, text)
    for one, written in zip(found.attempts, (BROKEN, GOOD, NAMELESS, UNKNOWN), strict=True):
        assert one.raw == written
        assert written in tokenizer.decode(ids[one.start : one.end], skip_special_tokens=False)
        assert written not in tokenizer.decode(
            ids[one.start + 1 : one.end], skip_special_tokens=False
        )
        assert written not in tokenizer.decode(
            ids[one.start : one.end - 1], skip_special_tokens=False
        )
        assert bool(one.error) == (one.status != "ok")
    assert [call.name for call in found.calls] == ["weather"]
    assert found.content == "A  b  c  d  e"
    assert BROKEN in found.message.text


def test_a_quotation_in_reasoning_is_not_an_attempt() -> None:
    found = parse("bytes", f"<think>{BROKEN}</think>Look: {BROKEN}")
    assert [one.status for one in found.attempts] == ["invalid_json"]
    assert found.spans[0].kind == "thinking"
    assert found.attempts[0].start > found.spans[0].end


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_a_cut_call_is_no_call(size: int) -> None:
    found = parse("bytes", f"So: {GOOD[:size]}")
    assert found.is_cut
    assert found.message.stop_reason == "length"
    # Only the end marker may be missing.
    assert bool(found.calls) == (size >= GOOD.index("</tool_call>"))
    if len("<tool_call>{") < size < GOOD.index("</tool_call>"):
        assert [one.status for one in found.attempts] == ["cut"]


@pytest.mark.parametrize("kind", ["bytes", "words"])
def test_the_end_token_and_padding(kind: str) -> None:
    tokenizer = make_tokenizer(kind)
    ids = [*encode(tokenizer, GOOD), END, PAD, PAD]
    found = TokenParser(tokenizer, "hermes", [TOOL]).parse(ids)
    assert not found.is_cut
    assert found.text == GOOD
    assert [tuple(one) for one in found.spans] == [
        ("tool_call", 0, 0, len(ids) - 2),
        ("other", 0, len(ids) - 2, len(ids)),
    ]
    assert found.attempts[0].end == len(ids) - 3
    empty = TokenParser(tokenizer).parse([END])
    assert (empty.text, [one.kind for one in empty.spans]) == ("", ["other"])
    assert TokenParser(tokenizer).parse([]).spans == []


def test_the_prompt_may_open_the_reasoning() -> None:
    tokenizer = ByteTokenizer()
    prompt = tokenizer.encode("<|im_start|>assistant\n<think>\n")
    ids = tokenizer.encode(f"Hm.</think>{GOOD}")
    found = TokenParser(tokenizer, "hermes", [TOOL]).parse(ids, prompt_ids=prompt)
    assert found.message.thinking == "Hm."
    assert [one.name for one in found.calls] == ["weather"]


def test_bytes_that_are_no_characters_do_not_shift_tokens() -> None:
    tokenizer = ByteTokenizer()
    rubbish = [6 + 0xF0, 6 + 0x9F, 6 + 0xFF] * 40
    ids = [*rubbish, *tokenizer.encode(GOOD), *rubbish]
    found = TokenParser(tokenizer, "hermes", [TOOL]).parse(ids)
    assert [one.name for one in found.calls] == ["weather"]
    one = found.attempts[0]
    assert tokenizer.decode(ids[one.start : one.end]) == GOOD


def test_messages_for_a_chat_template() -> None:
    tokenizer: Any = use_parser(ByteTokenizer(), "hermes")
    ids = tokenizer.encode(f"{ANSWER}<|im_end|>")
    expected = {
        "role": "assistant",
        "content": "Æ 🌍: ",
        "reasoning_content": "Hm 🤔.",
        "tool_calls": [
            {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich 🌧"}}}
        ],
    }
    found = tokenizer.parse_response(ids, prefix=[], tools=[{"type": "function", "function": TOOL}])
    assert found | {"content": found["content"].lstrip()} == expected
    assert tokenizer.parse_response([ids, ids], prefix="") == [found, found]
    with pytest.raises(ValueError, match="one prefix"):
        tokenizer.parse_response([ids, ids], prefix=["", "", ""])
    broken = TokenParser(tokenizer, "hermes").parse(tokenizer.encode(BROKEN))
    assert make_message(broken) == {"role": "assistant", "content": BROKEN}
