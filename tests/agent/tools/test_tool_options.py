"""Dependencies, timeouts, and results that are models, images and files."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import annotated_types
import pydantic
import pytest

from penstock.agent import Agent, ResultFile, ToolContext, tool
from penstock.agent.tools import make_content, prepare
from penstock.errors import ToolError, UsageError
from penstock.messages import Opaque, Text, ToolCall, ToolResult
from penstock.request import Image
from penstock.testing import ScriptedModel, call

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@dataclass
class Database:
    name: str


class Order(pydantic.BaseModel):
    """An order."""

    amount: Annotated[int, pydantic.Field(gt=0, description="How many.")]
    note: str = pydantic.Field(default="", max_length=5)


def results_of(agent: Agent[Any]) -> list[ToolResult]:
    return [one for one in agent.messages if isinstance(one, ToolResult)]


# --- types ---


@tool
def buy(
    order: Order,
    tags: Annotated[list[str], annotated_types.Len(1, 2)],
    size: Annotated[int, pydantic.Field(ge=1, le=9, description="The size.")] = 3,
    colour: str = pydantic.Field("red", pattern="^[a-z]+$", description="The colour."),
) -> str:
    """Buy something."""
    return f"{type(order).__name__} {order.amount} {tags} {size} {colour}"


def test_constraints_and_descriptions_are_kept() -> None:
    schema = buy.tool.parameters
    properties = schema["properties"]
    assert schema["required"] == ["order", "tags"]
    assert properties["size"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "The size.",
        "default": 3,
    }
    assert properties["tags"]["minItems"] == 1
    assert properties["tags"]["maxItems"] == 2
    assert properties["colour"]["pattern"] == "^[a-z]+$"
    assert properties["colour"]["default"] == "red"
    amount = properties["order"]["properties"]["amount"]
    assert (amount["exclusiveMinimum"], amount["description"]) == (0, "How many.")


async def test_a_model_of_pydantic_is_an_argument() -> None:
    model = ScriptedModel([call("buy", order={"amount": 2}, tags=["a"]), "Done."])
    agent = Agent(model, [buy])
    await agent.run("Buy.")
    assert results_of(agent)[0].content == "Order 2 ['a'] 3 red"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"order": {"amount": 0}, "tags": ["a"]}, "order.amount: expected more than 0"),
        ({"order": {"amount": 1}, "tags": []}, "tags: expected at least 1 items"),
        ({"order": {"amount": 1}, "tags": ["a"], "size": 10}, "size: expected at most 9"),
        ({"order": {"amount": 1}, "tags": ["a"], "colour": "R2"}, "colour: expected text that"),
        ({"order": {"amount": 1, "note": "longer"}, "tags": ["a"]}, "order.note: expected at most"),
    ],
)
def test_arguments_that_violate_a_constraint_are_refused(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ToolError, match=words.replace(".", r"\.")):
        prepare(buy, ToolCall("c", "buy", arguments))


def test_the_decorated_function_stays_callable() -> None:
    assert buy(Order(amount=1), ["a"], colour="blue") == "Order 1 ['a'] 3 blue"


async def test_every_call_has_a_default_of_its_own() -> None:
    @tool
    def collect(
        item: str,
        seen: Annotated[list[str], pydantic.Field(default_factory=list)],
        kept: list[str] = pydantic.Field(default_factory=list),  # noqa: B008 - not a value
    ) -> str:
        """Collect items."""
        seen.append(item)
        kept.append(item)
        return f"{seen} {kept}"

    assert collect.tool.parameters["required"] == ["item"]
    asked = [call("collect", item="a"), call("collect", item="b")]
    agent = Agent(ScriptedModel([asked, "Done."]), [collect])
    await agent.run("Collect.")
    assert [one.content for one in results_of(agent)] == ["['a'] ['a']", "['b'] ['b']"]


# --- dependencies ---


@tool
async def query(table: str, context: ToolContext[Database]) -> str:
    """Query a table."""
    return f"{context.deps.name}.{table}"


async def test_dependencies_reach_the_tools() -> None:
    model = ScriptedModel([call("query", table="a"), "A.", call("query", table="b"), "B."])
    agent = Agent(model, [query], deps=Database("first"))
    await agent.run("a")
    await agent.run("b", deps=Database("second"))
    assert [one.content for one in results_of(agent)] == ["first.a", "second.b"]
    assert "context" not in query.tool.parameters["properties"]


# --- timeouts ---


@pytest.mark.virtual_time
async def test_a_tool_that_takes_too_long_is_stopped() -> None:
    stopped: list[str] = []

    @tool(timeout=5)
    async def wait_long() -> str:
        """Wait."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append("stopped")
            raise
        return "done"

    agent = Agent(ScriptedModel([call("wait_long"), "Well."]), [wait_long])
    result = await agent.run("Wait.")
    assert result.text == "Well."
    assert results_of(agent)[0].is_error
    assert results_of(agent)[0].content == (
        "Tool wait_long took longer than 5 seconds and was stopped."
    )
    assert stopped == ["stopped"]


