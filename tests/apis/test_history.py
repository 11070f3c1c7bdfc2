"""A conversation made fit: every call has its result, and every pair its ids."""

from __future__ import annotations

import re

import pytest

from penstock import apis
from penstock.apis.encoder import ConversationIds, IdMaker
from penstock.apis.history import (
    MISSING,
    content_text,
    find_lost_content,
    pair_results,
    replayable_blocks,
)
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.request import Image, Message, Request, UserContent, UserMessage


def asks(*ids: str, complete: bool = True) -> AssistantMessage:
    calls: list[Content] = [ToolCall(id_, "f", complete=complete) for id_ in ids]
    return AssistantMessage(content=calls)


def results(messages: list[Message]) -> list[tuple[str, object]]:
    return [(m.id, m.content) for m in messages if isinstance(m, ToolResult)]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    fit = pair_results([asks("a"), UserMessage([Text("Well?")])])
    assert results(fit) == [("a", MISSING)]
    assert isinstance(fit[2], UserMessage)


def test_results_follow_their_calls_in_order_and_are_named() -> None:
    given: list[Message] = [asks("a", "b"), ToolResult("b", "", 2), ToolResult("a", "", 1)]
    fit = pair_results(given)
    assert results(fit) == [("a", 1), ("b", 2)]
    assert [m.name for m in fit if isinstance(m, ToolResult)] == ["f", "f"]


def test_ids_that_come_again_in_a_later_turn_have_their_own_results() -> None:
    given: list[Message] = []
    for turn in (1, 2, 3):
        given += [asks("call_1"), ToolResult("call_1", "f", turn)]
    assert results(pair_results(given)) == [("call_1", 1), ("call_1", 2), ("call_1", 3)]


def test_a_turn_without_a_result_does_not_take_that_of_the_next() -> None:
    given: list[Message] = [asks("a"), asks("a"), ToolResult("a", "f", 2)]
    assert results(pair_results(given)) == [("a", MISSING), ("a", 2)]


def test_cut_calls_without_a_result_are_left_out() -> None:
    fit = pair_results([asks("a", complete=False)])
    assert isinstance(fit[0], AssistantMessage)
    assert fit[0].tool_calls == []
    assert results(fit) == []


def test_a_call_that_has_a_result_stays_however_it_was_read() -> None:
    fit = pair_results([asks("a", "b", complete=False), ToolResult("b", "f", 1)])
    assert isinstance(fit[0], AssistantMessage)
    assert [(call.id, call.complete) for call in fit[0].tool_calls] == [("b", True)]
    assert results(fit) == [("b", 1)]


def test_a_result_of_nobody_is_said_by_the_user() -> None:
    orphan: list[Message] = [ToolResult("z", "g", [Text("1"), Image(url="u")])]
    assert pair_results(orphan) == [UserMessage([Text("The result of g:\n1"), Image(url="u")])]
    assert pair_results(orphan, remembers=True) == orphan


@pytest.mark.parametrize("name", apis.names())
def test_no_request_has_a_result_of_no_call(name: str) -> None:
    cut = ToolCall("a", "f", {"x": 1}, complete=False)
    messages: list[Message] = [
        UserMessage([Text("Go")]),
        AssistantMessage(content=[cut]),
        ToolResult("a", "f", "one"),
        UserMessage([Text("And?")]),
        ToolResult("z", "g", "two"),
    ]
    body = str(apis.get(name).write_request(Request(messages=messages)))
    assert "one" in body
    assert "The result of g:" in body or "Tool Result from g:" in body


def test_what_an_api_has_no_form_for_is_named() -> None:
    content: list[UserContent] = [Opaque("p", {"type": "document"}), Opaque("q", {"type": "own"})]
    request = Request(messages=[UserMessage([*content, Image(url="u")])])
    assert find_lost_content(request, "q") == ["content: document"]
    assert find_lost_content(request, "q", images=False) == ["content: document", "content: image"]


def test_signatures_go_back_to_the_model_that_made_them() -> None:
    content: list[Content] = [
        Thinking("Hm", "s"),
        Text("Hi", "s"),
        ToolCall("a", "f", signature="s"),
        Opaque("p", {}),
    ]
    message = AssistantMessage(model="m", content=content)
    assert replayable_blocks(message, "m", "p") == content
    assert replayable_blocks(message, "other", "p") == [Text("Hm"), Text("Hi"), ToolCall("a", "f")]
    message.stop_reason = "error"
    assert replayable_blocks(message, "m", "q") == [Thinking("Hm"), *content[1:3]]


def test_a_result_is_text_whatever_it_is() -> None:
    assert content_text("a") == "a"
    assert content_text([Text("a"), Image(url="u"), Text("b")]) == "a\nb"
    assert content_text({"a": [1]}) == '{"a":[1]}'


def test_ids_are_allowed_and_unlike_each_other() -> None:
    ids = IdMaker(re.compile("[A-Za-z0-9_-]+"), "toolu_")
    given = [ids.make(id_) for id_ in ("a", "a", "", "b|item", "ü!", "ü!")]
    assert given == ["a", "toolu_1", "toolu_2", "b", "__", "toolu_3"]


def test_two_open_calls_under_one_id_have_their_own_results() -> None:
    ids = ConversationIds()
    one, two = ids.call_id("a"), ids.call_id("a")
    assert [ids.result_id("a"), ids.result_id("a")] == [one, two]
    assert one != two
    assert ids.result_id("nobody") == "nobody"


@pytest.mark.parametrize("model", ["voxtral-small", "mistralai/Devstral-24B", "open-mixtral-8x7b"])
@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "ollama"])
def test_ids_take_the_shape_that_the_family_of_a_model_wants(api: str, model: str) -> None:
    given: list[Message] = [asks("call_1", "call_2"), ToolResult("call_2", "f", "2")]
    given.append(ToolResult("call_1", "f", 1))
    body = str(apis.get(api).write_request(Request(model, messages=given)))
    assert body.count("call00001") == body.count("call00002") == 2
    assert "call_1" not in body


def test_an_answer_that_only_another_provider_understands_is_no_empty_message() -> None:
    reference = Opaque("openai-responses", {"type": "item_reference", "id": "msg_1"})
    request = Request("m", messages=[AssistantMessage(content=[reference])])
    assert apis.get("openai-chat").write_request(request)["messages"] == []
    assert apis.get("openai-chat").omitted_fields(request) == ["content: item_reference"]


def test_reasoning_in_the_parts_of_an_answer_is_read_and_other_parts_are_named() -> None:
    chat = apis.get("openai-chat")
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Hi."},
        {"type": "image_url", "image_url": {"url": "https://e.test/a.png"}},
    ]
    request = chat.read_request({"messages": [{"role": "assistant", "content": parts}]})
    (message,) = chat.write_request(request)["messages"]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Hi.")
    assert chat.omitted_fields(request) == ["content: image_url"]
