"""TRL, verl and renderers with our parsers: run by `make rl`, which installs them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from integrations.printed_calls import SCHEMA
from integrations.tokenizers_for_tests import SPECIAL, make_trained_tokenizer

pytest.importorskip("trl", reason="`make rl` installs it")

from renderers import CustomRendererConfig, DefaultRendererConfig, create_renderer
from renderers.base import ToolCallParseStatus
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import parse_response
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.tools.schemas import OpenAIFunctionToolSchema

from penstock.integrations import renderers as renderers_plugin
from penstock.integrations.transformers import use_parser

pytestmark = pytest.mark.filterwarnings("ignore")

TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "It rains.", "parameters": SCHEMA},
}
CODER = "<tool_call>\n<function=weather>\n<parameter=city>\nZürich 🌧\n</parameter>\n</function>\n"
CODER += "</tool_call>"
GOOD = '<tool_call>{"name": "weather", "arguments": {"city": "Zürich 🌧"}}</tool_call>'
BROKEN = '<tool_call>{"name": "weather", "arguments": {"city": }}</tool_call>'
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def tokenizer() -> Any:
    made = PreTrainedTokenizerFast(
        tokenizer_object=make_trained_tokenizer(), eos_token=SPECIAL[1], pad_token=SPECIAL[2]
    )
    made.chat_template = TEMPLATE
    return made


def encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(("name", "text"), [("hermes", GOOD), ("qwen3_coder", CODER)])
def test_trl_parses_calls(tokenizer: Any, name: str, text: str) -> None:
    use_parser(tokenizer, name)
    ids = encode(tokenizer, f"<think>Hm.</think>Look: {text}<|im_end|>")
    found = parse_response(tokenizer, ids, prefix=[], tools=[TOOL])
    function = {"name": "weather", "arguments": {"city": "Zürich 🌧"}}
    assert found == {
        "role": "assistant",
        "content": "Look: ",
        "reasoning_content": "Hm.",
        "tool_calls": [{"type": "function", "function": function}],
    }


def test_trl_receives_a_broken_call_as_text(tokenizer: Any) -> None:
    use_parser(tokenizer, "hermes")
    found = parse_response(tokenizer, encode(tokenizer, f"{BROKEN}<|im_end|>"), prefix=[])
    assert found == {"role": "assistant", "content": BROKEN}


def test_functions_are_tools_and_the_template_is_saved(tokenizer: Any, tmp_path: Any) -> None:
    def weather(city: str) -> str:
        """Return the weather.

        Args:
            city: The city.
        """
        return city

    use_parser(tokenizer, "hermes")
    assert tokenizer.response_template["start_anchor"] == "<|im_start|>assistant\n"
    found = tokenizer.parse_response(encode(tokenizer, GOOD), prefix=[], tools=[weather])
    assert found["tool_calls"][0]["function"]["name"] == "weather"
    tokenizer.save_pretrained(tmp_path)
    again = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    theirs = again.parse_response(f"{GOOD}<|im_end|>", prefix="")
    assert theirs["tool_calls"] == found["tool_calls"]


@pytest.mark.parametrize(("name", "text"), [("hermes", GOOD), ("qwen3_coder", CODER)])
@pytest.mark.parametrize("prefix", ["penstock", "penstock_"])
def test_verl_finds_the_parsers(tokenizer: Any, name: str, text: str, prefix: str) -> None:
    known = "penstock" if prefix == "penstock" else f"penstock_{name}"
    parser = ToolParser.get_tool_parser(known, tokenizer)
    ids = encode(tokenizer, f"<think>Hm.</think>Look: {text}{text}<|im_end|>")
    tool = OpenAIFunctionToolSchema.model_validate(TOOL)
    content, calls = asyncio.run(parser.extract_tool_calls(ids, [tool]))
    assert [(one.name, json.loads(one.arguments)) for one in calls] == [
        ("weather", {"city": "Zürich 🌧"})
    ] * 2
    assert content.endswith("Look: ")
    assert "Hm." in content


def test_verl_gets_no_cut_call(tokenizer: Any) -> None:
    parser = ToolParser.get_tool_parser("penstock_hermes", tokenizer)
    content, calls = asyncio.run(parser.extract_tool_calls(encode(tokenizer, GOOD[:-30])))
    assert calls == []
    assert content.endswith(GOOD[11:-30])  # verl drops special tokens from text


def test_a_renderer_of_ours(tokenizer: Any) -> None:
    config = CustomRendererConfig(
        import_path="penstock.integrations.renderers.PenstockRenderer", format="hermes"
    )
    renderer = create_renderer(tokenizer, config)
    messages = [{"role": "user", "content": "Weather?"}]
    prompt = renderer.render_ids(messages, add_generation_prompt=True)
    text = f"<think>Hm.</think>A {GOOD} b {BROKEN}<|im_end|>"
    ids = encode(tokenizer, text)
    found = renderer.parse_response(ids, tools=[TOOL], prompt_ids=prompt)
    assert (found.content, found.reasoning_content) == ("A  b ", "Hm.")
    assert found.reasoning_complete
    assert [one.status for one in found.tool_calls] == [
        ToolCallParseStatus.OK,
        ToolCallParseStatus.INVALID_JSON,
    ]
    assert found.tool_calls[0].arguments == {"city": "Zürich 🌧"}
    for one in found.tool_calls:
        start, end = one.token_span
        assert tokenizer.decode(ids[start:end]) == one.raw
    cut = renderer.parse_response(encode(tokenizer, "<think>Hm"), tools=[TOOL])
    assert not cut.reasoning_complete


def test_tool_parsers_of_the_default_renderer(tokenizer: Any) -> None:
    renderers_plugin.register()
    renderer = create_renderer(tokenizer, DefaultRendererConfig(tool_parser="penstock_qwen3_coder"))
    ids = encode(tokenizer, f"<think>Hm.</think>Look: {CODER}<|im_end|>")
    found = renderer.parse_response(ids)
    assert (found.content, found.reasoning_content) == ("Look: ", "Hm.")
    call = found.tool_calls[0]
    assert (call.name, call.arguments) == ("weather", {"city": "Zürich 🌧"})
    start, end = call.token_span
    assert tokenizer.decode(ids[start:end]) == CODER
