"""Functions of every kind become tools, and run as their kind does."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, assert_type

import pytest

from agent.tools.contexts import Heard
from penstock.agent.tools import AgentTool, ToolContext, read_agent_tools, tool
from penstock.errors import ToolError, UsageError
from penstock.tools import Tool

if TYPE_CHECKING:
    from decimal import Decimal


async def ran(made: AgentTool, heard: ToolContext | None = None, /, **arguments: object) -> Any:
    result = await made.run(arguments, heard or Heard(made.name))
    await asyncio.sleep(0)  # Updates from a thread are handed over in the next turn of the loop.
    return result


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def test_a_decorated_function_is_a_tool() -> None:
    assert add.name == "add"
    assert add.tool.description == "Add two numbers."
    assert add.tool.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "integer", "description": "The second.", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert await ran(add, a=1) == 3
    assert await ran(add, a=1, b=5) == 6


async def test_a_decorated_function_can_be_called() -> None:
    assert_type(await add(1), int)
    assert await add(1, b=5) == 6
    assert list(inspect.signature(add).parameters) == ["a", "b"]


async def test_a_function_that_is_decorated_with_options_can_be_called() -> None:
    @tool(name="double-up")
    def double(text: str, *, times: int = 2) -> str:
        return text * times

    assert_type(double("a"), str)
    assert double("a", times=3) == "aaa"
    assert await ran(double, text="b") == "bb"
    with pytest.raises(TypeError):
        double(3, 4)  # type: ignore[arg-type, call-arg]


def test_a_static_method_can_be_called_by_its_class() -> None:
    class Boat:
        @tool
        @staticmethod
        def sail(to: str) -> str:
            return f"to {to}"

    assert Boat.sail("Oban") == "to Oban"
    assert Boat().sail("Oban") == "to Oban"


async def test_options_go_with_the_decorator() -> None:
    @tool(name="sum-up", description="Adds.", exclusive=True, abortable=False, needs_approval=True)
    def total(*numbers: float) -> float:
        """Say something else."""
        return sum(numbers)

    assert (total.name, total.tool.description) == ("sum-up", "Adds.")
    assert (total.exclusive, total.abortable, total.needs_approval, total.lenient) == (
        True, False, True, False,
    )  # fmt: skip
    assert await ran(total, numbers=[1, 2.5]) == 3.5


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    def up(self, by: int = 1) -> int:
        """Count up."""
        self.count += by
        return self.count

    async def __call__(self, by: int) -> int:
        """Count down."""
        self.count -= by
        return self.count


async def test_a_method_keeps_its_object() -> None:
    counter = Counter()
    made = tool(counter.up)
    assert await ran(made, by=3) == 3
    assert (made.name, made.tool.description, counter.count) == ("up", "Count up.", 3)


async def test_a_static_method_is_a_function() -> None:
    class Harbour:
        @tool
        @staticmethod
        def depth(metres: int) -> int:
            return metres

    assert await ran(Harbour.depth, metres=3) == 3
    assert Harbour.depth.tool.parameters["properties"] == {"metres": {"type": "integer"}}


async def test_an_object_can_be_called() -> None:
    made = tool(Counter(), name="down")
    assert await ran(made, by=3) == -3
    assert made.tool.description == "Count down."
    assert made.tool.parameters["properties"] == {"by": {"type": "integer"}}


async def greet(name: str, *, greeting: str = "Hello") -> str:
    """Greet somebody."""
    return f"{greeting}, {name}"


async def test_what_a_partial_fixes_is_not_the_models_to_choose() -> None:
    made = tool(functools.partial(greet, greeting="Ahoy"))
    assert (made.name, made.tool.description) == ("greet", "Greet somebody.")
    assert list(made.tool.parameters["properties"]) == ["name"]
    assert await ran(made, name="Ada") == "Ahoy, Ada"
    with pytest.raises(ToolError, match="greeting"):
        await ran(made, name="Ada", greeting="Hi")


async def test_what_a_partial_fixes_stays_fixed_among_free_names() -> None:
    made = tool(functools.partial(lambda **options: options, user="ada"), name="options")
    assert await ran(made, size=1) == {"user": "ada", "size": 1}
    with pytest.raises(ToolError, match="user"):
        await ran(made, user="root")


async def test_the_context_is_filled_in() -> None:
    async def show(
        context: Annotated[ToolContext, "the call's"],
        text: str,
        *,
        again: ToolContext | None = None,
    ) -> str:
        context.update(f"{text}…")
        assert again is context
        return f"{context.id} {text}"

    made = tool(show)
    context = Heard()
    assert list(made.tool.parameters["properties"]) == ["text"]
    assert await ran(made, context, text="tide") == "call_1 tide"
    assert context.updates == ["tide…"]
    with pytest.raises(ToolError, match="context"):
        await ran(made, context="mine", text="tide")


async def test_a_plain_function_runs_in_a_thread_and_its_updates_on_the_loop() -> None:
    here = threading.get_ident()
    told: list[int] = []

    def work(context: ToolContext) -> int:
        context.update("half")
        return threading.get_ident()

    context = ToolContext("1", "work", lambda _: told.append(threading.get_ident()))
    assert await ran(tool(work), context) != here
    assert told == [here]


async def test_each_value_of_an_async_generator_is_an_update_and_the_last_the_result() -> None:
    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    context = Heard()
    assert await ran(tool(count), context, to=3) == 2
    assert context.updates == [0, 1, 2]
    assert await ran(tool(count), to=0) is None


async def test_a_generator_does_the_same_from_a_thread() -> None:
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    context = Heard()
    assert await ran(tool(count), context, to=3) == 2
    assert context.updates == [0, 1, 2]


async def test_a_function_may_give_back_an_awaitable() -> None:
    def later(name: str) -> Awaitable[str]:
        return greet(name)

    assert await ran(tool(later), name="Ada") == "Hello, Ada"


async def test_a_function_may_give_back_an_async_generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2

    def begun() -> AsyncIterator[int]:
        return numbers()

    context = Heard()
    assert await ran(tool(begun), context) == 2
    assert context.updates == [1, 2]


async def test_a_wrapped_function_shows_what_it_wraps() -> None:
    def loud(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def shouting(*args: Any, **kwargs: Any) -> str:
            return str(await function(*args, **kwargs)).upper()

        return shouting

    made = tool(loud(greet))
    assert set(made.tool.parameters["properties"]) == {"name", "greeting"}
    assert await ran(made, name="Ada") == "HELLO, ADA"


def test_a_return_hint_that_only_a_checker_knows_is_no_trouble() -> None:
    def price() -> Decimal:
        raise NotImplementedError

    assert tool(price).tool.parameters["properties"] == {}


async def test_a_function_that_calls_itself_can_be_decorated_where_it_stands() -> None:
    @tool
    def dive(depth: int) -> int:
        return depth if depth > 9 else depth + bool(dive)

    assert await ran(dive, depth=1) == 2


@pytest.mark.parametrize("problem", [StopIteration(3), SystemExit("bye")], ids=repr)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_what_would_end_the_loop_is_only_an_error(problem: BaseException, kind: str) -> None:
    def plain() -> None:
        raise problem

    async def later() -> None:
        raise problem

    # A coroutine's own StopIteration is a RuntimeError to Python already.
    with pytest.raises((ToolError, RuntimeError)):
        await ran(tool(plain if kind == "plain" else later))


async def test_a_tool_that_leaves_the_program_does_not_take_it_along() -> None:
    with pytest.raises(ToolError, match="2"):
        await ran(tool(lambda: sys.exit(2), name="leave"))


# --- cancellation --------------------------------------------------------------------------------


async def test_a_cancelled_thread_is_told_and_waited_for() -> None:
    started, may_end = threading.Event(), threading.Event()
    seen: list[str] = []

    def work(context: ToolContext) -> None:
        started.set()
        may_end.wait(30)
        seen.append("cancelled" if context.cancelled else "not told")

    task = asyncio.ensure_future(tool(work).run({}, Heard()))
    await asyncio.to_thread(started.wait, 30)
    for _ in range(3):  # also one who insists waits
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_a_cancelled_generator_is_closed() -> None:
    waits = asyncio.Event()
    seen = []

    async def work() -> AsyncIterator[int]:
        try:
            yield 1
            waits.set()
            await asyncio.Event().wait()
        finally:
            seen.append("closed")

    task = asyncio.ensure_future(tool(work).run({}, Heard()))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["closed"]


async def test_a_cancelled_generator_in_a_thread_ends_at_its_next_value() -> None:
    started, may_go_on = threading.Event(), threading.Event()
    seen = []

    def work() -> Iterator[int]:
        try:
            yield 1
            started.set()
            may_go_on.wait(30)
            yield 2
            seen.append("went on")
        finally:
            seen.append("closed")

    context = Heard()
    task = asyncio.ensure_future(tool(work).run({}, context))
    await asyncio.to_thread(started.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (seen, context.updates) == (["closed"], [1])


# --- what is refused -----------------------------------------------------------------------------


class Unknown:
    """Nothing that JSON knows."""


def takes_unknown(thing: Unknown) -> None: ...


def takes_nonsense(thing: Nonesuch) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(lambda: 1, "<lambda>", id="a function without a name"),
        pytest.param(Counter, "not from", id="a class"),
        pytest.param(Counter.up, "needs its object", id="a method without its object"),
        pytest.param(takes_unknown, "`thing`", id="a hint without a JSON form"),
        pytest.param(takes_nonsense, "Nonesuch", id="a hint that means nothing"),
        pytest.param(add, "already", id="a tool"),
        pytest.param("add", "not from 'add'", id="no function at all"),
    ],
)
def test_what_no_model_could_be_told_of_is_refused_at_once(function: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tool(function)


@pytest.mark.parametrize("name", ["", "two words", "über", "a" * 65, "a.b", "a\n"])
def test_a_name_that_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="invalid tool name"):
        tool(greet, name=name)


async def test_a_missing_argument_is_told_even_if_nobody_checked() -> None:
    with pytest.raises(ToolError, match="missing: a"):
        await ran(add, b=1)


async def test_a_lenient_tool_takes_what_comes() -> None:
    made = tool(lambda size: size, name="size", lenient=True)

    def sized(size: int) -> object:
        return size

    assert await ran(made, size="large") == "large"
    assert await ran(tool(sized, lenient=True), size="large", colour="red") == "large"
    with pytest.raises(ToolError, match="invalid value for `size`"):
        await ran(tool(sized), size="large")


# --- any mixture ---


def tide(harbour: str) -> str:
    """Tell the tide."""
    return f"{harbour}: six"


async def wind(**arguments: Any) -> dict[str, Any]:
    return arguments


SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


async def test_functions_tools_and_pairs_can_be_mixed() -> None:
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
    assert await tools[3].run({"at": "sea"}, Heard()) == {"at": "sea"}


async def test_the_function_of_a_pair_may_ask_for_the_context() -> None:
    def who(at: str, context: ToolContext) -> str:
        return f"{context.id} at {at}"

    (made,) = read_agent_tools([({"name": "who", "parameters": SCHEMA}, who)])
    assert await made.run({"at": "sea"}, Heard()) == "call_1 at sea"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="several tools have the name tide"):
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
