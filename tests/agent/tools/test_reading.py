"""An agent's tools come in any mixture."""

from __future__ import annotations

from typing import Any

import pytest

from agent.tools.contexts import Heard
from models.loopback_servers import run
from penstock.agent.tools import ToolContext, read_agent_tools, tool
from penstock.errors import UsageError
from penstock.tools import Tool


def tide(harbour: str) -> str:
    """Tell the tide."""
    return f"{harbour}: six"


async def wind(**arguments: Any) -> dict[str, Any]:
    return arguments


SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


def test_functions_tools_and_pairs_can_be_mixed() -> None:
    made = tool(tide, name="made")
    tools = read_agent_tools(
        [
            tide,
            made,
            (Tool("wind", "Tell the wind.", SCHEMA), wind),
            ({"type": "function", "function": {"name": "gust", "parameters": SCHEMA}}, wind),
            [tool(tide, name="inner")],
        ]
    )
    assert [each.name for each in tools] == ["tide", "made", "wind", "gust", "inner"]
    assert tools[1] is made
    assert tools[2].tool.parameters == SCHEMA
    assert run(tools[3].run({"at": "sea"}, Heard())) == {"at": "sea"}  # type: ignore[arg-type]


def test_the_function_of_a_pair_may_ask_for_the_context() -> None:
    def who(at: str, context: ToolContext) -> str:
        return f"{context.id} at {at}"

    (made,) = read_agent_tools([({"name": "who", "parameters": SCHEMA}, who)])
    assert run(made.run({"at": "sea"}, Heard())) == "call_1 at sea"  # type: ignore[arg-type]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="several tools are called tide"):
        read_agent_tools([tide, tool(tide)])


@pytest.mark.parametrize(
    "items",
    [
        pytest.param("tide", id="a text"),
        pytest.param({"name": "tide"}, id="a mapping"),
        pytest.param(tool(tide), id="one tool"),
        pytest.param([{"name": "tide"}], id="a description without a function"),
        pytest.param([Tool("tide")], id="a tool without a function"),
        pytest.param([3], id="a number"),
        pytest.param([({"description": "nameless"}, tide)], id="a description without a name"),
        pytest.param([None], id="nothing"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(items: Any) -> None:
    with pytest.raises(UsageError):
        read_agent_tools(items)
