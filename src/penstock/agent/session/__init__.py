"""Sessions: recorded conversations of agents, with branches, forks, lists and exports."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.agent.session.entries import (
    CompactionEntry,
    Contents,
    CustomEntry,
    Entry,
    Fault,
    FindingEntry,
    Foreign,
    Header,
    LabelEntry,
    MessageEntry,
    ModelEntry,
    TitleEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from penstock.agent.session.export import to_html, to_markdown
from penstock.agent.session.file import FileSessionWriter, SessionFolder, read_session, sessions_in
from penstock.agent.session.session import Session, SessionCancelledError
from penstock.agent.session.storage import (
    SessionError,
    SessionGoneError,
    SessionInfo,
    SessionStore,
    SessionWriter,
)
from penstock.agent.session.tree import Branch, Tree

if TYPE_CHECKING:
    from penstock.agent.session.database import SessionDatabase

__all__ = [
    "Branch",
    "CompactionEntry",
    "Contents",
    "CustomEntry",
    "Entry",
    "Fault",
    "FileSessionWriter",
    "FindingEntry",
    "Foreign",
    "Header",
    "LabelEntry",
    "MessageEntry",
    "ModelEntry",
    "Session",
    "SessionCancelledError",
    "SessionDatabase",
    "SessionError",
    "SessionFolder",
    "SessionGoneError",
    "SessionInfo",
    "SessionStore",
    "SessionWriter",
    "TitleEntry",
    "ToolEndEntry",
    "ToolStartEntry",
    "Tree",
    "read_session",
    "sessions_in",
    "to_html",
    "to_markdown",
]


def __getattr__(name: str) -> Any:
    """Import the database on first use: sessions in files do not need it."""
    if name == "SessionDatabase":
        return import_module("penstock.agent.session.database").SessionDatabase
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
