"""`Session`: a recorded conversation of an agent.

A session records each message before its `message_end` is emitted. When it is opened again, the
agent gets the conversation back as it was at the last entry. `branch` continues from an earlier
entry in the same record, `fork` in a new one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from msgspec import structs

from penstock.agent.agent import Agent, AgentBusyError, Prompt, UserInput
from penstock.agent.approval import Approval, Resolutions
from penstock.agent.cancellation import shielded
from penstock.agent.conversation import Recorder
from penstock.agent.hooks import Cancel, Finding, HookName
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
from penstock.agent.session.file import SUFFIX, FileSessionWriter
from penstock.agent.session.log import SessionLog
from penstock.agent.session.storage import (
    MAX_TITLE,
    MemoryWriter,
    SessionError,
    SessionStore,
    SessionWriter,
    check_id,
    new_session_id,
)
from penstock.agent.session.tree import (
    Branch,
    Tree,
    find_context,
    find_fired_rules,
    find_unfinished,
    list_context,
    sum_entry_usage,
)
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ToolCall, ToolResult, Usage
from penstock.models.base import AsyncCloseable
from penstock.request import Message

_LOG: Final = logging.getLogger("penstock.agent")


class SessionCancelledError(SessionError):
    """A hook cancelled a branch or a fork."""


class Session(Recorder, AsyncCloseable):
    """The conversation of *agent*, recorded in the file *path* or in *store* under *id*.

    An existing session is continued; otherwise one is created, with the messages that the agent
    has. Without *path* and *store* it is kept in memory only. *title* and *cwd*, the folder that it
    is about, are those of a new session.

    Open it with ``async with`` or `open` before you use it. An agent has one session at a time.
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
            raise UsageError("pass either path or store to a session, not both")
        self.agent = agent
        self.path = None if path is None else Path(path).absolute()
        """The file, if the session is in one."""
        self._store = store
        header = Header(
            version=VERSION,
            id=check_id(id) if id else new_session_id(),
            created=time.time(),
            cwd=str(Path.cwd() if cwd is None else Path(cwd).absolute()),
            title=_cut_title(title),
        )
        self._log = SessionLog(self._make_writer(header.id), header)
        self._state = "new"
        self._model = ""
        self._expected: list[str] = []  # calls of the last response whose results are to come
        self._written: set[str] = set()  # those of them whose results were recorded early
        # `close` may be called by the user and by ``async with`` at the same time.
        self._closing = asyncio.Lock()

    def _make_writer(self, id_: str) -> SessionWriter:
        if self._store is not None:
            return self._store.writer(id_)
        return MemoryWriter() if self.path is None else FileSessionWriter(self.path)

    # --- properties ---

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._log.header.id

    @property
    def header(self) -> Header:
        """The header of the record."""
        return self._log.header

    @property
    def title(self) -> str:
        """The title; empty if there is none."""
        return self._log.title

    @property
    def cwd(self) -> str:
        """The folder that the session is about."""
        return self._log.header.cwd

    @property
    def tree(self) -> Tree:
        """All entries as a tree; do not change it."""
        return self._log.tree

    @property
    def entries(self) -> list[Entry]:
        """All entries, in the order in which they were written."""
        return list(self._log.tree.entries)

    @property
    def leaf(self) -> str:
        """The id of the entry that the next one follows."""
        return self._log.leaf

    @property
    def history(self) -> list[Entry]:
        """The entries from the first to the leaf."""
        return self._log.tree.path(self._log.leaf)

    @property
    def branches(self) -> list[Branch]:
        """All branches of the session."""
        return self._log.tree.branches()

    @property
    def fired_rules(self) -> list[str]:
        """The names of the rules that have fired on the path to the leaf."""
        return find_fired_rules(self.history)

    @property
    def usage(self) -> Usage:
        """The usage of all responses, on all branches."""
        return sum_entry_usage(self._log.tree.entries)

    @property
    def faults(self) -> list[Fault]:
        """The lines of the record that could not be read when it was opened."""
        return list(self._log.faults)

    @property
    def interrupted(self) -> list[ToolCall]:
        """The calls that were running when their process ended: see `Agent.interrupted`."""
        return self.agent.interrupted

    def to_markdown(self, *, whole: bool = False) -> str:
        """Render the path to the leaf as Markdown, or the *whole* session."""
        return to_markdown(self.header, self.tree, leaf=self.leaf, whole=whole)

    def to_html(self, *, whole: bool = False) -> str:
        """Render the path to the leaf as an HTML page, or the *whole* session."""
        return to_html(self.header, self.tree, leaf=self.leaf, whole=whole)

    # --- opening and closing ---

    async def open(self) -> Self:
        """Read the record, and restore the conversation of the agent from it.

        Raises `SessionError` if it cannot be read or another session has it open, and `UsageError`
        if the agent has another session.
        """
        if self._state != "new":
            raise UsageError("a session can be opened only once: make a new one")
        self._check_agent_free()
        self._state = "closed"  # unless all of this succeeds
        try:
            await self._log.open()
            self._check_agent_free()  # reading took time
            if self._log.is_new:
                self._record_messages()
            else:
                self._restore_agent()
            self._attach()
        except BaseException:
            await self._log.drop()
            raise
        await self._run_hook("session_start")
        return self

    async def close(self) -> None:
        """Abort the run, write what could not be written before, and release the agent.

        A cancellation is raised after that. Raises `SessionError` if entries are lost because they
        still cannot be written.
        """
        await shielded(self._close())

    async def _close(self) -> None:
        async with self._closing:
            if self._state != "open":
                return
            if self.agent.recorder is self:
                await self.agent.abort()
                self.agent.recorder = None
            self._state = "closed"
            try:
                await self._run_hook("session_end")
            finally:
                await self._log.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    def _record_messages(self) -> None:
        """Begin a new record with the messages that the agent has."""
        for message in self.agent.messages:
            with suppress(UsageError):  # a result without a JSON form; a note is recorded
                self._log.queue(MessageEntry(id="", message=message))
        if not self.agent.messages:
            self._restore_guards([])

    def _attach(self) -> None:
        self.agent.recorder = self
        self._state = "open"

    def _restore_agent(self) -> None:
        """Restore the state at the leaf: the conversation, and which rules have fired.

        Results that were recorded early are added as messages; calls that were running are
        interrupted.
        """
        # See decision 14: a call that was running is never run again by default.
        unfinished = find_unfinished(self.history)
        for message in unfinished.messages:
            self._log.queue(MessageEntry(id="", message=message))
        history = self.history
        self.agent.messages = list_context(history)
        self.agent.interrupted = unfinished.interrupted
        self._expected, self._written = unfinished.expected, set()
        self._restore_guards(self.fired_rules)
        models = [entry.model for entry in history if isinstance(entry, ModelEntry)]
        self._model = models[-1] if models else ""

    def _restore_guards(self, names: list[str]) -> None:
        for guard in self.agent.guards:
            guard.restore(names)

    # --- runs ---

    def run(self, prompt: Prompt) -> AgentRun:
        """Start to work on *prompt*: see `Agent.run`."""
        self._check_open()
        return self.agent.run(prompt)

    def resume(self, decisions: Resolutions | None = None) -> AgentRun:
        """Continue where the conversation ended: see `Agent.resume`."""
        self._check_open()
        return self.agent.resume(decisions)

    def steer(self, message: UserInput) -> None:
        """Add *message* as soon as possible: see `Agent.steer`."""
        self.agent.steer(message)

    def follow_up(self, message: UserInput) -> None:
        """Add *message* when the run would otherwise end."""
        self.agent.follow_up(message)

    async def abort(self) -> None:
        """End the run."""
        await self.agent.abort()

    async def compact(self) -> bool:
        """Summarize the conversation now; return whether it is shorter."""
        self._check_open()
        return await self.agent.compact()

    # --- the methods of a `Recorder` ---

    async def message(self, message: Message, *, kept: bool = True) -> None:
        """Record a final message."""
        self._check_open()
        if isinstance(message, ToolResult):
            if message.id in self._written:
                self._written.discard(message.id)
                await self._log.flush()  # in case the early write failed
                return
            self._expected = [id_ for id_ in self._expected if id_ != message.id]
        elif kept:
            calls = message.tool_calls if isinstance(message, AssistantMessage) else []
            self._expected, self._written = [call.id for call in calls], set()
        name = self.agent.model.name
        if name != self._model:
            self._model = name
            self._log.queue(ModelEntry(id="", model=name))
        await self._log.add(MessageEntry(id="", message=message, kept=kept))

    async def call_started(self, call: ToolCall, approval: Approval) -> None:
        """Record that a call is about to run."""
        self._check_open()
        entry = ToolStartEntry(
            id="", call=call.id, name=call.name, arguments=call.arguments, approval=approval
        )
        await self._log.add(entry)

    async def call_ended(self, result: ToolResult) -> None:
        """Record the result of a call, as a message if all results before it are recorded."""
        self._check_open()
        # Results become messages in the order of the calls. One that is known early is recorded as
        # an entry of its own until those before it are known.
        if self._expected[:1] == [result.id]:
            del self._expected[0]
            self._written.add(result.id)
            await self._log.add(MessageEntry(id="", message=result))
        else:
            await self._log.add(ToolEndEntry(id="", result=result))

    async def finding(self, finding: Finding) -> None:
        """Record which rules fired."""
        self._check_open()
        names = list(finding.names)
        await self._log.add(FindingEntry(id="", source=finding.source, names=names))

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        """Record that *summary* replaces all but the last *kept* messages."""
        self._check_open()
        ids = [id_ for id_, _ in find_context(self.history)]
        first = ids[-min(kept, len(ids))] if kept and ids else ""
        await self._log.add(
            CompactionEntry(id="", summary=summary, first_kept=first, tokens=tokens)
        )

    # --- titles, labels, notes ---

    async def rename(self, title: str) -> None:
        """Set the title, of at most `MAX_TITLE` characters."""
        self._check_open()
        await self._log.add(TitleEntry(id="", title=_cut_title(title)))

    async def label(self, entry_id: str, label: str) -> None:
        """Set the label of an entry; an empty one removes it. Raises `UsageError`."""
        self._check_open()
        await self._log.add(LabelEntry(id="", target=self._check_entry(entry_id), label=label))

    async def note(self, name: str, data: object = None) -> str:
        """Record *data*, a JSON value, under *name*; return the id of its entry.

        It is not sent to the model.
        """
        self._check_open()
        entry = await self._log.add(CustomEntry(id="", name=name, data=data))
        return entry.id

    # --- branches and forks ---

    async def branch(self, entry_id: str | None) -> None:
        """Continue after an earlier entry, or from the beginning; later entries stay recorded.

        Raises `UsageError` if there is no such entry or the agent is busy, and
        `SessionCancelledError` if a hook cancels it.
        """
        leaf = await self._run_before_hook("session_before_switch", entry_id or "")
        self._log.leaf = leaf
        self._restore_agent()
        await self._run_hook("session_switch")

    async def fork(
        self,
        entry_id: str | None = None,
        path: str | Path | None = None,
        *,
        id: str = "",  # noqa: A002 - the field's name
    ) -> Session:
        """Continue in a new session that begins with a copy of this one, up to an entry if given.

        It is stored at *path*, or next to this one. It takes over the agent, and this session is
        closed. Raises what `branch` raises, and `SessionError` if the new session exists already.
        """
        leaf = await self._run_before_hook("session_before_fork", entry_id or self.leaf)
        await self._log.flush()
        id_ = id or new_session_id()
        if path is None and self.path is not None:
            path = self.path.with_name(f"{id_}{SUFFIX}")
        store = self._store if path is None else None
        fork = Session(self.agent, path, store=store, id=id_, title=self.title, cwd=self.cwd)
        await fork._copy_entries(self._log.tree.path(leaf), parent=self.id)
        try:
            self._check_idle()  # writing took time
            await self.close()
            fork._restore_agent()
            fork._attach()
        except BaseException:
            await fork._log.drop()
            raise
        await fork._run_hook("session_fork")
        return fork

    async def _copy_entries(self, entries: Iterable[Entry], parent: str) -> None:
        """Create the record of a new session that begins with *entries*."""
        log = self._log
        log.header = structs.replace(log.header, parent=parent)
        try:
            await log.open_new()
            for entry in entries:
                if not isinstance(entry, TitleEntry):  # the header has the title
                    log.copy_entry(entry)
            await log.flush()
        except BaseException:
            self._state = "closed"
            await log.drop()
            raise

    # --- checks and hooks ---

    def _check_open(self) -> None:
        if self._state != "open":
            raise UsageError("the session is not open: use `async with`, or `await session.open()`")

    def _check_agent_free(self) -> None:
        if self.agent.recorder is not None:
            raise UsageError("the agent has another session: close that one first")

    def _check_idle(self) -> None:
        self._check_open()
        if self.agent.busy:
            raise AgentBusyError("the agent is busy: wait for its run, or abort it")

    def _check_entry(self, entry_id: str) -> str:
        if entry_id and entry_id not in self._log.tree:
            raise UsageError(f"the session has no entry {entry_id!r}")
        return entry_id

    async def _run_before_hook(self, hook: HookName, entry_id: str) -> str:
        """Return the entry that hooks choose instead of *entry_id*; raise if one cancels."""
        self._check_idle()
        chosen = await self.agent.hooks.run(hook, self._check_entry(entry_id))
        if isinstance(chosen, Cancel):
            raise SessionCancelledError(chosen.reason or "a hook cancelled it")
        self._check_idle()  # a hook may take time
        return self._check_entry(str(chosen))

    async def _run_hook(self, hook: HookName) -> None:
        """Run a hook that reports what happened; its exceptions are logged."""
        await self.agent.hooks.run(
            hook, self, lambda source, message: _LOG.warning("%s: %s", source, message)
        )


def _cut_title(title: str) -> str:
    return " ".join(title.split())[:MAX_TITLE]
