"""vLLM's own parser classes with our plugin: run by `make integrations`, which installs vLLM."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from integrations.printed_calls import SCHEMA
from penstock import formats
from penstock.errors import UsageError
from penstock.messages import ToolCall

pytest.importorskip("vllm", reason="`make integrations` installs vLLM")

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.abstract_parser import DelegatingParser
from vllm.reasoning import ReasoningParserManager
from vllm.sampling_params import SamplingParams
from vllm.tool_parsers.abstract_tool_parser import ToolParserManager
from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

from penstock.integrations import vllm as plugin

pytestmark = pytest.mark.filterwarnings("ignore")

TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
CALL = ToolCall("call_1", "weather", {"city": "Oslo"})
MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]


class Tokenizer:
    """One token a character, and one for each marker."""

    def __init__(self, name: str = "") -> None:
        self.name_or_path = name

    def get_vocab(self) -> dict[str, int]:
        return {marker: 1_200_000 + at for at, marker in enumerate(MARKERS)}

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:  # noqa: FBT001, FBT002
        del add_special_tokens
        ids = []
        while text:
            marker = next((one for one in MARKERS if text.startswith(one)), "")
            ids.append(self.get_vocab()[marker] if marker else ord(text[0]))
            text = text[len(marker) or 1 :]
        return ids

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:  # noqa: FBT001, FBT002
        del skip_special_tokens
        names = {number: marker for marker, number in self.get_vocab().items()}
        return "".join(names.get(one) or chr(one) for one in ids)


def make_request(**fields: Any) -> Any:
    body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": [TOOL]}
    return ChatCompletionRequest(**(body | fields))


def make_parser(tool: str | None, reasoning: str | None = None, name: str = "", **f: Any) -> Any:
    """Return vLLM's parser with ours inside, and a request."""
    plugin.register()

    class Both(DelegatingParser):  # type: ignore[misc]
        tool_parser_cls = ToolParserManager.get_tool_parser(tool) if tool else None
        reasoning_parser_cls = (
            ReasoningParserManager.get_reasoning_parser(reasoning) if reasoning else None
        )

    request = make_request(**f)
    return Both(Tokenizer(name), request.tools), request


def stream(parser: Any, request: Any, text: str, prompt: str = "", size: int = 3) -> dict[str, Any]:
    """Return what the deltas of *text* add up to."""
    tokenizer = Tokenizer()
    found: dict[str, Any] = {"content": "", "reasoning": "", "calls": {}}
    ids = tokenizer.encode(text)
    for at in range(0, len(ids), size):
        piece = ids[at : at + size]
        delta = parser.parse_delta(
            tokenizer.decode(piece),
            piece,
            request,
            tokenizer.encode(prompt),
            finished=at + size >= len(ids),
        )
        if delta is None:
            continue
        found["content"] += delta.content or ""
        found["reasoning"] += delta.reasoning or ""
        for call in delta.tool_calls:
            name, arguments = found["calls"].get(call.index, ("", ""))
            found["calls"][call.index] = (
                name + (call.function.name or ""),
                arguments + (call.function.arguments or ""),
            )
    return found


def render(name: str) -> str | None:
    try:
        return formats.get(name).render_call(CALL)
    except UsageError:
        return None


@pytest.mark.parametrize("name", [one for one in formats.names() if one != "auto" and render(one)])
def test_every_format_streamed_and_whole(name: str) -> None:
    text = render(name) or ""
    parser, request = make_parser(f"penstock_{name}")
    found = stream(parser, request, text)
    assert [one for one, _ in found["calls"].values()] == ["weather"]
    assert [json.loads(one) for _, one in found["calls"].values()] == [{"city": "Oslo"}]
    assert found["content"].strip() == ""
    parser, request = make_parser(f"penstock_{name}")
    _, content, calls = parser.parse(text, request, enable_auto_tools=True)
    assert [(one.name, json.loads(one.arguments)) for one in calls] == [
        ("weather", {"city": "Oslo"})
    ]
    assert not (content or "").strip()


TEXT = 'Look: <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_reasoning_that_the_prompt_opened_then_text_then_a_call(size: int) -> None:
    parser, request = make_parser("penstock", "penstock_qwen3")
    found = stream(parser, request, f"Hm, ok.</think>{TEXT}", "assistant\n<think>", size)
    assert found["reasoning"] == "Hm, ok."
    assert found["content"] == "Look: "
    assert found["calls"] == {0: ("weather", '{"city":"Oslo"}')}


def test_a_whole_response_with_reasoning() -> None:
    parser, request = make_parser("penstock", "penstock")
    found = parser.parse(f"Hm.</think>{TEXT}", request, enable_auto_tools=True)
    reasoning, content, calls = found
    assert (reasoning, content) == ("Hm.", "Look: ")
    assert [one.name for one in calls] == ["weather"]


def test_text_without_calls_is_not_changed() -> None:
    text = "2 < 3 and <tool_call is a marker"
    parser, request = make_parser("penstock")
    assert stream(parser, request, text)["content"] == text
    parser, request = make_parser("penstock")
    assert parser.parse(text, request, enable_auto_tools=True)[1] == text


def test_a_cut_call_never_has_whole_arguments() -> None:
    parser, request = make_parser("penstock_hermes")
    found = stream(parser, request, TEXT[: TEXT.index("slo")])
    assert found["calls"]
    for _, arguments in found["calls"].values():
        with pytest.raises(json.JSONDecodeError):
            json.loads(arguments)


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}]
)
def test_a_demanded_call_is_enforced_in_the_format(choice: Any) -> None:
    parser, request = make_parser("penstock_hermes", tool_choice=choice)
    adjusted = parser.adjust_request(request)
    assert "weather" in adjusted.structured_outputs.structural_tag
    assert adjusted.skip_special_tokens is False
    assert stream(parser, request, TEXT)["calls"]
    parser, request = make_parser("penstock_hermes", tool_choice=choice)
    assert parser.parse(TEXT, request, enable_auto_tools=True)[2]


@pytest.mark.parametrize("name", [one for one in formats.names() if render(one)])
def test_xgrammar_accepts_the_structural_tag_of_every_format(name: str) -> None:
    parser, request = make_parser(
        "penstock" if name == "auto" else f"penstock_{name}", tool_choice="required"
    )
    outputs = parser.adjust_request(request).structured_outputs
    if outputs.structural_tag is None:
        assert outputs.json is not None  # The format has no tag: vLLM constrains to JSON.
        return
    validate_xgrammar_grammar(SamplingParams(structured_outputs=outputs))


def test_without_a_known_format_vllm_constrains_demanded_calls() -> None:
    parser, request = make_parser("penstock", tool_choice="required")
    assert parser.adjust_request(request).structured_outputs.json is not None
    parser, request = make_parser("penstock", name="Qwen/Qwen3-8B", tool_choice="required")
    assert parser.adjust_request(request).structured_outputs.structural_tag is not None


def test_no_calls_where_the_request_forbids_them() -> None:
    parser, request = make_parser("penstock", tool_choice="none")
    found = stream(parser, request, TEXT)
    assert (found["content"], found["calls"]) == (TEXT, {})


def test_the_entry_point_is_declared() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["vllm.general_plugins"] == {
        "penstock": "penstock.integrations.vllm:register"
    }
