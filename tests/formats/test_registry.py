"""Formats by name, and formats of the user's own wherever a name would do."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Parser, formats, parse, parse_events
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import Format, JSONCalls
from penstock.formats.reasoning import STYLES, find_reasoning
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.parsing import Arguments
from penstock.tools import Tool

SHOUTED = Format("shouted", JSONCalls("CALL!", "!LLAC"), prompt="{tools} like {example}")


class Telegram:
    """A format of somebody's own: ``STOP name STOP`` is a call, at the end of the answer."""

    name = "telegram"

    def render_tools(self, tools: list[Tool]) -> str:
        return " ".join(tool.name for tool in tools)

    def render_call(self, call: ToolCall) -> str:
        return f"STOP {call.name} STOP"

    def render_result(self, result: ToolResult) -> str:
        return f"{result.name}: {result.content}"

    def parse(self, text: str, tools: list[Tool]) -> AssistantMessage:
        del tools
        return AssistantMessage(content=[Text(text)])

    def parser(self, tools: list[Tool]) -> TelegramParser:
        del tools
        return TelegramParser()


class TelegramParser:
    """Reads an answer when it is whole."""

    def __init__(self) -> None:
        self.text = ""
        self.rest = ""

    def feed(self, text: str) -> list[Event]:
        self.text += text
        return []

    def finish(self) -> list[Event]:
        before, _, call = self.text.partition("STOP ")
        events: list[Event] = [TextStart(0), TextDelta(0, before, before), TextEnd(0, before)]
        if call:
            made = ToolCall("c1", call.removesuffix(" STOP"), {})
            events += [
                ToolCallStart(1, "c1", made.name, "STOP " + call),
                ToolCallDelta(1, "{}"),
                ToolCallEnd(1, made),
            ]
        return events


@pytest.fixture
def registered() -> Iterator[None]:
    formats.register(SHOUTED)
    formats.register(Telegram)
    yield
    formats.unregister("shouted")
    formats.unregister("telegram")


def test_a_name_is_found_without_regard_to_case_and_dashes() -> None:
    assert formats.get("HERMES") is formats.get("hermes") is formats.get("her-mes_")
    assert formats.names()[0] == "hermes"
    assert set(formats.names()) >= {"hermes", "gemma", "none"}


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("mistral", "mistral_args"),
        ("minimax", "minimax_m1"),
        ("cohere_command3", "cohere_command"),
        ("cohere_command4", "cohere_command"),
        ("apertus2509", "apertus"),
    ],
)
def test_a_name_that_a_format_has_elsewhere_will_do(alias: str, name: str) -> None:
    assert formats.get(alias) is formats.get(name)


def test_a_name_that_nobody_has_says_which_there_are() -> None:
    with pytest.raises(UsageError, match="hermes"):
        formats.get("hermit")


@pytest.mark.usefixtures("registered")
def test_a_format_as_data_works_wherever_a_name_does() -> None:
    text = 'so CALL!{"name": "f"}!LLAC'
    for stands_for in ("Shouted", SHOUTED, lambda: SHOUTED):
        assert parse(text, stands_for).tool_calls == [ToolCall("call_1", "f", {})]
    assert SHOUTED.call_segments(text) == ['CALL!{"name": "f"}!LLAC']


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("stands_for", ["telegram", Telegram, Telegram()])
def test_an_object_with_the_five_methods_works_wherever_a_name_does(stands_for: Any) -> None:
    parser = Parser(stands_for, [])
    events = [*parser.feed("well STOP "), *parser.feed("f STOP"), *parser.finish()]
    assert events[-1] == ToolCallEnd(1, ToolCall("c1", "f", {}))
    assert parser.rest == ""
    assert parse("hi", stands_for).text == "hi"
    assert formats.get(stands_for).name == "telegram"


@pytest.mark.usefixtures("registered")
def test_the_events_of_an_own_format_are_numbered_in_their_answer() -> None:
    thought: list[Event] = [TextStart(0), TextDelta(0, "STOP f STOP"), TextEnd(0, "")]
    source = AssistantMessage(stop_reason="stop")
    out = list(parse_events([*thought, Done("stop", source)], "telegram"))
    assert isinstance(out[-1], Done)
    assert out[-1].reason == "tool_use"


