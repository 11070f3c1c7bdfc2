"""What readers of the view have stumbled over."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.tools import Tool
from penstock.views.segments import CallPiece, Chunk, Handler

TOOLS = ["add", "sub", "write_file"]


def invoked(handler: Handler, *pieces: Any, **how: Any) -> list[tuple[str, dict[str, Any]]]:
    for piece in pieces:
        handler.feed(piece)
    handler.finish(**how)
    return [(found.name, found.arguments) for found in handler.invocations]


@pytest.mark.parametrize("cut", ["whole", "by characters"])
@pytest.mark.parametrize(
    ("items", "names"),
    [
        ('{"function":{"name":"add"}},{"function":{"name":"zz"}},{"function":{"name":"sub"}}',
         ["add", "sub"]),
        ('{"function":{"name":"add"}}, 5', ["add"]),
        ('{"function":{"name":"add"}}, null, {"function":{"name":"sub"}}', ["add", "sub"]),
    ],
    ids=["an unknown tool", "a number", "nothing"],
)  # fmt: skip
def test_what_is_no_call_in_a_list_undoes_no_call_of_it(
    items: str, names: list[str], cut: str
) -> None:
    text = f'a {{"tool_calls":[{items}]}} b'
    pieces = list(text) if cut == "by characters" else [text]
    found = invoked(Handler("json", provider="openai", tools=TOOLS), *pieces)
    assert [name for name, _ in found] == names


def test_without_tools_native_calls_are_shown_and_never_invoked() -> None:
    handler = Handler("api_tool_call", tools=())
    assert invoked(handler, Chunk(tool_calls=[CallPiece(0, "c", "add", "{}")])) == []
    assert handler.events


def test_a_native_name_is_the_tools_own_in_any_case() -> None:
    tool = Tool("add", parameters={"properties": {"a": {"type": "integer"}}})
    chunk = Chunk(tool_calls=[CallPiece(0, "c", "ADD", '{"a": "1"}')])
    assert invoked(Handler("api_tool_call", tools=[tool]), chunk) == [("add", {"a": 1})]


def test_a_native_call_without_arguments_is_not_run_when_the_connection_broke() -> None:
    chunk = Chunk(tool_calls=[CallPiece(0, "c", "add", "")])
    assert invoked(Handler("api_tool_call", tools=TOOLS), chunk) == [("add", {})]
    assert invoked(Handler("api_tool_call", tools=TOOLS), chunk, cut=True) == []


def test_odd_chunks_are_read_and_what_is_none_is_refused() -> None:
    calls: Any = [{"id": 5, "name": "add", "arguments": {}}]
    nothing: Any = None
    handler = Handler("api_tool_call", tools=TOOLS)
    assert invoked(handler, Chunk(tool_calls=nothing), Chunk(tool_calls=calls)) == [("add", {})]
    with pytest.raises(UsageError, match="bytes"):
        Handler("xml").feed(b"x")  # type: ignore[arg-type]
