"""Ids of calls that a client can rely on: none empty, no two the same."""

from __future__ import annotations

import re
from collections import deque
from itertools import count
from typing import Final

_ANY: Final = re.compile(r"(?s).+")


class Ids:
    """Gives each call of one answer or one conversation an id that its API allows.

    *allowed* is what an id may look like, *prefix* begins those that are made here, and *digits*
    is how many follow it at least. *given* are ids that are taken; those that are given join them.
    Of an id of the Responses API (``call_id|item_id``) the first half is the call's.
    """

    def __init__(
        self,
        allowed: re.Pattern[str] = _ANY,
        prefix: str = "call_",
        digits: int = 1,
        given: set[str] | None = None,
    ) -> None:
        self._allowed = allowed
        self._prefix = prefix
        self._digits = digits
        self._given = set() if given is None else given
        self._numbers = count(1)

    def give(self, wanted: str) -> str:
        """Give *wanted* if the API allows it and nobody has it yet, else one of our own."""
        id_ = wanted.partition("|")[0]
        if not self._allowed.fullmatch(id_):
            id_ = re.sub(r"[^A-Za-z0-9_-]", "_", id_)
        while not id_ or id_ in self._given or not self._allowed.fullmatch(id_):
            id_ = f"{self._prefix}{next(self._numbers):0{self._digits}}"
        self._given.add(id_)
        return id_


class SentIds:
    """Gives the calls and the results of a conversation ids that an API allows, each pair its own.

    A call that has the id of an earlier one gets another; of two that are open under one id, the
    first result is the first call's.
    """

    def __init__(
        self, allowed: re.Pattern[str] = _ANY, prefix: str = "call_", digits: int = 1
    ) -> None:
        self._ids = Ids(allowed, prefix, digits)
        self._open: dict[str, deque[str]] = {}

    def of_call(self, id: str) -> str:  # noqa: A002 - the field's name
        """Give the id under which a call is sent."""
        sent = self._ids.give(id)
        self._open.setdefault(id, deque()).append(sent)
        return sent

    def of_result(self, id: str) -> str:  # noqa: A002 - the field's name
        """Give the id under which the call's result is sent."""
        waiting = self._open.get(id)
        return waiting.popleft() if waiting else self._ids.give(id)
