from __future__ import annotations

import json

import pytest

import penstock
from batch.samples import RESPONSES, TOOLS
from penstock.batch import RowParser
from penstock.batch.rows import MAX_TOOL_SETS

CALL = '<tool_call>{"name": "write_file", "arguments": {"path": "a"}}</tool_call>'


@pytest.mark.parametrize(("response", "outcome"), RESPONSES)
def test_a_row_is_what_parse_returns(response: str, outcome: str) -> None:
    row = RowParser("auto", TOOLS).parse(response)
    message = penstock.parse(response, "auto", TOOLS)
    assert row.outcome == outcome
    assert (row.text, row.reasoning) == (message.text, message.thinking)
    assert [(one.name, one.arguments) for one in row.calls] == [
        (one.name, one.arguments) for one in message.tool_calls
    ]
    assert [span.start for span in row.spans] == [0, *(span.end for span in row.spans)][:-1]
    assert (row.spans[-1].end if row.spans else 0) == len(response)
    assert (row.error is not None) == (outcome == "unread")


@pytest.mark.parametrize(
    ("response", "text", "error"),
    [
        pytest.param(None, "", "the response is null", id="null"),
        pytest.param(7, "7", "the response is not a text", id="a number"),
        pytest.param({"a": [1]}, '{"a":[1]}', "the response is not a text", id="an object"),
    ],
)
def test_a_response_that_is_not_a_text_is_kept_as_json(
    response: object, text: str, error: str
) -> None:
    row = RowParser().parse(response)
    assert (row.outcome, row.text, row.error) == ("invalid", text, error)


def test_a_row_may_have_tools_of_its_own() -> None:
    parser = RowParser("auto", TOOLS)
    other = [{"name": "ping"}]
    call = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'
    assert parser.parse(call).outcome == "unread"
    assert parser.parse(call, tools=other).outcome == "calls"
    assert parser.parse(call, tools=json.dumps(other)).outcome == "calls"
    assert parser.parse(CALL, tools=other).outcome == "unread"


@pytest.mark.parametrize("tools", ["[", '[{"name": 7}]', 7, '"x"'])
def test_invalid_tools_of_a_row_make_the_row_invalid_and_keep_its_text(tools: object) -> None:
    row = RowParser().parse(CALL, tools=tools)
    assert (row.outcome, row.text, row.calls) == ("invalid", CALL, [])
    assert row.error is not None
    assert row.error.startswith("invalid tools: ")


def test_only_so_many_sets_of_tools_are_kept() -> None:
    parser = RowParser()
    for number in range(MAX_TOOL_SETS + 5):
        assert parser.parse("x", tools=[{"name": f"t{number}"}]).outcome == "text"
    assert len(parser._sets) == MAX_TOOL_SETS


@pytest.mark.parametrize("finish", ["length", "MAX_TOKENS", "max_output_tokens"])
def test_a_call_that_the_token_limit_cut_is_never_repaired(finish: str) -> None:
    parser = RowParser("hermes", TOOLS, repair=True)
    cut = CALL[: CALL.index("}}")]
    assert parser.parse(cut, finish="stop").outcome == "calls"
    assert parser.parse(cut).repairs
    row = parser.parse(cut, finish=finish)
    assert (row.outcome, row.calls, row.text) == ("unread", [], cut)


def test_repairs_of_all_calls_are_listed() -> None:
    broken = CALL.replace('"a"', "'a'")
    row = RowParser("hermes", TOOLS, repair=True).parse(broken + broken)
    assert len(row.calls) == 2
    assert row.repairs == [*row.calls[0].repairs, *row.calls[1].repairs] != []


def test_spans_and_the_search_for_unread_calls_can_be_switched_off() -> None:
    parser = RowParser("auto", TOOLS, spans=False, unread=False)
    row = parser.parse('<tool_call>{"name": "send_mail", "arguments": {}}</tool_call>')
    assert (row.spans, row.outcome, row.error) == ([], "text", None)