def test_options_that_an_own_parser_does_not_know_are_refused_by_it() -> None:
    with pytest.raises(TypeError, match="trim"):
        Parser(Telegram(), [], trim=True)


@pytest.mark.parametrize("wrong", [object(), 3, lambda: 3, type("Half", (), {"name": "half"})])
def test_what_is_no_format_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="five methods"):
        formats.register(wrong)


def test_a_name_of_penstocks_own_cannot_be_taken_nor_taken_out() -> None:
    with pytest.raises(UsageError, match="another name"):
        formats.register(Format("Hermes", JSONCalls("a", "b")))
    formats.unregister("hermes")
    assert formats.get("hermes").name == "hermes"


def test_a_format_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="non-empty name"):
        formats.register(Format("", JSONCalls("a", "b")))


@pytest.mark.usefixtures("registered")
def test_registering_again_replaces_and_unregistering_takes_out() -> None:
    other = Format("shouted", JSONCalls("<<", ">>"))
    formats.register(other)
    assert formats.get("shouted") is other
    formats.unregister("SHOUTED")
    with pytest.raises(UsageError):
        formats.get("shouted")


def test_every_format_of_penstocks_own_has_a_name_of_its_own() -> None:
    assert len({own.name for own in BUILT_IN}) == len(BUILT_IN)


PEERS = json.loads((Path(__file__).parents[1] / "vectors" / "peer_names.json").read_text("utf-8"))


@pytest.mark.parametrize("peer", PEERS["formats"])
def test_every_parser_name_of_other_engines_resolves(peer: str) -> None:
    for name in PEERS["formats"][peer]:
        assert formats.get(name) is formats.get(name.upper().replace("_", "-"))


@pytest.mark.parametrize("peer", PEERS["reasoning"])
def test_every_reasoning_name_of_other_engines_resolves(peer: str) -> None:
    usual = STYLES["think"]
    for name in PEERS["reasoning"][peer]:
        assert find_reasoning(usual, name) is find_reasoning(usual, name.upper().replace("_", "-"))


@pytest.mark.parametrize("written", ["hy_v3", "hy_v4"])
@pytest.mark.parametrize("name", ["hunyuan", "hy_v3", "hy_v4"])
@pytest.mark.parametrize("arguments", ["whole", "live"])
def test_the_formats_of_hunyuan_read_each_other(
    written: str, name: str, arguments: Arguments
) -> None:
    text = formats.get(written).render_call(ToolCall("", "ping", {"a": "x\ny"}))
    expected = ToolCall("call_1", "ping", {"a": "x\ny"})
    assert formats.parse(text, name, arguments=arguments).tool_calls == [expected]
    parser = formats.Parser(name, arguments=arguments)
    events = [event for chunk in text for event in parser.feed(chunk)] + parser.finish(cut=False)
    assert [event.call for event in events if isinstance(event, ToolCallEnd)] == [expected]


def test_the_script_for_maintainers_reads_the_names_of_installed_engines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "vllm/tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"hermes": (1,), "news": 2}',
        "vllm/reasoning/__init__.py": '_REASONING_PARSERS_TO_REGISTER = {"qwen3": (1,)}',
        "sglang/srt/function_call/function_call_parser.py": (
            'import torch\nclass A:\n    ToolCallParserEnum: dict = {"glm45": B}'
        ),
        "sglang/srt/parser/reasoning_parser.py": 'class A:\n    DetectorMap: dict = {"kimi": B}',
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for package in ("vllm", "sglang"):
        (tmp_path / package / "__init__.py").write_text("raise ImportError('no GPU')")
    script = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "registries.py"))
    before = list(sys.path)
    try:
        status = script["main"](str(tmp_path))
    finally:
        sys.path[:] = before
    out = capsys.readouterr().out
    assert status == 1
    assert "vllm: 3 names, 1 unknown\n    unknown, formats: news\n    new, formats: news\n" in out
    assert "sglang: 2 names, 0 unknown\n" in out


def test_the_repr_of_a_format_is_its_name() -> None:
    assert repr(formats.get("auto")) == "<Format 'auto'>"
