"""The sessions of a chat: a folder of recorded conversations, one of which is open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.agent import Agent
from penstock.agent.session import Session, SessionFolder, SessionInfo
from penstock.agent.session.storage import new_session_id
from penstock.config import state_folder
from penstock.errors import PenstockError, UsageError


def default_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for sessions, below ``$XDG_STATE_HOME`` or ``~/.local/state``."""
    return state_folder(os.environ if environ is None else environ) / "sessions"


class ChatSessions:
    """Records the conversation of *agent*, which works in the folder *cwd*, in *folder*.

    Without a *folder* sessions are kept in memory only.
    """

    def __init__(self, agent: Agent, folder: Path | None, cwd: Path) -> None:
        self.agent = agent
        self.cwd = str(cwd)
        self.folder = folder
        self._session: Session | None = None

    @property
    def current(self) -> Session:
        """The open session; raises `UsageError` before one is opened."""
        if self._session is None:
            raise UsageError("No session is open: call begin(), open() or resume() first.")
        return self._session

    async def begin(self) -> None:
        """Begin a new, empty session."""
        await self.close()
        self.agent.messages = []
        path = None if self.folder is None else self.folder / f"{new_session_id()}.jsonl"
        await self._open(path)

    async def open(self, path: Path) -> None:
        """Continue the session at *path*, or begin one there.

        Raises `SessionError` if the file cannot be used; the previous session is then open again.
        """
        # An agent has one session at a time, so the old one is closed before the file is tried.
        before, messages = self._session, self.agent.messages
        await self.close()
        self.agent.messages = []
        try:
            await self._open(path)
        except PenstockError:
            if before is not None:
                self.agent.messages = messages if before.path is None else []
                await self._open(before.path)
            raise

    async def resume(self) -> bool:
        """Continue the last session of this folder, or begin one; return whether one was found."""
        # The list is sorted by time, newest first.
        for info in await self.list():
            if info.cwd == self.cwd and info.path is not None:
                await self.open(info.path)
                return True
        await self.begin()
        return False

    async def list(self) -> list[SessionInfo]:
        """Return the recorded sessions, the most recently written first."""
        return [] if self.folder is None else await SessionFolder(self.folder).sessions()

    async def fork(self) -> None:
        """Continue in a copy; the session so far is not written to any more."""
        self._session = await self.current.fork()

    async def close(self) -> None:
        """Close the open session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self, path: Path | None) -> None:
        # A file outside of the folder may have a name that is not a valid id.
        in_folder = path is not None and path.parent == self.folder
        name = path.stem if path is not None and in_folder else ""
        session = Session(self.agent, path, id=name, cwd=self.cwd)
        self._session = await session.open()
