"""Where conversations are kept: a folder of sessions, one of which is open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.agent import Agent
from penstock.agent.session import Session, SessionFolder, SessionInfo
from penstock.agent.session.storage import new_id
from penstock.errors import PenstockError, UsageError


def usual_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Give the folder for sessions: in that for the state of programs, as XDG has it."""
    known = os.environ if environ is None else environ
    state = known.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return home / "penstock" / "sessions"


class Keeper:
    """Keeps the conversation of *agent*, which is about the folder *cwd*, in *folder*.

    Without a *folder* nothing is kept: sessions are in memory.
    """

    def __init__(self, agent: Agent, folder: Path | None, cwd: Path) -> None:
        self.agent = agent
        self.cwd = str(cwd)
        self.folder = folder
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session that is open."""
        if self._session is None:
            raise UsageError("no session is open")
        return self._session

    async def begin(self) -> None:
        """Begin a new session, with nothing said."""
        await self.close()
        self.agent.messages = []
        path = None if self.folder is None else self.folder / f"{new_id()}.jsonl"
        await self._open(path)

    async def open(self, path: Path) -> None:
        """Go on with the session at *path*, or begin one there.

        Raises `SessionError` where that cannot be; then the one that was open still is.
        """
        before, said = self._session, self.agent.messages
        await self.close()
        self.agent.messages = []
        try:
            await self._open(path)
        except PenstockError:
            if before is not None:
                self.agent.messages = said if before.path is None else []
                await self._open(before.path)
            raise

    async def resume(self) -> bool:
        """Go on with the last session about this folder; tell whether there was one."""
        for info in await self.listed():
            if info.cwd == self.cwd and info.path is not None:
                await self.open(info.path)
                return True
        await self.begin()
        return False

    async def listed(self) -> list[SessionInfo]:
        """List the sessions that are kept, the one last written to first."""
        return [] if self.folder is None else await SessionFolder(self.folder).sessions()

    async def fork(self) -> None:
        """Go on in a copy; the session so far stays as it is."""
        self._session = await self.session.fork()

    async def close(self) -> None:
        """Let go of the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self, path: Path | None) -> None:
        is_ours = path is not None and path.parent == self.folder
        name = path.stem if path is not None and is_ours else ""
        session = Session(self.agent, path, id=name, cwd=self.cwd)
        self._session = await session.open()
