"""Calls that wait for a yes, and what a person can say to them.

A question is asked when the page has come to it, so that whoever answers has seen what the call
would do. What is typed is an answer only if it is one of a few words: any other line is said to the
model, so nobody says yes by finishing a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from penstock import _json
from penstock.agent import Allow, Decision, Deny, Edit, Resolution, Retry, ToolOutput
from penstock.errors import JSONParseError, UsageError
from penstock.messages import ToolCall

NO: Final = "the user said no"

_EDITED: Final = ("command", "content", "diff", "new")
"""The arguments that are edited as they are; where there is none of them, all are, as JSON."""


class Question:
    """A call that waits for a yes."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.edits = ""
        """The argument that is being edited; ``*`` are all."""

    def decide(self, decision: Decision) -> None:
        """Answer it."""
        if not self.answer.done():
            self.answer.set_result(decision)

    def editable(self) -> str:
        """Begin to edit; give the text that is edited."""
        arguments = self.call.arguments
        texts = (name for name in _EDITED if isinstance(arguments.get(name), str))
        self.edits = next(texts, "*")
        if self.edits == "*":
            return _json.encode(arguments).decode()
        return str(arguments[self.edits])

    def edited(self, text: str) -> Edit:
        """Give the arguments with *text* in the place of what was edited.

        Raises `UsageError` for all arguments where they are no JSON object.
        """
        if self.edits != "*":
            return Edit({**self.call.arguments, self.edits: text})
        try:
            arguments: Any = _json.decode(text)
        except JSONParseError as exc:
            raise UsageError(f"that is no JSON: {exc}") from exc
        if not isinstance(arguments, dict):
            raise UsageError("arguments are a JSON object")
        return Edit(arguments)


class Questions:
    """The questions of a run, in the order of their calls."""

    def __init__(self) -> None:
        self._open: dict[str, Question] = {}
        self._reached: set[str] = set()

    @property
    def current(self) -> Question | None:
        """The one that is asked now: the first that the page has come to."""
        reached = (one for id_, one in self._open.items() if id_ in self._reached)
        return next(reached, None)

    def add(self, question: Question) -> None:
        """Have *question* asked, once the page has come to it."""
        self._open[question.call.id] = question

    def remove(self, question: Question) -> None:
        """Ask *question* no more."""
        self._open.pop(question.call.id, None)
        self._reached.discard(question.call.id)

    def reach(self, call_id: str) -> None:
        """See that the page has come to the question about a call."""
        self._reached.add(call_id)

    def pass_by(self, call_id: str) -> None:
        """See that a call is over."""
        self._reached.discard(call_id)


class Interruptions:
    """Calls that had begun when the last process ended, asked about one after the other."""

    def __init__(self) -> None:
        self._open: list[ToolCall] = []
        self.decisions: dict[str, Resolution] = {}
        """What was decided, by the ids of the calls; one that stays unknown is not here."""

    @property
    def current(self) -> ToolCall | None:
        """The call that is asked about now."""
        return self._open[0] if self._open else None

    def begin(self, calls: Iterable[ToolCall]) -> None:
        """Ask about *calls*, and about no others."""
        self._open, self.decisions = list(calls), {}

    def decide(self, text: str) -> bool:
        """Take *text* as the decision about the current call; tell whether it is one."""
        word, _, rest = text.strip().partition(" ")
        call = self._open[0]
        match word.lower(), rest.strip():
            case (("r" | "retry"), ""):
                self.decisions[call.id] = Retry()
            case (("d" | "done"), result) if result:
                self.decisions[call.id] = ToolOutput(result)
            case (("u" | "unknown"), ""):
                pass
            case _:
                return False
        del self._open[0]
        return True


def decision_of(text: str) -> Decision | None:
    """Give what *text* decides; None if it is no answer, or one that needs more than that."""
    word, _, reason = text.strip().partition(" ")
    match word.lower(), reason.strip():
        case (("y" | "yes" | "a" | "always"), ""):
            return Allow()
        case (("n" | "no"), said):
            return Deny(said or NO)
    return None


def wants_edit(text: str) -> bool:
    """Tell whether *text* asks to edit the call first."""
    return text.strip().lower() in ("e", "edit")


def is_lasting(text: str) -> bool:
    """Tell whether *text* is a yes to all calls of the tool from now on."""
    return text.strip().lower() in ("a", "always")


def is_answer(text: str) -> bool:
    """Tell whether *text* is one of the letters that answer a question, and nothing else."""
    return text.strip().lower() in ("y", "n", "e", "a")
