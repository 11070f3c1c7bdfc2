"""What the checkers of all APIs share: frames of JSON objects, and a list of complaints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock import _json, sse
from penstock.errors import JSONParseError, LimitError
from penstock.frames import Frame, FrameDecoder

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


def objects_of(
    data: bytes, complain: Complaints, frames: FrameDecoder | None = None
) -> Iterator[tuple[Frame, dict[str, Any]]]:
    """Give each frame of *data* with its JSON object; ``[DONE]`` comes with an empty one."""
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
