"""Typed output: every kind of type, every way to ask for it, and faults that are sent back."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

from agent.scenes import calls, of, reply, talking, text, watched
from gbnf import Grammar
from laws import check_linear
from models.loopback_servers import Reply, serving, stream_of
from penstock import HTTPModel, ToolMiddleware, _json
from penstock.agent import Agent, AgentRunError, Output, tool
from penstock.agent.events import MessageEnded, OutputUpdated
from penstock.agent.output.task import OutputTask
from penstock.agent.schemas import is_recursive, is_strict
from penstock.errors import UsageError
from penstock.events import TextDelta
from penstock.messages import AssistantMessage, Text, ToolCall
from penstock.models.base import OutputMode
from penstock.request import UserMessage
from penstock.testing import ScriptedModel
from penstock.testing import call as scripted_call


@dataclass
class Item:
    name: str
    price: Annotated[float, annotated_types.Gt(0)]


@dataclass
class Invoice:
    """An invoice."""

    number: str
    day: date
    items: list[Item] = field(default_factory=list)


class Row(TypedDict):
    name: str
    note: NotRequired[str]


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Person(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(min_length=2, description="The full name.")]
    age: int = pydantic.Field(ge=0)

    @pydantic.field_validator("name")
    @classmethod
    def has_no_digit(cls, name: str) -> str:
        if any(letter.isdigit() for letter in name):
            raise ValueError("a name has no digits")
        return name


class Colour(Enum):
    RED = "red"


class Tree(msgspec.Struct):
    name: str
    nodes: list[Tree] = []


INVOICE = '{"number": "A-7", "day": "2026-03-01", "items": [{"name": "rope", "price": 12.5}]}'
PARSED = Invoice("A-7", date(2026, 3, 1), [Item("rope", 12.5)])


TYPES: dict[str, tuple[Any, str, Any]] = {
    "dataclass": (Invoice, INVOICE, PARSED),
    "typed dict": (Row, '{"name": "a"}', {"name": "a"}),
    "struct": (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    "recursive struct": (
        Tree,
        '{"name":"a","nodes":[{"name":"b","nodes":[]}]}',
        Tree("a", [Tree("b")]),
    ),
    "pydantic model": (Person, '{"name": "Ann", "age": 4}', Person(name="Ann", age=4)),
    "union of models": (
        Point | Person,
        '{"result": {"name": "Ann", "age": 4}}',
        Person(name="Ann", age=4),
    ),
    "union of records": (
        Invoice | Item,
        '{"result": {"name": "rope", "price": 1}}',
        Item("rope", 1),
    ),
    "list of models": (
        list[Person],
        '{"result": [{"name": "Ann", "age": 4}]}',
        [Person(name="Ann", age=4)],
    ),
    "list, written bare": (list[int], "```json\n[1, 2]\n```", [1, 2]),
    "literal": (Literal["spam", "ham"], '{"result": "ham"}', "ham"),
    "enum": (Colour, '{"result": "red"}', Colour.RED),
    "number": (int, '{"result": 7}', 7),
    "dict": (dict[str, int], '{"a": 1}', {"a": 1}),
    "JSON Schema": (
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        '{"a": "3"}',
        {"a": 3},
    ),
}


@pytest.mark.parametrize("case", TYPES)
async def test_every_type_is_read_from_text(case: str) -> None:
    type_, written, expected = TYPES[case]
    async with talking(text(f"Here it is:\n{written}\nThat is all.")) as (model, _):
        agent: Agent[Any] = Agent(ToolMiddleware(model), output=type_)
        if "[1, 2]" in written:  # A bare value has to be all of the text.
            return
        result = await agent.run("Read it.")
        assert result.output == expected
        assert type(result.output) is type(expected)


@pytest.mark.parametrize("case", TYPES)
async def test_every_type_is_read_from_a_response_format(case: str) -> None:
    type_, written, expected = TYPES[case]
    async with talking(text(written)) as (model, upstream):
        agent: Agent[Any] = Agent(model, output=type_)
        assert (await agent.run("Read it.")).output == expected
        sent = upstream.seen[0].json["response_format"]["json_schema"]
        assert sent["schema"]["type"] == "object"


@pytest.mark.parametrize("case", TYPES)
async def test_every_type_is_read_from_the_final_tool(case: str) -> None:
    type_, written, expected = TYPES[case]
    if "[1, 2]" in written:
        written = '{"result": [1, 2]}'
    async with talking(calls(("final_result", _json.decode(written)))) as (model, upstream):
        agent: Agent[Any] = Agent(model, output=Output(type_, mode="tool"))
        result = await agent.run("Read it.")
        assert result.output == expected
        assert upstream.seen[0].json["tool_choice"]["function"]["name"] == "final_result"
        assert len(upstream.seen) == 1, "the run ends with the output"


def test_constraints_and_descriptions_are_in_the_schema() -> None:
    schema = Output(Invoice).schema
    assert schema["description"] == "An invoice."
    assert schema["$defs"]["Item"]["properties"]["price"] == {
        "type": "number",
        "exclusiveMinimum": 0,
    }
    assert schema["properties"]["items"]["items"] == {"$ref": "#/$defs/Item"}
    person = Output(Person).schema["properties"]["name"]
    assert (person["minLength"], person["description"]) == (2, "The full name.")


# --- faults ---


FAULTS: dict[str, tuple[AssistantMessage, str]] = {
    "a missing property": (text('{"number": "A-7"}'), "day: missing"),
    "a wrong type": (
        text('{"number": "A-7", "day": "2026-03-01", "items": 3}'),
        "items[0]: expected an object",
    ),
    "a bound": (
        text(INVOICE.replace("12.5", "-1")),
        "items[0].price: expected more than 0, got -1",
    ),
    "a value that only looks right": (text(INVOICE.replace("2026-03-01", "soon")), "day"),
    "prose": (text("There is no invoice."), "no JSON object"),
    "a repeated key": (text('{"number": "A", "number": "B", "day": "2026-03-01"}'), "repeated"),
    "broken JSON": (text('{"number": "A-7", "day": 20'), "ends inside"),
    "two that fit": (text(f"{INVOICE} or {INVOICE.replace('A-7', 'A-8')}"), "exactly one"),
    "a cut": (AssistantMessage("m", "m", [Text(INVOICE)], "length"), "cut off"),
}


@pytest.mark.parametrize("case", FAULTS)
async def test_a_fault_is_sent_back_in_words(case: str) -> None:
    faulty, words = FAULTS[case]
    async with talking(faulty, text(INVOICE)) as (model, upstream):
        agent = Agent(ToolMiddleware(model), output=Invoice)
        events = await watched(run := agent.run("Read it."))
        result = await run
        assert result.output == PARSED
        complaint = upstream.seen[1].json["messages"][-1]["content"]
        assert words in complaint
        kept = [one.message for one in of(MessageEnded, events)]
        sources = [one.source for one in kept if isinstance(one, UserMessage)]
        assert sources == ["", "output"]


@pytest.mark.parametrize("case", FAULTS)
async def test_a_doubtful_output_is_never_delivered(case: str) -> None:
    faulty, _ = FAULTS[case]
    async with talking(faulty) as (model, upstream):
        agent = Agent(ToolMiddleware(model), output=Output(Invoice, retries=1))
        result = await agent.run("Read it.")
        assert result.error is not None
        assert result.error.type == "output"
        assert result.error.kind == ("truncated" if case == "a cut" else "malformed")
        assert not result.has_value
        with pytest.raises(AgentRunError, match="the output is not usable"):
            _ = result.output
        assert len(upstream.seen) == 2


async def test_the_same_object_twice_is_certain() -> None:
    async with talking(text(f"{INVOICE}\nAgain: {INVOICE}")) as (model, _):
        assert (await Agent(ToolMiddleware(model), output=Invoice).run("Read it.")).output == PARSED


async def test_validators_and_checks_send_their_words_back() -> None:
    def check(person: Person) -> None:
        if person.age < 18:
            raise ValueError("the person must be an adult")

    script = (
        text('{"name": "R2D2", "age": 40}'),
        text('{"name": "Ann", "age": 4}'),
        text('{"name": "Ann", "age": 40}'),
    )
    async with talking(*script) as (model, upstream):
        agent = Agent(model, output=Output(Person, check=check))
        assert (await agent.run("Read it.")).output == Person(name="Ann", age=40)
        assert "a name has no digits" in upstream.seen[1].json["messages"][-1]["content"]
        assert "must be an adult" in upstream.seen[2].json["messages"][-1]["content"]


async def test_faults_of_the_final_tool_are_its_result() -> None:
    script = (
        calls(("final_result", {"number": "A-7"})),
        calls(("final_result", _json.decode(INVOICE))),
    )
    async with talking(*script) as (model, upstream):
        agent = Agent(model, output=Output(Invoice, mode="tool"))
        assert (await agent.run("Read it.")).output == PARSED
        assert len(upstream.seen) == 2
        result = upstream.seen[1].json["messages"][-1]
        assert result["role"] == "tool"
        assert "day: missing" in result["content"]


async def test_the_final_tool_is_faulty_until_the_end() -> None:
    async with talking(calls(("final_result", {"number": "A-7"}))) as (model, upstream):
        agent = Agent(model, output=Output(Invoice, mode="tool", retries=1))
        result = await agent.run("Read it.")
        assert result.error is not None
        assert result.error.type == "output"
        assert len(upstream.seen) == 2


async def test_two_different_final_results_are_doubtful() -> None:
    other = _json.decode(INVOICE.replace("A-7", "A-8"))
    script = (
        calls(("final_result", _json.decode(INVOICE)), ("final_result", other)),
        calls(("final_result", _json.decode(INVOICE))),
    )
    async with talking(*script) as (model, upstream):
        agent = Agent(model, output=Output(Invoice, mode="tool"))
        assert (await agent.run("Read it.")).output == PARSED
        assert "several times" in upstream.seen[1].json["messages"][-1]["content"]


# --- with tools ---


@tool
def look_up(number: str) -> str:
    """Look up an invoice."""
    return INVOICE.replace("A-7", number)


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
async def test_tools_run_before_the_output(mode: OutputMode) -> None:
    end = calls(("final_result", _json.decode(INVOICE))) if mode == "tool" else text(INVOICE)
    async with talking(calls(("look_up", {"number": "A-7"})), end) as (model, upstream):
        agent = Agent(model, [look_up], output=Output(Invoice, mode=mode))
        events = await watched(run := agent.run("Read A-7."))
        assert (await run).output == PARSED
        assert len(upstream.seen) == 2
        assert of(OutputUpdated, events)


async def test_an_agent_without_a_type_returns_text() -> None:
    async with talking(text("High water at six.")) as (model, _):
        result = await Agent(model).run("When?")
        assert result.output == result.text == "High water at six."
        assert (await Agent(model, output=str).run("When?")).output == "High water at six."


# --- the way to ask, by API ---


REPLY = AssistantMessage("msg_1", "m", [Text(INVOICE)], "stop")
WIRES: dict[str, Any] = {
    "openai-chat": lambda body: body["response_format"]["json_schema"]["schema"],
    "openai-responses": lambda body: body["text"]["format"]["schema"],
    "anthropic": lambda body: body["output_config"]["format"]["schema"],
    "gemini": lambda body: body["generationConfig"]["responseJsonSchema"],
    "ollama": lambda body: body["format"],
}


@pytest.mark.parametrize("api", WIRES)
async def test_each_api_gets_its_own_response_format(api: str) -> None:
    data = stream_of(api, REPLY)
    async with (
        serving(Reply([data])) as upstream,
        HTTPModel(api, upstream.url, "m", "key", interval=0) as model,
    ):
        assert (await Agent(model, output=Invoice).run("Read it.")).output == PARSED
        schema = WIRES[api](upstream.seen[0].json)
        assert list(schema["properties"]) == ["number", "day", "items"]
        price = schema["$defs"]["Item"]["properties"]["price"]
        if api == "anthropic":  # It refuses bounds.
            assert price == {"type": "number", "description": "exclusiveMinimum: 0"}
        else:
            assert price["exclusiveMinimum"] == 0


@pytest.mark.parametrize("api", ["gemini", "ollama"])
async def test_apis_whose_format_excludes_tools_use_the_final_tool(api: str) -> None:
    message = AssistantMessage(
        "msg_1", "m", [ToolCall("c1", "final_result", _json.decode(INVOICE))], "tool_use"
    )
    data = stream_of(api, message)
    async with (
        serving(Reply([data])) as upstream,
        HTTPModel(api, upstream.url, "m", "key", interval=0) as model,
    ):
        assert (await Agent(model, [look_up], output=Invoice).run("Read it.")).output == PARSED
        assert "final_result" in upstream.seen[0].body.decode()


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_a_server_that_refuses_the_format_is_asked_in_another_way(status: int) -> None:
    refusal = Reply(status=status, whole=b'{"error": {"message": "response_format is not known"}}')
    script = (refusal, reply(calls(("final_result", _json.decode(INVOICE)))))
    async with talking(*script) as (model, upstream):
        agent = Agent(model, output=Invoice)
        assert (await agent.run("Read it.")).output == PARSED
        assert "response_format" in upstream.seen[0].json
        assert "response_format" not in upstream.seen[1].json
        assert upstream.seen[1].json["tools"]
        await agent.run("Read it again.")
        assert len(upstream.seen) == 3, "what the server refused is remembered"


async def test_a_mode_that_was_chosen_is_not_replaced() -> None:
    refusal = Reply(status=400, whole=b'{"error": {"message": "response_format is not known"}}')
    async with talking(refusal) as (model, upstream):
        agent = Agent(model, output=Output(Invoice, mode="native"))
        result = await agent.run("Read it.")
        assert result.error is not None
        assert result.error.status == 400
        assert len(upstream.seen) == 1


async def test_a_grammar_matches_the_output_and_nothing_else() -> None:
    async with talking(text('{"x": 1, "y": 2}')) as (model, upstream):
        agent = Agent(model, output=Output(Point, mode="grammar"))
        assert (await agent.run("Where?")).output == Point(1, 2)
        grammar = Grammar(upstream.seen[0].json["grammar"])
        assert grammar.matches('{"x":1,"y":2}')
        assert not grammar.matches('{"x":"1"}')


def test_strict_schemas_are_marked_and_recursive_ones_known() -> None:
    assert is_strict(Output(Item).schema)
    assert not is_strict(Output(Point).schema), "a default is not allowed there"
    assert is_recursive(Output(Tree).schema)
    assert not is_recursive(Output(Invoice).schema)
    assert Output(Item).response_format("openai-chat").strict is True
    assert Output(Point).response_format("openai-chat").strict is None


# --- streaming ---


@pytest.mark.parametrize("mode", ["native", "tool"])
async def test_the_output_grows_while_it_arrives(mode: OutputMode) -> None:
    end = calls(("final_result", _json.decode(INVOICE))) if mode == "tool" else text(INVOICE)
    async with talking(reply(end, pieces=60)) as (model, _):
        agent = Agent(model, output=Output(Invoice, mode=mode))
        events = await watched(agent.run("Read it."))
        updates = of(OutputUpdated, events)
        assert updates
        assert updates[-1].partial == _json.decode(INVOICE)


@pytest.mark.parametrize("mode", ["native", "tool"])
async def test_partial_outputs_only_grow(mode: OutputMode) -> None:
    end = calls(("final_result", _json.decode(INVOICE))) if mode == "tool" else text(INVOICE)
    async with talking(reply(end, pieces=60)) as (model, _):
        run = Agent(model, output=Output(Invoice, mode=mode)).run("Read it.")
        partials = [one async for one in run.partial_outputs()]
        assert partials[-1] == _json.decode(INVOICE)
        for earlier, later in itertools.pairwise(partials):
            assert set(earlier) <= set(later)


async def test_a_wrapped_output_grows_without_its_wrapper() -> None:
    async with talking(reply(text('{"result": [1, 2, 3]}'), pieces=40)) as (model, _):
        agent: Agent[list[int]] = Agent(model, output=list[int])
        events = await watched(run := agent.run("Count."))
        assert (await run).output == [1, 2, 3]
        last = of(OutputUpdated, events)[-1]
        assert last.partial == [1, 2, 3]
        assert all(
            "result" not in change.path
            for one in of(OutputUpdated, events)
            for change in one.changes
        )


async def test_an_example_in_prose_is_not_shown_as_the_output() -> None:
    async with talking(reply(text('Use {"other": 1} as "x". ' + INVOICE), pieces=30)) as (model, _):
        events = await watched(Agent(ToolMiddleware(model), output=Invoice).run("Read it."))
        assert all("other" not in one.partial for one in of(OutputUpdated, events))


@pytest.mark.parametrize("key", ["number", "unknown"])
def test_the_cost_of_a_delta_does_not_depend_on_what_came_before(key: str) -> None:
    def run(size: int) -> None:
        task = OutputTask(Output(Invoice), ScriptedModel([]), has_tools=False)
        task.add(TextDelta(0, f'{{"{key}": "'))
        for _ in range(size):
            task.add(TextDelta(0, "words of a long string "))

    check_linear(run, 1_000, 20_000, at_most=2)


# --- mistakes of the caller ---


def test_a_type_without_a_json_form_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="the output cannot be described"):
        Output(complex)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(UsageError, match="mode must be one of"):
        Output(Point, mode="magic")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="retries"):
        Output(Point, retries=-1)
    with pytest.raises(UsageError, match="invalid name"):
        Output(Point, name="a b")


def test_a_tool_with_the_name_of_the_output_is_refused() -> None:
    with pytest.raises(UsageError, match="name of the output"):
        Agent("demo:", [look_up], output=Output(Point, name="look_up"))


LIST = '[{"name": "rope", "price": 12.5}]'
ITEMS = [Item("rope", 12.5)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (f"Sure:\n```json\n{LIST}\n```\nThat is all.", ITEMS),
        (f"```python\nprint(1)\n```\nso\n```\n{LIST}\n```", ITEMS),
        (f"<think>```json\n[]\n```</think>\n{LIST}", ITEMS),
        (f"It is [].</think>Here:\n```json\n{LIST}\n```", ITEMS),
        (f"```json\n{LIST}\n```\nonce more\n```json\n{LIST}\n```", ITEMS),
        (f"```json\n[]\n```\nor\n```json\n{LIST}\n```", None),
        (f"```json\n{LIST}", None),
        (f"Perhaps {LIST} or nothing", None),
        (f"<think>\n```json\n{LIST}\n```", None),
        (f"```python\n{LIST}\n```", None),
    ],
)
async def test_a_list_in_a_fence_is_the_output(written: str, expected: list[Item] | None) -> None:
    output = Output(list[Item], retries=0)
    result = await Agent(ScriptedModel([written]), output=output).run("Which?")
    if expected is None:
        assert result.error is not None
        assert result.error.type == "output"
    else:
        assert result.output == expected


async def test_the_error_of_a_run_lists_the_faults_of_the_final_tool() -> None:
    wrong = [scripted_call("final_result", x="west") for _ in range(3)]
    agent = Agent(ScriptedModel(wrong), output=Output(Point, mode="tool"))
    error = (await agent.run("Where?")).error
    assert error is not None
    assert error.message == (
        'the output is not usable: The result does not fit:\n- x: expected an integer, got "west"'
    )


async def test_an_assertion_of_a_check_is_a_fault() -> None:
    def check(point: Point) -> None:
        assert point.x > 1, "x: it has to be more than 1"

    agent = Agent(ScriptedModel(['{"x": 1}', '{"x": 2}']), output=Output(Point, check=check))
    assert (await agent.run("Where?")).output == Point(2)
    complaint = agent.messages[2]
    assert isinstance(complaint, UserMessage)
    assert "- x: it has to be more than 1" in complaint.text


def test_an_async_check_is_refused() -> None:
    async def check(point: Point) -> None:
        raise ValueError(f"{point} is wrong")

    with pytest.raises(UsageError, match="check must not be a coroutine function"):
        Output(Point, check=check)
