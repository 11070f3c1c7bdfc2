"""A logged stream read with other options: what would have become of it, and what is different."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock.formats.base import message_of
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.differences import Difference, differences
from penstock.gateway.inspector.analysis import analyse_as, is_text
from penstock.gateway.inspector.playing import Play, answer_of, played
from penstock.gateway.inspector.recorded import heard_of
from penstock.gateway.inspector.telling import retold
from penstock.gateway.replaying import (
    Replayed,
    changed,
    logged_message,
    options_of,
    replay,
    request_of,
)
from penstock.store import RequestDetail

MAX_WORDED: Final = 20_000
"""Up to how many characters a difference is told line by line: that takes the square of it."""


class Changes(Struct, frozen=True, forbid_unknown_fields=True):
    """The options that hold in place of the logged ones."""

    format: str | UnsetType = UNSET
    arguments: Literal["live", "whole"] | UnsetType = UNSET
    reasoning: str | UnsetType | None = UNSET
    repair: bool | UnsetType = UNSET
    trim: bool | UnsetType = UNSET
    quoted: Literal["text", "calls"] | UnsetType = UNSET
    fenced: Literal["text", "calls"] | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        """Give those that are set."""
        given: dict[str, Any] = msgspec.to_builtins(self)
        return given


def replayed(detail: RequestDetail, changes: Changes, *, full: bool) -> dict[str, Any]:
    """Read *detail* again; give the analysis of it, and what is different.

    Raises `UsageError` for what cannot be read again.
    """
    options = changed(options_of(detail), changes.given())
    again = _of_text(detail, options) if is_text(detail) else _of_bytes(detail, changes)
    told = retold(detail, again.events)
    return {
        "analysis": analyse_as(detail, again.events, options, again.complaints, told, full=full),
        "differences": [_shown(one) for one in again.differences],
        "complaints": again.complaints,
    }


def _of_bytes(detail: RequestDetail, changes: Changes) -> Replayed:
    return asyncio.run(replay(detail, **changes.given()))


def _of_text(detail: RequestDetail, options: ModelOptions) -> Replayed:
    """Read the text of a model that sent no bytes."""
    texts = [text for _, text in heard_of(detail).pieces]
    play = Play.of("".join(texts), options)
    once = played(play, request_of(detail).tools, texts)
    then, is_whole = logged_message(detail)
    now = message_of(once.events)
    found = differences(then, now, is_whole=is_whole)
    return Replayed(answer_of(once), then, now, found, once.whys)


def _shown(difference: Difference) -> dict[str, str]:
    then, now = difference.then, difference.now
    if max(len(then), len(now)) <= MAX_WORDED:
        words = "\n".join(difference.lines())
    else:
        words = f"- {len(then):,} characters\n+ {len(now):,} characters"
    return {"path": difference.what, "then": then, "now": now, "words": words}
