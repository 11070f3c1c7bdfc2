"""What the checkers of all APIs share: frames, a list of complaints, calls that come in pieces.

A checker lists and never raises, whatever type a field has.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, TypeGuard

from penstock import _json
from penstock.errors import JSONParseError, LimitError
from penstock.framing import sse
from penstock.framing.base import Frame, FrameDecoder

_DONE = "[DONE]"


class Complaints:
    """What was found, each kind of thing once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, complaint: str) -> None:
        """Add *complaint*."""
        if complaint not in self.found:
            self.found.append(complaint)

    def unless(self, is_lawful: bool, complaint: str) -> None:  # noqa: FBT001 - reads as a sentence
        """Add *complaint* unless all is well."""
        if not is_lawful:
            self(complaint)

    def unless_object(self, arguments: str) -> None:
        """Complain of arguments that are no JSON object."""
        try:
            value = _json.decode_strict(arguments)
        except JSONParseError:
            value = None
        self.unless(isinstance(value, dict), "the arguments of a call are no JSON object")


class CallPieces:
    """The calls of a stream that says them as chat completions do: numbered, and in pieces."""

    def __init__(self, complain: Complaints) -> None:
        self.complain = complain
        self.arguments: list[str] = []  # of each call, by index
        self._ids: set[str] = set()

    def read(self, calls: Any) -> None:
        """Read the list of pieces that one delta has; without one there are not."""
        if not isinstance(calls, list | None):
            self.complain("tool_calls is no list")
            return
        for call in calls or ():
            self._read_piece(call)

    def _read_piece(self, call: Any) -> None:
        complain = self.complain
        index = call.get("index") if isinstance(call, dict) else None
        function = call.get("function") if isinstance(call, dict) else None
        if not is_count(index) or not isinstance(function, dict):
            complain("a call has no index or no function")
            return
        arguments = function.get("arguments")
        complain.unless(isinstance(arguments, str), "arguments are no text")
        if index == len(self.arguments):
            self._read_start(call, function)
            self.arguments.append(str(arguments))
        elif index < len(self.arguments):
            complain.unless("name" not in function and "id" not in call, "a call is named again")
            self.arguments[index] += str(arguments)
        else:
            complain(f"call {index} follows {len(self.arguments)} others")

    def _read_start(self, call: dict[str, Any], function: dict[str, Any]) -> None:
        complain, id_ = self.complain, call.get("id")
        complain.unless(is_text(function.get("name")), "the first delta of a call has no name")
        complain.unless(call.get("type") == "function", "a call is no function")
        complain.unless(is_text(id_), "a call has no id")
        complain.unless(str(id_) not in self._ids, "two calls have one id")
        self._ids.add(str(id_))


def is_text(value: object) -> bool:
    """Return whether *value* is text that says something."""
    return isinstance(value, str) and value != ""


def is_count(value: object) -> TypeGuard[int]:
    """Return whether *value* is a number of things."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_word_of(value: object, words: Container[str]) -> bool:
    """Return whether *value* is one of *words*."""
    return isinstance(value, str) and value in words


def objects_of(
    data: bytes, complain: Complaints, frames: FrameDecoder | None = None
) -> Iterator[tuple[Frame, dict[str, Any]]]:
    """Yield each frame of *data* with its JSON object; ``[DONE]`` comes with an empty one."""
    decoder = frames or sse.Decoder()
    try:
        found = [*decoder.feed(data), *decoder.finish()]
    except LimitError as exc:
        complain(str(exc))
        return
    for frame in found:
        complain.unless(not frame.unfinished, "the last frame is not finished")
        if frame.data == _DONE:
            yield frame, {}
            continue
        try:
            value = _json.decode_strict(frame.data)
        except JSONParseError:
            value = None
        if isinstance(value, dict):
            yield frame, value
        else:
            complain("a frame is no JSON object")
