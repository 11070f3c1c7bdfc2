"""`Session`: an agent's conversation that outlives the process.

A session writes down what its agent says and hears, each message before it is told as final. Opened
again, it gives the agent the conversation back as it stood at the last entry. `branch` continues
from an earlier entry in the same record, `fork` in a record of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, runtime_checkable

from msgspec import structs

from penstock.agent.agent import Agent, AgentBusyError, Prompt, Said
from penstock.agent.approval import Approval, Resolutions
from penstock.agent.cancellation import shielded
from penstock.agent.hooks import Cancel
from penstock.agent.run import AgentRun
from penstock.agent.session.entries import (
    VERSION,
    CompactionEntry,
    CustomEntry,
    Entry,
    Fault,
    FindingEntry,
    Header,
    LabelEntry,
    MessageEntry,
    ModelEntry,
    TitleEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from penstock.agent.session.export import to_html, to_markdown
from penstock.agent.session.file import ENDING, FileSessionWriter
from penstock.agent.session.interruption import find_unfinished
from penstock.agent.session.log import SessionLog
from penstock.agent.session.storage import (
    MAX_PROMPT,
    MemoryWriter,
    SessionError,
    SessionStore,
    SessionWriter,
    check_id,
    new_id,
)
from penstock.agent.session.tree import Branch, Tree, context, shown, spoken, usage
from penstock.agent.watch import Finding
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ToolCall, ToolResult, Usage
from penstock.request import Message

# What can be seen of a session: its name, its entries, where it stands, what it took.


class SessionView:
    """Looks into the *ledger* of a session, and changes nothing."""

    def __init__(self, ledger: SessionLog) -> None:
        self._ledger = ledger

    @property
    def id(self) -> str:
        """Its name among sessions."""
        return self._ledger.header.id

    @property
    def header(self) -> Header:
        """What the record begins with."""
        return self._ledger.header

    @property
    def title(self) -> str:
        """What it is called; empty if nobody said."""
        return self._ledger.title

    @property
    def cwd(self) -> str:
        """The folder that it is about."""
        return self._ledger.header.cwd

    @property
    def tree(self) -> Tree:
        """All entries, to look at."""
        return self._ledger.tree

    @property
    def entries(self) -> list[Entry]:
        """All entries, in the order in which they were written."""
        return list(self._ledger.tree.entries)

    @property
    def leaf(self) -> str:
        """The id of the entry that the next one comes after."""
        return self._ledger.leaf

    @property
    def history(self) -> list[Entry]:
        """The entries from the first to the leaf."""
        return self._ledger.tree.path(self._ledger.leaf)

    @property
    def branches(self) -> list[Branch]:
        """Every way through the session to an end."""
        return self._ledger.tree.branches()

    @property
    def spoken(self) -> list[str]:
        """The names of the rules that have spoken on the way to the leaf."""
        return spoken(self.history)

    @property
    def usage(self) -> Usage:
        """What all answers took, on all branches."""
        return usage(self._ledger.tree.entries)

    @property
    def faults(self) -> list[Fault]:
        """The lines of the record that could not be read when it was opened."""
        return list(self._ledger.faults)

    def to_markdown(self, *, whole: bool = False) -> str:
        """Write the way to the leaf for people to read, or the *whole* session."""
        return to_markdown(self.header, self.tree, leaf=self.leaf, whole=whole)

    def to_html(self, *, whole: bool = False) -> str:
        """Write the way to the leaf as a page, or the *whole* session."""
        return to_html(self.header, self.tree, leaf=self.leaf, whole=whole)


_log: Final = logging.getLogger("penstock.agent")


@runtime_checkable
class Remembering(Protocol):
    """A watch that remembers which of its rules have spoken."""

    def restore(self, names: Iterable[str]) -> None:
        """Let the rules called *names* have spoken, and no others."""


class SessionCancelledError(SessionError):
    """A hook said that the session shall not be forked or gone back in."""


class Session(SessionView):
    """The conversation of *agent*, kept in the file *path* or in *store* under *id*.

    What is there already is gone on with; else a session begins, with the messages that the agent
    has. Without *path* and *store* it is kept in memory alone. *title* and *cwd* are those of a new
    session; *cwd* is the folder that it is about.

    To be opened before it is used, by ``async with`` or `open`. A session is what writes its agent
    down, so an agent has one at a time.
    """

    def __init__(
        self,
        agent: Agent,
        path: str | Path | None = None,
        *,
        store: SessionStore | None = None,
        id: str = "",  # noqa: A002 - the field's name
        title: str = "",
        cwd: str | Path | None = None,
    ) -> None:
        if path is not None and store is not None:
            raise UsageError("a session is in a file or in a store, not in both")
        self.agent = agent
        self.path = None if path is None else Path(path).absolute()
        """The file, where it is in one."""
        self._store = store
        header = Header(
            version=VERSION,
            id=check_id(id) if id else new_id(),
            created=time.time(),
            cwd=str(Path.cwd() if cwd is None else Path(cwd).absolute()),
            title=_short(title),
        )
        super().__init__(SessionLog(self._journal(header.id), header))
        self._state = "new"
        self._model = ""
        self._expected: list[str] = []  # the calls of the last answer whose results are to come
        self._written: set[str] = set()  # of them those whose results are here already
        self._ending = asyncio.Lock()

    def _journal(self, id_: str) -> SessionWriter:
        if self._store is not None:
            return self._store.journal(id_)
        return MemoryWriter() if self.path is None else FileSessionWriter(self.path)

    # --- from beginning to end ---

    async def open(self) -> Self:
        """Read what there is, and return it to the agent.

        Raises `SessionError` if it cannot be read or somebody else writes to it, and `UsageError`
        if another session writes the agent down.
        """
        if self._state != "new":
            raise UsageError("a session is opened once")
        self._check_free()
        self._state = "closed"  # unless all goes well
        try:
            await self._ledger.open()
            self._check_free()  # still
            if self._ledger.is_new:
                self._begin()
            else:
                self._remember()
            self._attach()
        except BaseException:
            await self._ledger.drop()
            raise
        await self._tell("session_start", self)
        return self

    async def close(self) -> None:
        """Write what could not be written before, and let go of the agent; a run is aborted.

        Who is cancelled meanwhile is so when it is done. Raises `SessionError` if something is
        lost, for it can still not be written.
        """
        await shielded(self._close())

    async def _close(self) -> None:
        async with self._ending:
            if self._state != "open":
                return
            if self.agent.recorder is self:
                await self.agent.abort()
                self.agent.recorder = None
            self._state = "closed"
            try:
                await self._tell("session_end", self)
            finally:
                await self._ledger.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _begin(self) -> None:
        """Take what the agent has said already as the beginning."""
        for message in self.agent.messages:
            with suppress(UsageError):  # a result without a JSON form; that much is written
                self._ledger.queue(MessageEntry(id="", message=message))
        if not self.agent.messages:
            self._restore([])

    def _attach(self) -> None:
        self.agent.recorder = self
        self._state = "open"

    def _remember(self) -> None:
        """Bring the agent to where the leaf is: what was said, and which rules have spoken.

        Results that were known and not said when the process ended are said now; calls that had
        begun are interrupted.
        """
        unfinished = find_unfinished(self.history)
        for message in unfinished.said:
            self._ledger.queue(MessageEntry(id="", message=message))
        history = self.history
        self.agent.messages = context(history)
        self.agent.interrupted = unfinished.interrupted
        self._expected, self._written = unfinished.expected, set()
        self._restore(self.spoken)
        models = [entry.model for entry in history if isinstance(entry, ModelEntry)]
        self._model = models[-1] if models else ""

    def _restore(self, names: list[str]) -> None:
        for watch in self.agent.guards:
            if isinstance(watch, Remembering):
                watch.restore(names)

    # --- the agent's work ---

    def run(self, prompt: Prompt) -> AgentRun:
        """Begin to work on *prompt*, as `Agent.run` does."""
        self._check_open()
        return self.agent.run(prompt)

    def proceed(self, decisions: Resolutions | None = None) -> AgentRun:
        """Go on where the conversation stands, as `Agent.proceed` does."""
        self._check_open()
        return self.agent.proceed(decisions)

    @property
    def interrupted(self) -> list[ToolCall]:
        """The calls that had begun when their process ended: see `Agent.interrupted`."""
        return self.agent.interrupted

    def steer(self, message: Said) -> None:
        """Say *message* as soon as the run can hear it."""
        self.agent.steer(message)

    def follow_up(self, message: Said) -> None:
        """Say *message* when the run would otherwise end."""
        self.agent.follow_up(message)

    async def abort(self) -> None:
        """End the run."""
        await self.agent.abort()

    async def compact(self) -> bool:
        """Sum the conversation up now; return whether it is shorter."""
        self._check_open()
        return await self.agent.compact()

    # --- what the agent tells: a session is its `Recorder` ---

    async def message(self, message: Message, *, kept: bool = True) -> None:
        """Write a final message; it is there when this returns."""
        self._check_open()
        if isinstance(message, ToolResult):
            if message.id in self._written:  # as soon as it was known
                self._written.discard(message.id)
                await self._ledger.flush()  # unless that failed
                return
            self._expected = [id_ for id_ in self._expected if id_ != message.id]
        elif kept:
            calls = message.tool_calls if isinstance(message, AssistantMessage) else []
            self._expected, self._written = [call.id for call in calls], set()
        name = self.agent.model.name
        if name != self._model:
            self._model = name
            self._ledger.queue(ModelEntry(id="", model=name))
        await self._ledger.add(MessageEntry(id="", message=message, kept=kept))

    async def call_started(self, call: ToolCall, approval: Approval) -> None:
        """Write that a call is about to run; it is there when this returns."""
        self._check_open()
        entry = ToolStartEntry(
            id="", call=call.id, name=call.name, arguments=call.arguments, approval=approval
        )
        await self._ledger.add(entry)

    async def call_ended(self, result: ToolResult) -> None:
        """Write what a call came to: as its message, if all results before it are there."""
        self._check_open()
        if self._expected[:1] == [result.id]:
            del self._expected[0]
            self._written.add(result.id)
            await self._ledger.add(MessageEntry(id="", message=result))
        else:
            await self._ledger.add(ToolEndEntry(id="", result=result))

    async def finding(self, finding: Finding) -> None:
        """Write which rules have spoken."""
        self._check_open()
        entry = FindingEntry(id="", source=finding.source, names=list(finding.names))
        await self._ledger.add(entry)

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        """Write that all but the last *kept* messages are now *summary*."""
        self._check_open()
        said = [id_ for id_, _ in shown(self.history)]
        first = said[-min(kept, len(said))] if kept and said else ""
        await self._ledger.add(
            CompactionEntry(id="", summary=summary, first_kept=first, tokens=tokens)
        )

    # --- what else is kept ---

    async def rename(self, title: str) -> None:
        """Give the session a title, of `MAX_PROMPT` characters at most."""
        self._check_open()
        await self._ledger.add(TitleEntry(id="", title=_short(title)))

    async def label(self, entry_id: str, label: str) -> None:
        """Give an entry a name, or none; raise `UsageError` if it is not there."""
        self._check_open()
        await self._ledger.add(LabelEntry(id="", target=self._known(entry_id), label=label))

    async def note(self, name: str, data: object = None) -> str:
        """Keep *data*, a JSON value, under *name*, and return the id of its entry.

        The model never sees it.
        """
        self._check_open()
        entry = await self._ledger.add(CustomEntry(id="", name=name, data=data))
        return entry.id

    # --- other ways ---

    async def branch(self, entry_id: str | None) -> None:
        """Go on after an earlier entry, or from nothing; what was said since stays in the record.

        Raises `UsageError` if the entry is not there or the agent is busy, and
        `SessionCancelledError` if a hook says no.
        """
        leaf = await self._may("session_before_switch", entry_id or "")
        self._ledger.leaf = leaf
        self._remember()
        await self._tell("session_switch", self)

    async def fork(
        self,
        entry_id: str | None = None,
        path: str | Path | None = None,
        *,
        id: str = "",  # noqa: A002 - the field's name
    ) -> Session:
        """Go on in a new session that begins as this one did, up to an entry or all of it.

        It is kept at *path*, or else beside this one. It takes over the agent, and this one is
        closed. Raises as `branch` does, and `SessionError` if there is such a session already.
        """
        leaf = await self._may("session_before_fork", entry_id or self.leaf)
        await self._ledger.flush()
        fork = self._sibling(path, id)
        await fork._begin_as(self._ledger.tree.path(leaf), parent=self.id)  # noqa: SLF001
        try:
            self._check_idle()  # writing may have taken its time, too
            await self.close()
            fork._remember()  # noqa: SLF001
            fork._attach()  # noqa: SLF001
        except BaseException:
            await fork._ledger.drop()  # noqa: SLF001
            raise
        await fork._tell("session_fork", fork)  # noqa: SLF001
        return fork

    def _sibling(self, path: str | Path | None, id_: str) -> Session:
        id_ = id_ or new_id()
        if path is None and self.path is not None:
            path = self.path.with_name(f"{id_}{ENDING}")
        store = self._store if path is None else None
        return Session(self.agent, path, store=store, id=id_, title=self.title, cwd=self.cwd)

    async def _begin_as(self, entries: Iterable[Entry], parent: str) -> None:
        """Make this the record of a new session that begins with *entries*."""
        ledger = self._ledger
        ledger.header = structs.replace(ledger.header, parent=parent)
        try:
            await ledger.open_new()
            for entry in entries:
                if not isinstance(entry, TitleEntry):  # the header has the newest
                    ledger.take_over(entry)
            await ledger.flush()
        except BaseException:
            self._state = "closed"
            await ledger.drop()
            raise

    # --- rules ---

    def _check_open(self) -> None:
        if self._state != "open":
            raise UsageError("the session is not open: use `async with`, or `await session.open()`")

    def _check_free(self) -> None:
        if self.agent.recorder is not None:
            raise UsageError("the agent is written down by another session: close that one first")

    def _check_idle(self) -> None:
        self._check_open()
        if self.agent.busy:
            raise AgentBusyError("the agent is busy: wait for its run, or abort it")

    def _known(self, entry_id: str) -> str:
        if entry_id and entry_id not in self._ledger.tree:
            raise UsageError(f"there is no entry {entry_id!r} in this session")
        return entry_id

    async def _may(self, hook: str, entry_id: str) -> str:
        """Ask whether something may be done at an entry; return the entry that hooks chose."""
        self._check_idle()
        answer = await self.agent.hooks.ask(hook, self._known(entry_id))
        if isinstance(answer, Cancel):
            raise SessionCancelledError(answer.reason or "a hook said no")
        self._check_idle()  # it may have taken its time
        return self._known(str(answer))

    async def _tell(self, hook: str, value: object) -> None:
        """Tell hooks what was; one that fails is logged, for it cannot be undone."""
        await self.agent.hooks.ask(hook, value, lambda who, what: _log.warning("%s: %s", who, what))


def _short(title: str) -> str:
    return " ".join(title.split())[:MAX_PROMPT]
