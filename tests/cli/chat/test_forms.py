"""Questions of MCP servers, answered by the user."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.agent.tools import Elicitation
from penstock.cli.chat.servers import FormQuestion, ServerQuestions
from penstock.errors import UsageError


async def fill_in(
    properties: dict[str, Any], *texts: str, required: list[str] | None = None
) -> Any:
    """Enter *texts*, and return the answer."""
    schema = {"type": "object", "properties": properties, "required": required or []}
    question = FormQuestion(Elicitation("quay", "Which?", schema))
    for text in texts:
        question.enter(text)
    return question.answer.result()


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "12", "12"),
        ({"type": "integer"}, "12", 12),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, "a", "a"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "a, b", ["a", "b"]),
    ],
)
async def test_a_text_becomes_the_value_of_its_type(schema: Any, text: str, value: Any) -> None:
    assert await fill_in({"x": schema}, text) == {"x": value}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "many"),
        ({"type": "integer"}, '"1"'),
        ({"type": "integer", "maximum": 3}, "4"),
        ({"type": "boolean"}, "maybe"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "array", "items": {"enum": ["a"]}}, "a, b"),
    ],
)
async def test_a_text_that_does_not_fit_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(UsageError, match="x"):
        await fill_in({"x": schema}, text)


async def test_an_empty_input_takes_the_default_or_skips() -> None:
    fields = {"a": {"type": "string"}, "b": {"type": "integer", "default": 2}}
    assert await fill_in(fields, "", " ") == {"b": 2}
    with pytest.raises(UsageError, match="a is required"):
        await fill_in(fields, "", required=["a"])


async def test_a_page_is_agreed_to_or_declined() -> None:
    for text, answer in (("y", True), ("no", None)):
        question = FormQuestion(Elicitation("quay", "Pay.", url="https://pay.example/\x1b[2J"))
        assert question.title.startswith("quay asks you to open https://pay.example/")
        assert "\x1b" not in question.title
        question.enter("what?")
        assert not question.answer.done()
        question.enter(text)
        assert question.answer.result() is answer


async def test_without_a_chat_questions_are_declined() -> None:
    assert await ServerQuestions()(Elicitation("quay", "Which?")) is None


async def test_questions_are_asked_one_after_the_other() -> None:
    questions = ServerQuestions()
    seen: list[str] = []

    def look() -> None:
        seen.append(questions.current.asked.server if questions.current else "")

    questions.on_change = look
    tasks = [asyncio.create_task(questions(Elicitation(name, "?"))) for name in ("a", "b")]
    await asyncio.sleep(0)
    assert questions.current is not None
    questions.current.enter("y")
    assert await tasks[0] is True
    questions.decline_all()
    assert await tasks[1] is None
    assert seen == ["a", "a", "b", ""]
