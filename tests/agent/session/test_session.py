"""A session gives its agent the conversation back, and goes other ways from where it was."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from agent.scenes import calls, talking
from agent.scenes import text as says
from agent.session.records import CALL, RESULT, TALK, agent, answer, recorded, texts, user
from penstock.agent import Agent, AgentBusyError, Cancel, Compaction, Finding, tool
from penstock.agent.events import ExtensionErrorEvent, MessageEnded
from penstock.agent.rules import Rule, RuleGuard
from penstock.agent.session import (
    CompactionEntry,
    CustomEntry,
    Foreign,
    MessageEntry,
    ModelEntry,
    Session,
    SessionCancelledError,
    SessionError,
    SessionFolder,
    TitleEntry,
    read_session,
)
from penstock.errors import UsageError
from penstock.messages import ToolResult
from penstock.models import DemoModel
from penstock.request import Message


def messages_in(path: Path) -> list[Message]:
    return [item.message for item in read_session(path).entries if isinstance(item, MessageEntry)]


async def test_a_run_is_written_down_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with talking(calls(("add", {"a": 1, "b": 2})), says("3"), says("again")) as (
        model,
        _,
    ):
        first = Agent(model, [add])
        async with Session(first, path, title="Sums") as session:
            told = [
                len(messages_in(path))
                async for event in session.run("1 + 2?")
                if isinstance(event, MessageEnded)
            ]
            assert len(told) == 4
            for number, written in enumerate(told, 1):
                assert written >= number  # it is there when it is told
        assert first.recorder is None
        second = Agent(model, [add])
        async with Session(second, path) as session:
            assert second.messages == first.messages
            assert (session.title, session.usage.output) == ("Sums", 6)
            await session.run("And?").result()
        assert messages_in(path) == second.messages
        assert len(second.messages) == 6


async def test_a_session_without_a_place_is_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Session(agent()) as session:
        await session.run("hello").result()
        assert [type(item) for item in session.entries] == [
            ModelEntry,
            MessageEntry,
            MessageEntry,
        ]
        fork = await session.fork()
        assert texts(fork.agent.messages)[0] == "hello"
        await fork.close()
    assert list(tmp_path.iterdir()) == []


async def test_what_an_agent_has_said_already_is_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    session = await Session(agent(*TALK, ToolResult("x", "y", object())), path).open()
    assert not path.exists()
    await session.message(user("now"))
    await session.close()
    assert messages_in(path)[:4] == TALK
    assert len(messages_in(path)) == 6


async def test_a_write_that_fails_is_an_extension_error_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    async with Session(agent(), folder / "s.jsonl") as session:
        folder.touch()
        events = [event async for event in session.run("one")]
        found = [event for event in events if isinstance(event, ExtensionErrorEvent)]
        assert {event.source for event in found} == {"record"}
        assert "cannot be written" in found[0].message
        folder.unlink()
        events = [event async for event in session.run("two")]
        assert not [event for event in events if isinstance(event, ExtensionErrorEvent)]
        assert messages_in(folder / "s.jsonl") == session.agent.messages


async def test_compaction_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with talking(*[says("x " * 400)] * 3, says("It was about x.")) as (model, _):
        first = Agent(model, compaction=Compaction(window=100_000, keep=300))
        async with Session(first, path) as session:
            for number in range(3):
                await session.run(f"prompt {number}").result()
            assert await session.compact()
            assert [type(item) for item in session.entries][-1] is CompactionEntry
            assert len(first.messages) < 6
        second = Agent(model)
        async with Session(second, path) as session:
            assert second.messages == first.messages
            assert len(messages_in(path)) == 6


@pytest.mark.parametrize(("kept", "left"), [(0, []), (1, ["d"]), (3, ["b", "c", "d"])])
async def test_a_compaction_keeps_the_last_messages(
    tmp_path: Path, kept: int, left: list[str]
) -> None:
    path = tmp_path / "s.jsonl"
    session = await recorded(path, user("a"), answer("b"), user("c"))
    await session.message(answer("dropped"), kept=False)
    await session.message(answer("d"))
    await session.compacted("sum", kept, 99)
    await session.message(user("e"))
    await session.close()
    again = agent()
    async with Session(again, path):
        assert texts(again.messages)[1:] == [*left, "e"]
        assert "sum" in texts(again.messages)[0]


async def test_a_compaction_that_keeps_more_than_there_is_keeps_all(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    session = await recorded(path, user("a"), answer("b"))
    await session.compacted("sum", 5, 0)
    await session.close()
    again = agent()
    async with Session(again, path):
        assert texts(again.messages)[1:] == ["a", "b"]


async def test_rules_that_have_spoken_have_spoken_when_it_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    rules = [Rule("quiet", ("loud",), "Be quiet.")]
    session = await recorded(path, user("a"))
    await session.finding(Finding("rule", ["quiet"], "Be quiet."))
    await session.finding(Finding("guard", ["edit"], "No."))
    await session.message(user("Be quiet."))
    assert session.fired_rules == ["quiet"]
    before = session.entries[1].id
    await session.close()
    watch = RuleGuard(rules)
    async with Session(Agent(DemoModel(), guards=[watch]), path) as session:
        assert watch.fired_rules == ["quiet"]
        await session.branch(before)
        assert watch.fired_rules == []


async def test_the_model_that_answers_is_noted_when_it_changes(tmp_path: Path) -> None:
    async with Session(agent(), tmp_path / "s.jsonl") as session:
        await session.message(user("a"))
        await session.message(answer("b"))
        session.agent.model = DemoModel(name="other")
        await session.message(user("c"))
        names = [item.model for item in session.entries if isinstance(item, ModelEntry)]
        assert names == ["penstock-demo", "other"]
    async with Session(Agent(DemoModel(name="other")), tmp_path / "s.jsonl") as session:
        await session.message(user("d"))
        assert len([item for item in session.entries if isinstance(item, ModelEntry)]) == 2


async def test_a_branch_goes_on_from_an_earlier_entry_in_the_same_record(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    session = await recorded(path, user("a"), answer("b"), user("c"), answer("d"))
    first = session.leaf
    at = [item.id for item in session.entries if isinstance(item, MessageEntry)][1]
    await session.branch(at)
    assert texts(session.agent.messages) == ["a", "b"]
    await session.message(user("e"))
    await session.label(session.leaf, "another try")
    assert [branch.prompt for branch in session.branches] == ["c", "e"]
    assert session.branches[1].label == "another try"
    await session.close()
    again = agent()
    async with Session(again, path) as session:
        assert texts(again.messages) == ["a", "b", "e"]
        await session.branch(first)
        assert texts(again.messages) == ["a", "b", "c", "d"]
        await session.branch(None)
        assert again.messages == []
        await session.message(user("anew"))
    async with Session(agent(), path) as session:
        assert texts(session.agent.messages) == ["anew"]
        assert len(session.branches) == 3


async def test_a_fork_begins_as_its_parent_and_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    strange = b'{"type":"dream","id":"n","about":"x"}'
    session = await recorded(path, user("a"), answer("b"), user("c"))
    await session.rename("old")
    await session.close()
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n" + strange + b"\n", 1))
    session = await Session(agent(), path).open()
    await session.rename("Talk")
    before = path.read_bytes()
    at = [item.id for item in session.entries if isinstance(item, MessageEntry)][1]
    fork = await session.fork(at)
    assert fork.agent.recorder is fork
    assert texts(fork.agent.messages) == ["a", "b"]
    assert (fork.header.parent, fork.title) == (session.id, "Talk")
    assert fork.path is not None
    assert fork.path.parent == tmp_path
    await fork.run("other").result()
    await fork.close()
    assert path.read_bytes() == before
    contents = read_session(fork.path)
    assert not [item for item in contents.entries if isinstance(item, TitleEntry)]
    numbers = [item.number for item in contents.entries if isinstance(item, MessageEntry)]
    assert numbers == [1, 2, 3, 4]
    with pytest.raises(UsageError, match="not open"):
        session.run("closed")


async def test_what_is_foreign_is_forked_as_it_is(tmp_path: Path) -> None:
    strange = b'{"type": "dream", "id": "n",  "about": "x"}'
    session = await recorded(tmp_path / "s.jsonl", user("a"))
    await session.close()
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(strange.replace(b'"n"', b'"n", "parent": "%s"' % session.leaf.encode()))
        file.write(b"\n")
    session = await Session(agent(), tmp_path / "s.jsonl").open()
    fork = await session.fork(path=tmp_path / "f.jsonl")
    await fork.close()
    assert [type(item) for item in session.history] == [ModelEntry, MessageEntry, Foreign]
    last = (tmp_path / "f.jsonl").read_bytes().splitlines()[-1]
    assert last == (tmp_path / "s.jsonl").read_bytes().splitlines()[-1]


async def test_a_fork_at_the_beginning_begins_with_nothing(tmp_path: Path) -> None:
    session = Session(agent(), tmp_path / "s.jsonl")
    await session.open()
    await session.rename("only a title")
    at = session.leaf
    await session.run("hello").result()
    fork = await session.fork(at)
    assert fork.agent.messages == []
    assert (fork.entries, fork.title) == ([], "only a title")
    await fork.close()
    assert len(list(tmp_path.iterdir())) == 1  # nothing was said in it


async def test_a_new_conversation_knows_of_no_rule_that_has_spoken(tmp_path: Path) -> None:
    watch = RuleGuard([Rule("quiet", ("loud",), "Be quiet.")])
    watch.restore(["quiet"])
    async with Session(Agent(DemoModel(), guards=[watch], messages=[user("a")])):
        assert watch.fired_rules == ["quiet"]  # it goes on
    async with Session(Agent(DemoModel(), guards=[watch]), tmp_path / "s.jsonl"):
        assert watch.fired_rules == []


async def test_a_session_can_be_closed_by_two_at_once(tmp_path: Path) -> None:
    ended: list[object] = []
    session = await recorded(tmp_path / "s.jsonl", user("a"))
    session.agent.hooks.add("session_end", ended.append)
    session.run("hello")
    await asyncio.gather(session.close(), session.close())
    assert not session.agent.busy
    assert len(ended) == 1


async def test_a_fork_does_not_write_over_a_session(tmp_path: Path) -> None:
    other = await recorded(tmp_path / "f.jsonl", user("x"))
    await other.close()
    session = await recorded(tmp_path / "s.jsonl", user("a"))
    with pytest.raises(SessionError, match="already"):
        await session.fork(path=tmp_path / "f.jsonl")
    assert session.agent.recorder is session
    await session.message(answer("b"))
    await session.close()
    again = await Session(agent(), tmp_path / "f.jsonl").open()
    assert texts(again.agent.messages) == ["x"]
    await again.close()


async def test_hooks_are_told_and_may_say_no(tmp_path: Path) -> None:
    told: list[str] = []

    def note(name: str, session: Session) -> None:
        told.append(f"{name} {session.title}")

    async def main() -> None:
        one = agent()
        for name in ("session_start", "session_switch", "session_fork", "session_end"):
            one.hooks.add(name, partial(note, name))
        session = Session(one, tmp_path / "s.jsonl", title="T")
        await session.open()
        await session.message(user("a"))
        at = session.leaf
        await session.message(answer("b"))
        stop = [
            one.hooks.add("session_before_switch", lambda _: Cancel("not now")),
            one.hooks.add("session_before_fork", lambda _: Cancel()),
        ]
        with pytest.raises(SessionCancelledError, match="not now"):
            await session.branch(at)
        with pytest.raises(SessionCancelledError, match="cancelled"):
            await session.fork()
        assert texts(one.messages) == []  # the agent said nothing itself
        for remove in stop:
            remove()
        one.hooks.add("session_before_fork", lambda _: at)  # a hook may choose
        fork = await session.fork()
        assert texts(one.messages) == ["a"]
        await fork.branch(None)
        await fork.close()

    await main()
    assert told == [
        "session_start T",
        "session_end T",
        "session_fork T",
        "session_switch T",
        "session_end T",
    ]


async def test_a_hook_that_fails_after_the_fact_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise ValueError("oops")

    one = agent()
    one.hooks.add("session_start", fail)
    one.hooks.add("session_end", fail)
    async with Session(one, tmp_path / "s.jsonl") as session:
        await session.message(user("a"))
    assert one.recorder is None
    assert caplog.text.count("oops") == 2


async def test_what_is_not_there_or_not_now_is_refused(tmp_path: Path) -> None:
    one = agent()
    session = Session(one, tmp_path / "s.jsonl")
    with pytest.raises(UsageError, match="not open"):
        session.run("early")
    with pytest.raises(UsageError, match="not open"):
        await session.message(user("early"))
    await session.open()
    with pytest.raises(UsageError, match="only once"):
        await session.open()
    with pytest.raises(UsageError, match="another session"):
        await Session(one).open()
    with pytest.raises(UsageError, match="no entry"):
        await session.branch("nowhere")
    with pytest.raises(UsageError, match="no entry"):
        await session.fork("nowhere")
    with pytest.raises(UsageError, match="no entry"):
        await session.label("nowhere", "x")
    going = session.run("hello")
    with pytest.raises(AgentBusyError):
        await session.branch(None)
    with pytest.raises(AgentBusyError):
        await session.fork()
    await going.result()
    await session.close()
    await session.close()
    with pytest.raises(UsageError, match="not both"):
        Session(one, "x", store=SessionFolder(tmp_path))


async def test_a_record_that_cannot_be_opened_leaves_the_agent_free(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("no record\n")
    one = agent(user("mine"))
    with pytest.raises(SessionError):
        await Session(one, tmp_path / "s.jsonl").open()
    assert (one.recorder, texts(one.messages)) == (None, ["mine"])
    async with Session(one, tmp_path / "other.jsonl"):
        pass


async def test_closing_ends_the_run_and_keeps_what_it_said(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    async with talking(calls(("wait", {}))) as (model, _):
        one = Agent(model, [wait])
        async with Session(one, tmp_path / "s.jsonl") as session:
            session.run("go")
            await started.wait()
        assert not one.busy
        assert messages_in(tmp_path / "s.jsonl") == one.messages


async def test_steering_goes_through(tmp_path: Path) -> None:
    async with talking(says("a"), says("b"), says("c")) as (model, _):
        async with Session(Agent(model), tmp_path / "s.jsonl") as session:
            session.follow_up("more")
            await session.run("go").result()
            session.steer("left")
            going = session.run("again")
            await session.abort()
            await going.result()
        assert texts(messages_in(tmp_path / "s.jsonl"))[:3] == ["go", "a", "more"]


async def test_titles_and_notes_are_kept(tmp_path: Path) -> None:
    async with Session(agent(), tmp_path / "s.jsonl", title=" a\n title ") as session:
        assert session.title == "a title"
        await session.message(CALL)
        await session.message(RESULT)
        id_ = await session.note("mine", {"x": 1})
        await session.rename("")
        assert session.title == ""
    async with Session(agent(), tmp_path / "s.jsonl") as session:
        assert session.title == ""
        kept = session.tree[id_]
        assert isinstance(kept, CustomEntry)
        assert kept.data == {"x": 1}
        assert session.agent.messages == [CALL, RESULT]
        assert "mine" in session.to_markdown()
        assert "mine" in session.to_html(whole=True)
