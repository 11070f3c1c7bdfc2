"""SGLang's own parser classes with our plugin: run by `make integrations`, which installs it."""

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

pytest.importorskip("sglang", reason="`make integrations` installs SGLang")

from sglang.srt.entrypoints.openai.protocol import Tool, ToolChoice
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

from penstock.integrations import sglang as plugin

pytestmark = pytest.mark.filterwarnings("ignore")

TOOL = Tool(type="function", function={"name": "weather", "parameters": SCHEMA})
CALL = ToolCall("call_1", "weather", {"city": "Oslo"})
TEXT = 'Look: <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


class Tokenizer:
    name_or_path = "Qwen/Qwen3-8B"


def make_parser(name: str, **options: Any) -> Any:
    plugin.register()
    return FunctionCallParser([TOOL], name, **options)


def stream(parser: Any, text: str, size: int = 3) -> tuple[str, dict[int, tuple[str, str]]]:
    """Return the text and the calls that the deltas of *text* add up to."""
    content = ""
    calls: dict[int, tuple[str, str]] = {}
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    for found, items in [*map(parser.parse_stream_chunk, pieces), parser.parse_stream_end()]:
        content += found
        for item in items:
            name, arguments = calls.get(item.tool_index, ("", ""))
            calls[item.tool_index] = (name + (item.name or ""), arguments + item.parameters)
    return content, calls


def render(name: str) -> str | None:
    try:
        return formats.get(name).render_call(CALL)
    except UsageError:
        return None


@pytest.mark.parametrize("name", [one for one in formats.names() if one != "auto" and render(one)])
def test_every_format_streamed_and_whole(name: str) -> None:
    text = render(name) or ""
    content, calls = stream(make_parser(f"penstock_{name}"), text)
    assert [(one, json.loads(two)) for one, two in calls.values()] == [
        ("weather", {"city": "Oslo"})
    ]
    assert content.strip() == ""
    content, items = make_parser(f"penstock_{name}").parse_non_stream(text)
    assert [(one.name, json.loads(one.parameters)) for one in items] == [
        ("weather", {"city": "Oslo"})
    ]
    assert content.strip() == ""


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_text_and_a_call_of_any_format(size: int) -> None:
    expected = {0: ("weather", '{"city":"Oslo"}')}
    assert stream(make_parser("penstock"), TEXT, size) == ("Look: ", expected)
    text = "2 < 3 and <tool_call is a marker"
    assert stream(make_parser("penstock"), text, size) == (text, {})
    assert make_parser("penstock").parse_non_stream(text) == (text, [])


def test_a_cut_call_never_has_whole_arguments() -> None:
    _, calls = stream(make_parser("penstock_hermes"), TEXT[: TEXT.index("slo")])
    assert calls
    for _, arguments in calls.values():
        with pytest.raises(json.JSONDecodeError):
            json.loads(arguments)
    assert make_parser("penstock_hermes").parse_non_stream(TEXT[: TEXT.index("slo")])[1] == []


@pytest.mark.parametrize("choice", ["required", ToolChoice(function={"name": "weather"})])
@pytest.mark.parametrize("name", [one for one in formats.names() if render(one)])
def test_demanded_calls_are_enforced_where_the_format_can_be(name: str, choice: Any) -> None:
    known = "penstock" if name == "auto" else f"penstock_{name}"
    kind, _ = make_parser(known).get_structure_constraint(choice)
    has_tag = make_parser(known).detector.supports_structural_tag()
    assert kind == ("structural_tag" if has_tag else "json_schema")


def test_auto_enforces_the_format_of_the_model() -> None:
    parser = make_parser("penstock", tokenizer=Tokenizer())
    kind, tag = parser.get_structure_constraint("required")
    assert kind == "structural_tag"
    assert "<tool_call>" in str(tag)


def read_stream(parser: Any, text: str, size: int) -> tuple[str, str]:
    reasoning, content = "", ""
    for at in range(0, len(text), size):
        one, two = parser.parse_stream_chunk(text[at : at + size])
        reasoning, content = reasoning + (one or ""), content + (two or "")
    one, two = parser.parse_stream_end() if hasattr(parser, "parse_stream_end") else ("", "")
    return reasoning + (one or ""), content + (two or "")


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_reasoning(size: int) -> None:
    plugin.register()
    for forced, text in ((True, "Hm.</think>So."), (False, "<think>Hm.</think>So.")):
        parser = ReasoningParser("penstock_qwen3", force_reasoning=forced)
        assert read_stream(parser, text, size) == ("Hm.", "So.")
        parser = ReasoningParser("penstock_qwen3", force_reasoning=forced)
        assert parser.parse_non_stream(text) == ("Hm.", "So.")


def test_the_entry_point_is_declared() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["sglang.srt.plugins"] == {
        "penstock": "penstock.integrations.sglang:register"
    }
