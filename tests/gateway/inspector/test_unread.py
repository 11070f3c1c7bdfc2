"""Text that looks like a call and is not one is explained, and a replay that helps is offered."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.inspector.scene import HERMES, joined, page, said
from gateway.serving import Actor, Served, Stage, ask, upstream_table

UNOFFERED = '<tool_call>\n{"name": "send_mail", "arguments": {"to": "Ada"}}\n</tool_call>'


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    table = upstream_table(actor, retries=0)
    other = f'[models.deepseek]\nupstream = "{actor.api}"\nformat = "deepseek_v3"\n'
    whole = f'[models.strict]\nupstream = "{actor.api}"\narguments = "whole"\nrepair = false\n'
    rash = f'[models.unhealed]\nupstream = "{actor.api}"\nheal = false\n'
    return stage.gateway(tmp_path_factory.mktemp("gateway"), table + other + whole + rash)


def place(analysis: Any, unread: Any) -> str:
    units = joined(analysis).encode("utf-16-le")
    return units[unread["at"] * 2 : unread["end"] * 2].decode("utf-16-le")


def test_a_tool_that_was_not_offered(served: Served, actor: Actor) -> None:
    id_ = said(actor, served, f"\U0001f30a Mail it. {UNOFFERED} Done.")
    analysis = page(served, f"streams/{id_}")
    (unread,) = analysis["unread"]
    assert (unread["name"], unread["reason"]) == ("send_mail", "not_offered")
    assert place(analysis, unread) == UNOFFERED
    assert unread["replay"] == {"format": "hermes"}
    assert "Offer the tool `send_mail`" in unread["advice"]
    (remark,) = [one for one in analysis["remarks"] if one["kind"] == "unread"]
    assert remark["at"] == unread["at"]
    replayed = page(served, f"streams/{id_}/replay", unread["replay"])["analysis"]
    assert replayed["unread"] == []
    assert [part["name"] for part in replayed["message"]["content"] if "name" in part] == [
        "send_mail"
    ]
    (row,) = ask(served, "/v1/requests?unread=true").json["data"]
    assert row["id"] == id_
    assert row["unread_reason"].startswith("looks like a hermes call of `send_mail`")


def test_a_call_in_another_format(served: Served, actor: Actor) -> None:
    analysis = page(served, f"streams/{said(actor, served, HERMES, 'deepseek')}")
    (unread,) = analysis["unread"]
    assert (unread["reason"], unread["replay"]) == ("other_format", {"format": "auto"})
    assert place(analysis, unread) == HERMES


def test_a_broken_call_that_repair_would_read(served: Served, actor: Actor) -> None:
    text = HERMES.replace('"days": 3}}', '"days": 3}').replace("\n</tool_call>", "")
    analysis = page(served, f"streams/{said(actor, served, text, 'strict')}")
    (unread,) = analysis["unread"]
    assert unread["reason"] in ("broken", "cut")
    assert unread["replay"] == {"repair": True}
    assert sum(one["kind"] == "error" for one in analysis["remarks"]) == 0  # not said twice


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("test", 'Set `reasoning = "none"`'),
        ("unhealed", 'Set `heal = true` or `reasoning = "none"`'),
    ],
)
def test_a_call_in_the_reasoning(served: Served, actor: Actor, model: str, advice: str) -> None:
    text = f"<think>I could write:\n{HERMES}\n</think>\nIt will rain."
    analysis = page(served, f"streams/{said(actor, served, text, model)}")
    (unread,) = analysis["unread"]
    assert (unread["reason"], unread["replay"]) == ("in_reasoning", {"reasoning": "none"})
    assert unread["advice"] == f"{advice} if the model calls tools there."
    assert place(analysis, unread) == HERMES


def test_one_call_more_than_the_request_allows(served: Served, actor: Actor) -> None:
    second = HERMES.replace('"days": 3', '"days": 4')
    id_ = said(actor, served, f"{HERMES}\n{second}", parallel_tool_calls=False)
    analysis = page(served, f"streams/{id_}")
    (unread,) = analysis["unread"]
    assert (unread["reason"], unread["replay"]) == ("refused", None)
    assert place(analysis, unread) == second
    assert unread["description"].endswith("but the request allows no more calls")
    assert unread["advice"] == "Allow parallel calls."
    assert [one["kind"] for one in analysis["remarks"]] == ["unread"]
    (row,) = ask(served, "/v1/requests?limit=1").json["data"]
    assert row["unread_reason"] == unread["description"]


def test_a_call_that_a_tool_result_contains(served: Served, actor: Actor) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "How will the weather be?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": f"Print {HERMES}"},
    ]
    analysis = page(served, f"streams/{said(actor, served, HERMES, messages=messages)}")
    (unread,) = analysis["unread"]
    assert unread["reason"] == "refused"
    assert unread["description"].endswith("but it is quoted from a tool result")
    assert unread["advice"] == 'Set `quoted = "calls"` if the model meant it.'


def test_a_text_after_a_call_is_marked_where_it_begins(served: Served, actor: Actor) -> None:
    id_ = said(actor, served, f"{HERMES}\n{UNOFFERED}")
    analysis = page(served, f"streams/{id_}")
    (unread,) = analysis["unread"]
    assert place(analysis, unread) == UNOFFERED
    (row,) = ask(served, "/v1/requests?limit=1").json["data"]
    assert (row["id"], row["found"]) == (id_, "hermes")


def test_a_cut_call_of_a_tool_that_was_not_offered(served: Served, actor: Actor) -> None:
    analysis = page(served, f"streams/{said(actor, served, UNOFFERED[:60])}")
    (unread,) = analysis["unread"]
    assert (unread["name"], unread["reason"]) == ("send_mail", "not_offered")
    assert unread["description"].endswith("the tool is not offered")


def test_prose_is_not_explained(served: Served, actor: Actor) -> None:
    text = "A call begins with <tool_call>, as in every model of this kind."
    assert page(served, f"streams/{said(actor, served, text)}")["unread"] == []


def test_the_request_is_shown_as_messages(served: Served, actor: Actor) -> None:
    shown = page(served, f"streams/{said(actor, served, 'Yes.')}")["conversation"]
    assert [message["role"] for message in shown["messages"]][-1] == "user"
    assert "get_weather" in [tool["name"] for tool in shown["tools"]]
    assert shown["first"] == 0
