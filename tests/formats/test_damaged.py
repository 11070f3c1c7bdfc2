"""Damaged calls, and what is right for each: whole, by characters and at every cut, in both modes.

A vector with `repair` null has the same result with repair and without. The model ended by itself.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from laws import Ending, check_readings
from laws.damage import SETTINGS, TOOLS, Setting, damaged_texts, twice_damaged
from penstock import Parser
from penstock.formats import Format
from penstock.formats.base import build_message
from penstock.formats.registry import BUILT_IN
from penstock.parsing import Arguments
from penstock.tools import Tool, read_tools

HERE: Final = Path(__file__).parents[1] / "vectors"
FORMATS: Final = {fmt.name: fmt for fmt in BUILT_IN}
TOOLSETS: Final = json.loads((HERE / "toolsets.json").read_text("utf-8"))
VECTORS: Final = [
    pytest.param(vector, id=vector["id"])
    for vector in map(json.loads, (HERE / "damaged.jsonl").read_text("utf-8").splitlines())
]


def parser_of(vector: dict[str, Any], mode: Arguments, *, repair: bool) -> Ending:
    tools = read_tools(TOOLSETS[vector["tools"]])
    return Ending(Parser(vector["format"], tools, arguments=mode, repair=repair), cut=False)


@pytest.mark.parametrize("mode", ["whole", "live"])
@pytest.mark.parametrize("vector", VECTORS)
def test_a_damaged_call_is_read_as_meant_or_not_at_all(
    vector: dict[str, Any], mode: Arguments
) -> None:
    expect, text = vector["expect"], vector["text"]
    # Both modes have the same readers: one of them is enough to try every cut.
    ways = None if mode == "live" else [[*text]]
    for repair in (False, True) if vector["repair"] is None else (vector["repair"],):
        message = build_message(
            check_readings(partial(parser_of, vector, mode, repair=repair), text, ways)
        )
        complete = [call for call in message.tool_calls if call.complete]
        assert [{"name": c.name, "arguments": c.arguments} for c in complete] == expect["calls"]
        if "repairs" in expect:
            assert complete[0].repairs == expect["repairs"]
        if len(complete) == len(message.tool_calls):  # What an incomplete one took is no text.
            content = expect["content"]
            assert message.text == content or (content is None and not message.text.strip())


ENDED: Final = (
    ("mistral_args", '[TOOL_CALLS]run_bash[ARGS]{"command": "ls -la}[/INST]'),
    ("llama4_pythonic", '<|python_start|>[run_bash(command="ls -la<|end|>'),
    ("glm45", "<tool_call>run_bash\n<arg_key>command</arg_key>\n<arg_value>ls -la<turn|>"),
    (
        "qwen3_coder",
        "<tool_call>\n<function=run_bash>\n<parameter=command>\nls -la\n</pa<|eot_id|>",
    ),
)
"""Calls that a token of some family of models ends."""


@pytest.mark.parametrize(("name", "text"), ENDED, ids=[name for name, _ in ENDED])
def test_a_token_that_ends_the_turn_is_no_part_of_an_argument(name: str, text: str) -> None:
    tools = read_tools(TOOLSETS["files"])
    meant: dict[Arguments, list[Any]] = {"whole": [{"command": "ls -la"}], "live": []}
    for mode, arguments in meant.items():
        events = check_readings(partial(ending_parser, name, tools, mode), text, [[*text]])
        calls = [call for call in build_message(events).tool_calls if call.complete]
        assert [call.arguments for call in calls] == arguments  # In `live` the token went out.


def ending_parser(name: str, tools: list[Tool], mode: Arguments) -> Ending:
    return Ending(Parser(name, tools, arguments=mode, repair=True), cut=False)


SEARCH: Final = Tool(
    "search",
    "Search",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "options": {"type": "object", "properties": {"lang": {"type": "string"}}},
        },
    },
)
NESTED: Final = (
    (
        "hermes",
        '<tool_call>{"name":"search","arguments":{"options":{"<|im_end|>lang":"de"}}}</tool_call>',
    ),
    ("mistral_args", '[TOOL_CALLS]search[ARGS]{"query": "x", "options": {"lang`: "de"}}'),
    (
        "glm45",
        '<tool_call>search\n<arg_key>options</arg_key>\n<arg_value>{"lang</s>": "de"}</arg_value>',
    ),
)
"""Calls with a damaged name inside an argument."""


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize(("name", "text"), NESTED, ids=[name for name, _ in NESTED])
def test_a_damaged_name_inside_an_argument_makes_no_complete_call(
    name: str, text: str, *, repair: bool
) -> None:
    for mode in ("whole", "live"):
        setting = Setting("", mode, repair=repair)
        events = check_readings(partial(searching_parser, name, setting), text)
        assert not any(call.complete for call in build_message(events).tool_calls)


def searching_parser(name: str, setting: Setting) -> Ending:
    parser = Parser(name, [SEARCH], arguments=setting.arguments, repair=setting.repair)
    return Ending(parser, cut=False)


RAW: Final = (
    *("qwen3_coder", "seed_oss", "glm45", "glm47", "hy_v3", "minimax_m2", "minimax_m3", "dots"),
    *("deepseek_v32", "step3", "minicpm5", "muse_glimmer", "kimi_k3"),
)
"""Formats whose values are raw text between tags."""


@pytest.mark.parametrize("name", RAW)
def test_a_damaged_text_reads_the_same_by_characters(name: str) -> None:
    fmt = FORMATS[name]
    once = damaged_texts(fmt)
    for at, damaged in enumerate([*once[:: len(once) // 12], *twice_damaged(fmt, 6)]):
        setting = SETTINGS[at % len(SETTINGS)]
        make = partial(ended_parser, setting.reader or fmt, setting)
        check_readings(make, damaged.text, [[*damaged.text]])


def ended_parser(fmt: Format | str, setting: Setting) -> Ending:
    parser = Parser(fmt, TOOLS, arguments=setting.arguments, repair=setting.repair)
    return Ending(parser, cut=False)
