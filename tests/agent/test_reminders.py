"""What a rule or a guard tells the model is marked, and nowhere shown as the user's words."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from agent.scenes import talking, text
from agent.session.records import agent
from cli.chat.test_render import render_lines
from penstock.agent import Agent, Finding, Guard
from penstock.agent.ai_sdk_messages import read_ui_messages
from penstock.agent.ai_sdk_stream import UIStream
from penstock.agent.events import MessageEnded
from penstock.agent.rules import Rule, RuleGuard
from penstock.agent.session import Session, SessionDatabase, SessionFolder, read_session
from penstock.agent.summarize import render_pieces
from penstock.errors import UsageError
from penstock.events import Event
from penstock.request import UserMessage

WATCH = [Rule("no-hello", ("hello",), "Say no hello.")]


async def reminded(session: Session) -> None:
    run = session.run("Greet me!")
    events = [event async for event in run]
    said = [
        event.message
        for event in events
        if isinstance(event, MessageEnded) and isinstance(event.message, UserMessage)
    ]
    assert [message.source for message in said] == ["", "rule"]
    assert "Say no hello." in said[1].text
    assert not [line for line in render_lines(*events) if line.startswith(">") and "hello" in line]
    view = UIStream()
    chunks = [chunk for event in events for chunk in view.feed(event)]
    (told,) = [chunk for chunk in chunks if chunk["type"] == "data-reminder"]
    assert not [chunk for chunk in chunks if chunk["type"] == "data-said"]
    (back,) = read_ui_messages([{"role": "assistant", "parts": [told]}])
    assert back == said[1]


async def test_a_reminder_is_no_word_of_the_users_in_the_record_nor_in_what_is_made_of_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    database = SessionDatabase(f"sqlite:///{tmp_path / 's.db'}")
    for where in ({"path": path}, {"store": database, "id": "s"}):
        async with talking(text("Hello, hello."), text("Good day.")) as (model, _):
            first = Agent(model, guards=[RuleGuard(WATCH)])
            async with Session(first, **where) as session:
                await reminded(session)
                for page in (session.to_markdown(), session.to_html()):
                    assert page.count("Reminder of a rule") == 1
                    assert page.count("User") == 1
                (branch,) = session.branches
                assert branch.prompt == "Greet me!"
            again = agent()
            async with Session(again, **where):
                assert again.messages == first.messages
    assert b'"source":"rule"' in path.read_bytes()
    await database.close()


async def test_a_list_names_a_session_by_what_the_user_said(tmp_path: Path) -> None:
    async with SessionDatabase(f"sqlite:///{tmp_path / 's.db'}") as database:
        folder = SessionFolder(tmp_path)
        for store in (folder, database):
            async with Session(agent(), store=store, id="s") as session:
                await session.message(UserMessage("Mind the gap.", "guard"))
                await session.message(UserMessage("Fix it."))
            (info,) = await store.sessions()
            assert info.prompt == "Fix it."
    assert len(read_session(tmp_path / "s.jsonl").entries) == 3


def test_a_summary_says_that_a_reminder_was_none_of_the_users_words() -> None:
    (piece,) = render_pieces([UserMessage("Mind the gap.", "guard")], 100)
    assert piece.startswith("[reminder of a guard]")


async def test_reminders_of_a_rule_and_a_guard_are_told_apart() -> None:
    class Spotter(Guard):
        def __init__(self, source: Literal["rule", "guard"]) -> None:
            self.found = [Finding(source, ["x"], f"Mind the {source}.", interrupts=False)]

        def check(self, event: Event) -> Finding | None:
            return self.found.pop() if self.found and event.type == "text_end" else None

    async with talking(text("Hello!"), text("Good day.")) as (model, _):
        talker = Agent(model, guards=[Spotter("guard"), Spotter("rule")])
        new = await talker.run("Go.").result()
        said = [(one.source, one.text) for one in new if isinstance(one, UserMessage)]
        assert said == [
            ("", "Go."),
            ("rule", "Mind the rule."),
            ("guard", "Mind the guard."),
        ]


def test_nobody_else_speaks_in_the_users_place() -> None:
    with pytest.raises(UsageError):
        UserMessage("x", "somebody")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Finding("somebody", ["x"], "y")  # type: ignore[arg-type]
