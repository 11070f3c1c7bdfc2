"""Formats of calls with raw values: what they write reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ARGUMENTS, NAMES
from parsing.parameter_samples import DISTINCT, FORMATS, NS
from penstock.errors import UsageError
from penstock.events import ToolCallEnd
from penstock.formats.registry import get
from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

EVERY = pytest.mark.parametrize("name", DISTINCT)


CALL = ToolCall("c", "f", {"a": "x\ny", "b": [1, {"k": True}], "n": None})
BAR = "\uff5c"
WRITTEN = {
    "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=a>\nx\ny\n</parameter>\n<parameter=b>\n"
    '[1, {"k": true}]\n</parameter>\n<parameter=n>\nnull\n</parameter>\n</function>\n</tool_call>',
    "seed_oss": "<seed:tool_call>\n<function=f>\n<parameter=a>x\ny</parameter>\n<parameter=b>"
    '[1, {"k": true}]</parameter>\n<parameter=n>null</parameter>\n</function>\n</seed:tool_call>',
    "glm45": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x\ny</arg_value>\n<arg_key>b</arg_key>"
    '\n<arg_value>[1, {"k": true}]</arg_value>\n<arg_key>n</arg_key>\n<arg_value>null</arg_value>\n'
    "</tool_call>",
    "glm47": "<tool_call>f<arg_key>a</arg_key><arg_value>x\ny</arg_value><arg_key>b</arg_key>"
    '<arg_value>[1, {"k": true}]</arg_value><arg_key>n</arg_key><arg_value>null</arg_value>'
    "</tool_call>",
    "hy_v3": "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n"
    "<arg_key:opensource>a</arg_key:opensource>\n<arg_value:opensource>x\ny</arg_value:opensource>\n"
    "<arg_key:opensource>b</arg_key:opensource>\n"
    '<arg_value:opensource>[1, {"k": true}]</arg_value:opensource>\n'
    "<arg_key:opensource>n</arg_key:opensource>\n<arg_value:opensource>null</arg_value:opensource>\n"
    "</tool_call:opensource>\n</tool_calls:opensource>",
    "ling3": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x\ny</arg_value><arg_key>b</arg_key>\n"
    '<arg_value>[1, {"k": true}]</arg_value><arg_key>n</arg_key>\n<arg_value>null</arg_value>\n'
    "</tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x\ny</parameter>\n'
    '<parameter name="b">[1, {"k": true}]</parameter>\n<parameter name="n">null</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
    "deepseek_v4": f'<{BAR}DSML{BAR}tool_calls>\n<{BAR}DSML{BAR}invoke name="f">\n'
    f'<{BAR}DSML{BAR}parameter name="a" string="true">x\ny</{BAR}DSML{BAR}parameter>\n'
    f'<{BAR}DSML{BAR}parameter name="b" string="false">[1, {{"k": true}}]'
    f"</{BAR}DSML{BAR}parameter>\n"
    f'<{BAR}DSML{BAR}parameter name="n" string="false">null</{BAR}DSML{BAR}parameter>\n'
    f"</{BAR}DSML{BAR}invoke>\n</{BAR}DSML{BAR}tool_calls>",
    "step3": f"<{BAR}tool_calls_begin{BAR}>\n<{BAR}tool_call_begin{BAR}>function"
    f'<{BAR}tool_sep{BAR}><steptml:invoke name="f">\n'
    '<steptml:parameter name="a">x\ny</steptml:parameter>\n'
    '<steptml:parameter name="b">[1, {"k": true}]</steptml:parameter>\n'
    '<steptml:parameter name="n">null</steptml:parameter>\n</steptml:invoke>'
    f"<{BAR}tool_call_end{BAR}>\n<{BAR}tool_calls_end{BAR}>",
    "minicpm5": '<function name="f"><param name="a">x\ny</param><param name="b">[1, {"k": true}]'
    '</param><param name="n">null</param></function>',
    "minimax_m3": f'{NS}<tool_call>\n{NS}<invoke name="f">{NS}<a>x\ny{NS}</a>{NS}<b>{NS}<item>1{NS}'
    f"</item>{NS}<item>{NS}<k>true{NS}</k>{NS}</item>{NS}</b>{NS}<n>null{NS}</n>{NS}</invoke>\n"
    f"{NS}</tool_call>",
}


@pytest.mark.parametrize(("name", "text"), WRITTEN.items(), ids=WRITTEN)
def test_calls_are_written_as_the_models_write_them(name: str, text: str) -> None:
    assert FORMATS[name].render_call(CALL) == text


def test_results_are_written_as_the_models_expect_them() -> None:
    result = ToolResult("c", "f", {"depth": 2.5})
    results = {name: FORMATS[name].render_result(result) for name in DISTINCT}
    assert results["qwen3_coder"] == '<tool_response>\n{"depth": 2.5}\n</tool_response>'
    assert results["seed_oss"] == '{"depth": 2.5}'
    assert results["glm47"] == '<tool_response>{"depth": 2.5}</tool_response>'
    assert FORMATS["step3p5"].render_result(result) == results["glm47"]
    assert results["hy_v3"] == (
        "<tool_responses:opensource>\n<tool_response:opensource>\n"
        '{"depth": 2.5}\n</tool_response:opensource>\n</tool_responses:opensource>'
    )
    assert results["minimax_m2"] == '<response>{"depth": 2.5}</response>'
    assert results["deepseek_v4"] == '<tool_result>{"depth": 2.5}</tool_result>'
    wet = FORMATS["deepseek_v32"].render_result(ToolResult("c", "f", "wet CONTENT"))
    assert wet == "<function_results>\n<result>wet CONTENT</result>\n</function_results>"


@EVERY
@settings(max_examples=40)
@given(call_name=NAMES, arguments=ARGUMENTS, around=st.sampled_from(["", "a ", "\n"]))
def test_a_rendered_call_reads_back_equal(
    name: str, call_name: str, arguments: dict[str, Any], around: str
) -> None:
    fmt = FORMATS[name]
    tool = Tool(call_name, parameters=infer_schema(arguments))

    def read_back(text: str) -> ToolCall:
        message = fmt.parse(around + text + around, [tool])
        assert message.text == around + around
        (call,) = message.tool_calls
        return call

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", call_name, arguments))


EXPRESSIBLE = {
    "texts that look like other values": {"a": "5", "b": "null", "c": "[1]", "d": "{}"},
    "texts that look like places": {"KEY": "VALUE", "NAME": "PARAMETERS"},
    "texts with tags": {"a": "<b>x</b> </div> <tool_call> </tool_call> & &lt;", "z": "]]> <!["},
    "numbers": {"a": 10**30, "b": -0.0, "c": 1e300, "d": 1.5e-7},
    "containers": {"a": [], "b": {}, "c": ["x", "y"], "d": {"k": {"l": [1, 2]}}, "e": ""},
    "nothing": {},
}


@EVERY
@pytest.mark.parametrize("arguments", EXPRESSIBLE.values(), ids=EXPRESSIBLE)
def test_what_might_be_mistaken_reads_back_equal(name: str, arguments: dict[str, Any]) -> None:
    fmt = FORMATS[name]
    text = fmt.render_call(ToolCall("c", "f", arguments))
    (call,) = fmt.parse(text, [Tool("f", parameters=infer_schema(arguments))]).tool_calls
    assert (call.arguments, call.complete) == (arguments, True)


NEWLINES = {"a": "\n  x\n", "b": "\n", "c": " "}


@pytest.mark.parametrize("name", [name for name in DISTINCT if name != "step3"])
def test_white_space_at_the_ends_of_a_text_is_kept(name: str) -> None:
    fmt = FORMATS[name]
    (call,) = fmt.parse(fmt.render_call(ToolCall("c", "f", NEWLINES))).tool_calls
    assert call.arguments == NEWLINES


def test_white_space_at_the_ends_of_a_text_is_refused_where_it_would_be_lost() -> None:
    with pytest.raises(UsageError, match="cannot express"):
        FORMATS["step3"].render_call(ToolCall("c", "f", NEWLINES))


@EVERY
def test_a_text_that_holds_its_structural_end_is_refused(name: str) -> None:
    fmt = FORMATS[name]
    ending = fmt.render_call(ToolCall("c", "f", {"a": "@"})).partition("@")[2]
    for text in (ending, "]]>" + ending):
        try:
            written = fmt.render_call(ToolCall("c", "f", {"a": f"x{text}y"}))
        except UsageError:
            continue
        (call,) = fmt.parse(written).tool_calls
        assert call.arguments == {"a": f"x{text}y"}
    with pytest.raises(UsageError, match="cannot express"):
        fmt.render_call(ToolCall("c", "f", {"a": f"x{ending}]]>{ending}y"}))


UNCLOSED = ("qwen3_coder", "nemotron_v3", "step3p5", "mimo", "seed_oss")


@pytest.mark.parametrize("key", ["hours", "port", "any"])
@pytest.mark.parametrize("name", UNCLOSED)
def test_a_text_that_would_begin_another_parameter_is_refused(name: str, key: str) -> None:
    fmt = get(name)
    with pytest.raises(UsageError, match="cannot express"):
        fmt.render_call(ToolCall("c", "tide_at", {"port": f"a\n<parameter={key}>\n5"}))
    inside = {"port": f"a '<parameter={key}>' b"}
    (call,) = fmt.parse(fmt.render_call(ToolCall("c", "tide_at", inside)), []).tool_calls
    assert call.arguments == inside


def test_a_parameter_that_holds_all_arguments_is_written_where_it_is_declared() -> None:
    arguments = {"input": {"a": 1}}
    tool = Tool("f", parameters=infer_schema(arguments))
    fmt = get("deepseek_v32")
    (call,) = fmt.parse(fmt.render_call(ToolCall("c", "f", arguments)), [tool]).tool_calls
    assert call.arguments == arguments


REFUSED = {
    "a name that is none": ToolCall("c", "a b", {}),
    "a number that JSON has not": ToolCall("c", "f", {"a": float("nan")}),
    "no value at all": ToolCall("c", "f", {"a": object()}),
    "a key that would end its tag": ToolCall("c", "f", {"a\"'><": 1}),
}


@EVERY
@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused(name: str, call: ToolCall) -> None:
    with pytest.raises(UsageError):
        FORMATS[name].render_call(call)


@EVERY
def test_the_prompt_shows_a_call_that_reads_back(name: str) -> None:
    tool = Tool("save", "Keep it", {"properties": {"note": {"type": "string"}}})
    prompt = FORMATS[name].render_tools([tool])
    (call,) = FORMATS[name].parse(prompt, [tool]).tool_calls
    assert (call.name, call.arguments) == ("save", {"note": "some text"})


@EVERY
def test_the_segments_of_calls_are_the_exact_pieces_of_the_text(name: str) -> None:
    written = FORMATS[name].render_call(ToolCall("c", "f", {"a": "x"}))
    assert FORMATS[name].call_segments(f"so {written} and {written}") == [written, written]


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_blank_in_a_closing_tag_changes_nothing(blank: str) -> None:
    tool = Tool("add", "", {"properties": {"n": {"type": "integer"}, "why": {"type": "string"}}})
    end = f"</{blank}parameter>"
    text = (
        f"<tool_call>\n<function=add>\n<parameter=n>\n5\n{end}\n"
        f"<parameter=why>\nsum\n{end}\n</function>\n</tool_call>"
    )
    for chunks in ([text], [*text]):
        parser = get("qwen3_coder").parser([tool])
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
        assert [call.arguments for call in calls] == [{"n": 5, "why": "sum"}]
