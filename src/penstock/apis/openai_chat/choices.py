"""Several answers to one request: the choices of one chat completion, each with its number.

Each choice is an answer of its own, with an encoder of its own, and what they say goes out in the
order in which it comes. The stream ends when all have ended, or with the first that fails: a client
that asked for three answers and gets two would not know which.
"""

from __future__ import annotations

from typing import Any

from penstock.apis.encoding import Ending
from penstock.apis.numbers import ESTIMATED, estimate_mark, told_usage
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.encode import DONE, Encoder
from penstock.apis.openai_chat.response import write_response
from penstock.errors import UsageError
from penstock.events import Done, Event, Failed
from penstock.messages import AssistantMessage, ErrorInfo, Usage, summed


class ChoicesEncoder:
    """Events of *number* answers in, the bytes of one stream out."""

    def __init__(
        self,
        number: int,
        *,
        model: str = "",
        id: str = "",  # noqa: A002 - the field's name
        created: int = 0,
        usage: bool = True,
        input_tokens: int = 0,
    ) -> None:
        self._input_tokens = input_tokens
        self._choices = [
            _Choice(model=model, id=id, created=created, usage=usage, index=index)
            for index in range(number)
        ]
        self._usages: list[Usage] = []
        self._open = number

    @property
    def ended(self) -> bool:
        """Whether the last word was written."""
        return not self._open

    def encode(self, choice: int, event: Event) -> bytes:
        """Write what *event* of the answer *choice* means; nothing after the last word."""
        encoder = self._choices[choice]
        if not self._open or encoder.has_ended:
            return b""
        data = encoder.encode(event)
        if not isinstance(event, Done | Failed):
            return data
        self._usages.append(told_usage(event.message, self._input_tokens))
        self._open = 0 if encoder.has_failed else self._open - 1
        if self._open:
            return data
        return data + (b"" if encoder.has_failed else self._write_usage()) + DONE

    def finish(self, failed: Failed | None = None) -> bytes:
        """End the stream; where an answer has not ended, with *failed* or as one that was cut."""
        cut = ErrorInfo("the stream ended before the answer did", "truncated", retryable=True)
        is_open = [index for index, one in enumerate(self._choices) if not one.has_ended]
        if not self._open or not is_open:
            return b""
        return self.encode(is_open[0], failed or Failed("error", cut, AssistantMessage()))

    def keep_alive(self) -> bytes:
        """Write a sign of life that means nothing to a client."""
        return self._choices[0].keep_alive()

    def _write_usage(self) -> bytes:
        return self._choices[0].write_usage(_summed(self._usages))


class _Choice(Encoder):
    """Writes one choice: all of its answer but the last word of the stream."""

    has_failed = False
    has_ended = False

    def _write_tail(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        del event
        self.has_ended = True
        self.has_failed = isinstance(ending, ErrorInfo)
        return b""


def write_choices(messages: list[AssistantMessage], *, created: int = 0) -> dict[str, Any]:
    """Write *messages* as the choices of one whole answer; `UsageError` if one of them failed."""
    if not messages:
        raise UsageError("an answer has one choice or more")
    answers = [write_response(message, created=created) for message in messages]
    choices = [{**one["choices"][0], "index": index} for index, one in enumerate(answers)]
    usage = tables.write_usage(_summed([message.usage for message in messages]))
    return {**answers[0], "choices": choices, "usage": usage}


def _summed(usages: list[Usage]) -> Usage:
    """Add up the tokens of all choices; the sum is an estimate if one of them is."""
    usage = summed(usages)
    if any(map(estimate_mark, usages)):
        usage.raw = {ESTIMATED: True}
    return usage