async def test_a_timeout_of_the_tool_itself_is_its_own_error() -> None:
    @tool(timeout=50)
    async def connect() -> str:
        """Connect."""
        raise TimeoutError("the server is slow")

    agent = Agent(ScriptedModel([call("connect"), "Well."]), [connect])
    await agent.run("Go.")
    assert "TimeoutError: the server is slow" in str(results_of(agent)[0].content)


async def test_a_thread_is_told_and_awaited() -> None:
    @tool(timeout=0.05)
    def work(context: ToolContext) -> str:
        """Work."""
        end = time.monotonic() + 30
        while not context.cancelled and time.monotonic() < end:
            time.sleep(0.005)
        return "ended"

    agent = Agent(ScriptedModel([call("work"), "Well."]), [work])
    await agent.run("Go.")
    assert "took longer than 0.05 seconds" in str(results_of(agent)[0].content)


def test_a_timeout_has_to_be_positive() -> None:
    with pytest.raises(UsageError, match="timeout"):
        tool(timeout=0)(test_a_timeout_has_to_be_positive)


# --- results ---


def test_models_are_json() -> None:
    assert make_content(Order(amount=2)) == {"amount": 2, "note": ""}
    assert make_content([Order(amount=2)]) == [{"amount": 2, "note": ""}]


def test_files_are_text_images_and_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("High water")
    (tmp_path / "b.png").write_bytes(PNG)
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.7 ...")
    (tmp_path / "d.bin").write_bytes(b"\xff\xfe\x00")
    content = make_content(
        [ResultFile(tmp_path / name) for name in ("a.txt", "b.png", "c.pdf", "d.bin")]
    )
    text, image, document, other = content
    assert text == Text("High water")
    assert isinstance(image, Image)
    assert image.media_type == "image/png"
    assert isinstance(document, Opaque)
    assert document.data["file"]["filename"] == "c.pdf"
    assert other == Text("(d.bin: 3 bytes that are not text)")
    assert make_content(ResultFile(data=PNG, name="x.png")) == [image]
    with pytest.raises(ToolError, match="cannot read"):
        ResultFile(tmp_path / "none")
    with pytest.raises(UsageError, match="a path or its data"):
        ResultFile()


def test_objects_that_draw_themselves_are_images() -> None:
    class Plot:
        def _repr_png_(self) -> bytes:
            return PNG

    class Broken:
        def _repr_png_(self) -> bytes:
            raise RuntimeError

        def __str__(self) -> str:
            return "broken"

    (image,) = make_content(Plot())
    assert isinstance(image, Image)
    assert make_content(["Here:", Plot()])[0] == Text("Here:")
    assert make_content(Broken()) == "broken"


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unprintable(), "Tool fail failed: Unprintable: it cannot be printed: RuntimeError"),
        (ToolError("x" * 500_000), "[… 400,000 characters omitted …]"),
        (ExceptionGroup("all", [OSError("no sea")]), "(1 sub-exception): OSError: no sea"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_every_call_that_fails_has_a_result(error: Exception, expected: str) -> None:
    @tool
    async def fail() -> None:
        """Fail."""
        raise error

    agent = Agent(ScriptedModel([call("fail"), "Well."]), [fail])
    assert (await agent.run("Go.")).text == "Well."
    (result,) = results_of(agent)
    assert result.is_error
    assert expected in str(result.content)
    assert len(str(result.content)) < 101_000
