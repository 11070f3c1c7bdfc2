"""Every client API to every upstream API: the same response comes out, in a valid form.

The upstream says one message; what the client reads, by penstock's own decoder of its API, must be
the same message: text, reasoning, native calls and calls that it printed as text.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    UPSTREAMS,
    Actor,
    Served,
    Stage,
    ask,
    request_of,
    told,
    tools_of,
    upstream_table,
)
from penstock.messages import AssistantMessage, Content, Text, Thinking, ToolCall, Usage

PARIS: dict[str, Any] = {"city": "Paris", "days": 3}
OSLO: dict[str, Any] = {"city": "Oslo"}

HERMES = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}</tool_call>'
CODER = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)
UNCLOSED = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
    "<parameter=days>\n3\n"
)
BARE = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
WEB = "<get_weather>\n<city>Paris</city>\n<days>3</days>\n</get_weather>"


def answer_of(*content: Content, usage: Usage | None = None) -> AssistantMessage:
    calls = any(isinstance(block, ToolCall) for block in content)
    usage = usage or Usage(input=12, output=5, total=17)
    return AssistantMessage("m1", "m", [*content], "tool_use" if calls else "stop", "", usage)


@pytest.fixture(scope="module")
def actors(stage: Stage) -> dict[str, Actor]:
    return {api: stage.actor(api) for api in UPSTREAMS}


@pytest.fixture(scope="module")
def served(
    stage: Stage, actors: dict[str, Actor], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """A gateway before all upstreams: models ``api`` as they are, ``api-words`` by prompt."""
    tables = "".join(upstream_table(actor, retries=0) for actor in actors.values())
    words = "".join(
        f'[models."{api}-words"]\nupstream = "{api}"\ntools = "prompt"\n' for api in UPSTREAMS
    )
    plain = "".join(f'[models."{api}"]\nupstream = "{api}"\n' for api in UPSTREAMS)
    return stage.gateway(tmp_path_factory.mktemp("gateway"), f"{tables}{words}{plain}")


def asked(served: Served, client: str, model: str, *, stream: bool) -> AssistantMessage:
    body = request_of(client, model, stream=stream, tools=tools_of(client))
    return told(client, ask(served, CLIENTS[client], body), stream=stream)


def calls_of(message: AssistantMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in message.tool_calls if call.complete]


both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
client_apis = pytest.mark.parametrize("client", CLIENTS)
upstream_apis = pytest.mark.parametrize("upstream", UPSTREAMS)


@both
@client_apis
@upstream_apis
def test_text_arrives_with_its_usage(
    served: Served, actors: dict[str, Actor], client: str, upstream: str, *, stream: bool
) -> None:
    actors[upstream].say(answer_of(Text("High water at six. 🌊 Ebb at noon.")))
    message = asked(served, client, upstream, stream=stream)
    assert message.text == "High water at six. 🌊 Ebb at noon."
    assert message.stop_reason == "stop"
    assert (message.usage.input, message.usage.output) == (12, 5)
    assert message.model == upstream


@both
@client_apis
@pytest.mark.parametrize("upstream", [api for api in UPSTREAMS if api != "qwen"])
def test_native_calls_arrive_in_parallel_behind_thoughts_and_text(
    served: Served, actors: dict[str, Actor], client: str, upstream: str, *, stream: bool
) -> None:
    actors[upstream].say(
        answer_of(
            Thinking("Two cities."),
            Text("I look."),
            ToolCall("call_1", "get_weather", PARIS),
            ToolCall("call_2", "get_weather", OSLO),
        )
    )
    message = asked(served, client, upstream, stream=stream)
    assert calls_of(message) == [("get_weather", PARIS), ("get_weather", OSLO)]
    assert len({call.id for call in message.tool_calls}) == 2
    assert (message.text, message.stop_reason) == ("I look.", "tool_use")
    thoughts = [block.text for block in message.content if isinstance(block, Thinking)]
    assert thoughts == ["Two cities."]


TEXT_CALLS = {
    "hermes": HERMES,
    "qwen3_coder": CODER,
    "qwen3_coder with closing tags missing": UNCLOSED,
    "bare JSON": BARE,
}
CELLS = [
    pytest.param(api, text, id=f"{name}-{api}")
    for name, text in TEXT_CALLS.items()
    for api in UPSTREAMS
    if api != "qwen"
]
CELLS.append(pytest.param("qwen", WEB, id="as it is told to-qwen"))


@both
@client_apis
@pytest.mark.parametrize(("upstream", "text"), CELLS)
def test_a_call_that_is_printed_as_text_arrives_as_a_call(
    served: Served, actors: dict[str, Actor], client: str, upstream: str, text: str, *, stream: bool
) -> None:
    actors[upstream].say(answer_of(Text(text)))
    message = asked(served, client, upstream, stream=stream)
    assert calls_of(message) == [("get_weather", PARIS)]
    assert (message.text, message.stop_reason) == ("", "tool_use")
    assert message.tool_calls[0].signature == "", "what signs a text of the upstream is no call's"


@client_apis
@upstream_apis
def test_a_model_without_tools_is_told_of_them_in_words(
    served: Served, actors: dict[str, Actor], client: str, upstream: str
) -> None:
    text = WEB if upstream == "qwen" else f"I look.\n{HERMES}"
    actor = actors[upstream]
    actor.say(answer_of(Text(f"<think>Paris, then.</think>{text}")))
    message = asked(served, client, f"{upstream}-words", stream=True)
    assert calls_of(message) == [("get_weather", PARIS)]
    assert message.stop_reason == "tool_use"
    sent = actor.seen[-1].json
    assert "tools" not in sent
    assert "get_weather" in actor.seen[-1].body.decode()


@client_apis
def test_thoughts_in_the_text_become_thinking(
    served: Served, actors: dict[str, Actor], client: str
) -> None:
    actors["openai-chat"].say(answer_of(Text("<think>Paris, then.</think>It rains.")))
    message = asked(served, client, "openai-chat", stream=True)
    thoughts = [block.text for block in message.content if isinstance(block, Thinking)]
    assert (thoughts, message.text) == (["Paris, then."], "It rains.")


@client_apis
@pytest.mark.parametrize("upstream", [api for api in UPSTREAMS if api != "qwen"])
def test_a_result_of_a_tool_goes_on_to_the_upstream(
    served: Served, actors: dict[str, Actor], client: str, upstream: str
) -> None:
    actor = actors[upstream]
    actor.say(answer_of(Text("Take a coat.")))
    body = request_of(client, upstream, tools=tools_of(client))
    body |= {_key_of_messages(client): _conversation(client)}
    message = told(client, ask(served, CLIENTS[client], body), stream=True)
    assert message.text == "Take a coat."
    assert "rain at nine" in actor.seen[-1].body.decode()


def _key_of_messages(client: str) -> str:
    return "input" if client == "openai-responses" else "messages"


def _conversation(client: str) -> list[dict[str, Any]]:
    """A call that was made and answered, in the words of *client*."""
    question: dict[str, Any] = {"role": "user", "content": "How is the weather in Paris?"}
    arguments = '{"city": "Paris"}'
    if client == "anthropic":
        use = {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Paris"}}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "rain at nine"}
        return [
            question,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
    if client == "openai-responses":
        call = {"call_id": "c1", "name": "get_weather", "arguments": arguments}
        output = {"type": "function_call_output", "call_id": "c1", "output": "rain at nine"}
        return [question, {"type": "function_call", **call}, output]
    function = {"name": "get_weather", "arguments": arguments}
    made: dict[str, Any] = {"id": "c1", "type": "function", "function": function}
    return [
        question,
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain at nine"},
    ]
