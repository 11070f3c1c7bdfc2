"""One checker per API, which lists every violation of the API's grammar in a stream.

The checkers share no code with the encoders, so that they can test them: see law 10. Here is what
they have in common: frames, the report, and calls in pieces. A checker reports and never raises,
whatever type a field has.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, TypeGuard

from penstock import _json
from penstock.errors import JSONParseError, LimitError
from penstock.framing import Frame, FrameDecoder, sse

_DONE = "[DONE]"


class CheckReport:
    """The violations that were found, each once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        """Add *problem*."""
        if problem not in self.found:
            self.found.append(problem)

    def require(self, condition: bool, problem: str) -> None:  # noqa: FBT001 - the condition
        """Add *problem* unless *condition* holds."""
        if not condition:
            self.add(problem)

    def require_object(self, arguments: str) -> None:
        """Report arguments that are not a JSON object."""
        try:
            value = _json.decode_strict(arguments)
        except JSONParseError:
            value = None
        self.require(isinstance(value, dict), "the arguments of a call are not a JSON object")


# OpenAI's SDKs put a fragment into a list at its `index` and concatenate all strings in it, so a
# name that is repeated becomes "write" + "write".
class CallPieces:
    """The calls of a stream as in chat completions: numbered, and in pieces."""

    def __init__(self, report: CheckReport) -> None:
        self.report = report
        self.arguments: list[str] = []  # of each call, by index
        self._ids: set[str] = set()

    def read(self, calls: Any) -> None:
        """Read the pieces of calls of one delta, if there are any."""
        if not isinstance(calls, list | None):
            self.report.add("tool_calls is not a list")
            return
        for call in calls or ():
            self._read_piece(call)

    def _read_piece(self, call: Any) -> None:
        report = self.report
        index = call.get("index") if isinstance(call, dict) else None
        function = call.get("function") if isinstance(call, dict) else None
        if not is_count(index) or not isinstance(function, dict):
            report.add("a call has no index or no function")
            return
        arguments = function.get("arguments")
        report.require(isinstance(arguments, str), "arguments are not text")
        # A gap in the numbers makes clients that append to a list write into another call.
        if index == len(self.arguments):
            self._read_start(call, function)
            self.arguments.append(str(arguments))
        elif index < len(self.arguments):
            report.require("name" not in function and "id" not in call, "a call is named again")
            self.arguments[index] += str(arguments)
        else:
            report.add(f"call {index} follows {len(self.arguments)} others")

    def _read_start(self, call: dict[str, Any], function: dict[str, Any]) -> None:
        report, id_ = self.report, call.get("id")
        report.require(is_text(function.get("name")), "the first delta of a call has no name")
        report.require(call.get("type") == "function", "a call is not a function")
        report.require(is_text(id_), "a call has no id")
        report.require(str(id_) not in self._ids, "two calls have one id")
        self._ids.add(str(id_))


def is_text(value: object) -> bool:
    """Return whether *value* is text and not empty."""
    return isinstance(value, str) and value != ""


def is_count(value: object) -> TypeGuard[int]:
    """Return whether *value* is an integer of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_one_of(value: object, words: Container[str]) -> bool:
    """Return whether *value* is one of *words*."""
    return isinstance(value, str) and value in words


def read_objects(
    data: bytes, report: CheckReport, frames: FrameDecoder | None = None
) -> Iterator[tuple[Frame, dict[str, Any]]]:
    """Yield each frame of *data* with its JSON object; that of ``[DONE]`` is empty."""
    decoder = frames or sse.Decoder()
    try:
        found = [*decoder.feed(data), *decoder.finish()]
    except LimitError as exc:
        report.add(str(exc))
        return
    for frame in found:
        # A frame without its blank line is dropped silently by the SDKs of OpenAI and Anthropic;
        # Google's hands it on.
        report.require(not frame.unfinished, "the last frame is not finished")
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
            report.add("a frame is not a JSON object")
