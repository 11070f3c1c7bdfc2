"""Ids of calls that a client can rely on: none empty, no two the same."""

from __future__ import annotations

import re
from collections import deque
from itertools import count
from typing import Final

_ANY: Final = re.compile(r"(?s).+")
_MISTRAL: Final = re.compile(r"(?i)[sx]tral")
"""The family by its names: Mistral, Mixtral, Codestral, Devstral, Magistral, Pixtral, Voxtral …"""

_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
"""What Mistral's tokenizer takes for an id, whichever server runs it behind whichever API."""


def is_mistral(model: str) -> bool:
    """Return whether *model* is one of Mistral's family, by its name."""
    return _MISTRAL.search(model) is not None


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

    @classmethod
    def for_model(
        cls, model: str, allowed: re.Pattern[str] = _ANY, prefix: str = "call_"
    ) -> SentIds:
        """Return ids for a conversation with *model*, whose family may want a shape of its own.

        *allowed* and *prefix* are the API's.
        """
        if is_mistral(model):
            return cls(_MISTRAL_ID, "call", 5)
        return cls(allowed, prefix)

    def of_call(self, id: str) -> str:  # noqa: A002 - the field's name
        """Give the id under which a call is sent."""
        sent = self._ids.give(id)
        self._open.setdefault(id, deque()).append(sent)
        return sent

    def of_result(self, id: str) -> str:  # noqa: A002 - the field's name
        """Give the id under which the call's result is sent."""
        waiting = self._open.get(id)
        return waiting.popleft() if waiting else self._ids.give(id)
