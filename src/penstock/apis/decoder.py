"""The life of a decoder: bytes to frames to JSON to events, whatever the provider.

An API says by `_read` what one JSON object of its stream means, and by `_read_end` what it means
that the bytes end. All else is the same everywhere:

* a frame that is no JSON is read line by line, since some servers leave the blank lines out (see
  `framing`); a line that is not JSON either is skipped and counted (`skipped`). If it is what is
  left of JSON, content was lost: the answer fails at once as ``malformed``, so that no text and no
  call closes over the gap. Noise (``ping``, ``{oops``) is counted only, but no call that was open
  while a bracket came is complete; * a body that is not a stream at all (an error as plain JSON, a
  whole answer, a page of HTML) is read as what it is, and one that stops inside its first frame is
  a stream that was cut;
* a frame over its limit, and bytes that hold no frame, end in `Failed` of kind ``malformed``;
* what comes after the terminal event is ignored.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.errors import message_of
from penstock.apis.frame_cache import FrameTemplate
from penstock.apis.replay import events_of
from penstock.apis.transcript import Transcript
from penstock.errors import JSONParseError, LimitError, UsageError
from penstock.events import Event
from penstock.framing import sse
from penstock.framing.base import Frame, FrameDecoder
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.values import IncrementalJSON

# Event streams of servers that leave out the blank lines between their frames.
#
# By the rules of the format all of such a stream is one frame, which ends when the stream does.
# So where a line of data that is a whole JSON object is followed by another line of a frame,
# the blank line between the two is made up, and the answer comes while it is written.
#
# A standard decoder ignores a line of an unknown field. In a stream that has begun, such a line
# may be what is left of a frame (``ta: {"choices"…``, or the rest of a line that a server broke
# in two). It is delivered as data, so that the decoder of the API sees that something was lost.


_FRAME_FIELDS: Final = (b"data:", b"event:", b"id:")
_NAME: Final = re.compile(rb"[a-z][a-z0-9_-]*")
_REST_OF_DATA: Final = frozenset(
    {b"data", b"dat", b"daa", b"dta", b"ata", b"da", b"dt", b"aa", b"at", b"ta", b"d", b"a", b"t"}
)
"""What is left of the name ``data`` when characters of it were lost; also in other spellings."""


class Decoder(sse.Decoder):
    """Bytes of an event stream in, frames out, with or without blank lines."""

    _has_begun = False  # Before the first frame, the body may not be a stream at all.

    def _read_whole(self, lines: list[bytes]) -> list[Frame]:
        frames = super()._read_whole(lines)
        if frames:
            self._has_begun = True
        return frames

    def _dispatch(self, frames: list[Frame]) -> None:
        super()._dispatch(frames)
        if frames:
            self._has_begun = True

    def _read_field(self, line: bytes) -> None:
        if self._has_begun and _is_lost_data(line):
            self._add_data(b"data:" + line)
        else:
            super()._read_field(line)

    def _read_lines(self, lines: list[bytes], frames: list[Frame]) -> None:
        if not self._lacks_blank_lines(lines):
            super()._read_lines(lines, frames)
            return
        for line in lines:
            if (
                len(self._data) == 1
                and line.startswith(_FRAME_FIELDS)
                and _is_object(self._data[0])
            ):
                self._dispatch(frames)
            super()._read_lines([line], frames)

    def _lacks_blank_lines(self, lines: list[bytes]) -> bool:
        """Return whether data is followed by anything but a blank line, as it is in few streams."""
        has_data = bool(self._data)
        for line in lines:
            if has_data and line:
                return True
            has_data = line.startswith(b"data:")
        return False


def _is_lost_data(line: bytes) -> bool:
    """Return whether *line* may be what is left of a line of data: it has a piece of JSON in it."""
    if line.startswith(b":") or not (b'"' in line or line.endswith(b"}")):
        return False
    field, colon, _ = line.partition(b":")
    name = field.strip().lower()
    return not colon or name in _REST_OF_DATA or _NAME.fullmatch(name) is None


def _is_object(data: str) -> bool:
    if not data.startswith("{") or not data.rstrip().endswith("}"):
        return False
    try:
        return isinstance(_json.decode(data), dict)
    except JSONParseError:
        return False


MAX_BODY: Final = 8 * 1024 * 1024
"""How many bytes of a body without frames are kept, to say what it was."""

MAX_SILENT: Final = 64 * 1024 * 1024
"""How many bytes in a row may give no event: several frames of the largest size, and no flood."""

MAX_SILENT_FRAMES: Final = 100_000
"""How many frames in a row may give no event: some servers send one for each hidden token."""

MAX_VALUES: Final = 100_000
"""How many values the JSON of a frame may hold, by its commas and brackets: each is looked at."""

MAX_BLOCKS: Final = 2_000
"""How many blocks (texts, reasoning, calls) an answer may have: some ten times what agents get."""

MAX_SHAPED: Final = 64 * 1024
"""How many bytes of a read are compared with the last one: far more than a delta has."""

MAX_LOOK: Final = 65_536
"""How many characters of a body without frames are read to tell comments before it, and whether it
is JSON that was cut."""

_DONE: Final = "[DONE]"
_SHOWN: Final = 200  # characters of a body that is shown in an error
_FIELDS: Final = ("data:", "event:", "id:", "retry:", ":")
_COMMENT: Final = re.compile(r"(?:\s*:[^\r\n]*[\r\n])+")
_STRUCTURE: Final = re.compile(r"[{}\[\]\\]")


class StreamDecoder(ABC):
    """Bytes of a provider's stream in, events out."""

    def __init__(
        self, frames: FrameDecoder | None = None, *, ids: Callable[[], str] | None = None
    ) -> None:
        self.skipped = 0
        """How many frames, or lines of them, could not be read."""
        self._was_cut = False  # inside a frame, by the end of the bytes
        self._frames = frames or Decoder()
        self._transcript = Transcript(ids)
        self._shape = FrameTemplate()
        self._read_shape = FrameTemplate()
        self._is_sse = isinstance(self._frames, sse.Decoder)
        self._is_even = False  # the last read ended in a blank line: no frame is pending
        self._body: bytearray | None = bytearray()  # as long as there was not a frame
        self._silent = 0  # bytes since the last event
        self._silent_frames = 0
        self._finished = False

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes; return the events that they make certain."""
        if self._is_even and len(data) <= MAX_SHAPED:
            passage, text = self._read_shape.match(str(data, "utf-8", "replace"))
            if passage is not None:
                passage.add(text)
                return self._transcript.take()
        return self._feed(data)

    def _feed(self, data: bytes) -> list[Event]:
        if self._finished:
            raise UsageError("the stream is finished: make a new decoder for a new one")
        if self._transcript.ended:
            return []
        try:
            frames = self._frames.feed(data)
        except LimitError as exc:
            return self._refuse(str(exc))
        if self._body is not None:
            self._keep(data, found=bool(frames))
        for frame in frames:
            self._read_frame(frame)
        self._learn(data, frames)
        if events := self._transcript.take():
            self._silent = self._silent_frames = 0
            return events
        self._silent += len(data)
        self._silent_frames += len(frames)
        if self._silent > MAX_SILENT:
            return self._refuse(f"more than {MAX_SILENT} bytes in a row without content")
        if self._silent_frames > MAX_SILENT_FRAMES:
            return self._refuse(f"more than {MAX_SILENT_FRAMES} frames in a row without content")
        return events

    def finish(self) -> list[Event]:
        """End the stream; return what was held back, and the terminal event if none has come."""
        if self._finished:
            raise UsageError("the stream is finished: make a new decoder for a new one")
        self._finished = True
        self._read_shape.forget()
        if self._transcript.ended:
            return self._transcript.take()
        try:
            frames = self._frames.finish()
        except LimitError as exc:
            return self._refuse(str(exc))
        for frame in frames:
            self._read_frame(frame)
        if self._body and not self.has_read:
            self._read_body(bytes(self._body))
        if not self._transcript.ended:
            self._read_end()
        return self._transcript.take()

    def read_whole(self, data: Mapping[str, Any]) -> AssistantMessage:
        """Read a whole answer as a stream of one frame, and return its message."""
        self.has_read = True
        self._read(dict(data), "")
        if not self._transcript.ended:
            self._read_end()
        return self._transcript.message

    # --- what an API says ---

    has_read = False
    """Whether any frame was valid."""

    @abstractmethod
    def _read(self, data: dict[str, Any], event: str) -> None:
        """Read one JSON object of the stream; *event* is the name that its frame had."""

    @property
    def _has_said_all(self) -> bool:
        """Whether nothing can follow that the answer needs, such as the usage alone."""
        return False

    def _read_done(self) -> None:  # noqa: B027 - most streams have no such mark
        """Read the mark ``[DONE]``."""

    def _read_end(self) -> None:
        """Read the end of the bytes before any terminal event: the stream was cut."""
        self.fail_truncated()

    @abstractmethod
    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        """Read a body that is not a stream: an answer, an error, or neither."""

    # --- frames ---

    def _read_frame(self, frame: Frame) -> None:
        data = frame.data
        passage, text = self._shape.match(data)
        if passage is not None:
            passage.add(text)
            return
        self._shape.forget()  # What another frame says may change what the same one says later.
        if self._transcript.ended:
            return
        if _json.may_hold_more(data, MAX_VALUES):
            self._refuse_frame()
            return
        try:
            value = _json.decode(data)
        except JSONParseError:
            self._read_lines(frame)
            return
        mark = self._transcript.mark
        self._read_value(value, frame)
        if self._transcript.blocks > MAX_BLOCKS:
            self._transcript.fail(
                ErrorInfo(f"the answer has more than {MAX_BLOCKS} blocks", "malformed")
            )
        spoken = self._transcript.spoke_since(mark)
        if spoken is not None:
            self._shape.learn(data, spoken.last, spoken)

    def _learn(self, data: bytes, frames: list[Frame]) -> None:
        """Learn the shape of a read that was one frame, with nothing pending before or after."""
        was_even, self._is_even = self._is_even, self._is_sse and data[-2:] == b"\n\n"
        spoken = self._transcript.spoke_since()
        if spoken is not None and was_even and self._is_even and len(frames) == 1:
            self._read_shape.learn(str(data, "utf-8", "replace"), spoken.last, spoken)
        else:
            self._read_shape.forget()

    def _read_value(self, value: object, frame: Frame) -> None:
        if self._transcript.ended:
            return
        if isinstance(value, dict):
            self.has_read = True
            self._body = None
            self._read(value, frame.event)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            self._skip(frame, frame.data)
        else:
            self._skip(frame, "")

    def _read_lines(self, frame: Frame) -> None:
        """Read a frame that is no JSON as a whole: a mark, several frames in one, or garbage."""
        for line in frame.data.split("\n"):
            text = line.strip()
            if text == _DONE and self.skipped and not self.has_read:
                self.fail_truncated()
            elif text == _DONE:
                self.has_read = True
                self._read_done()
            elif text:
                try:
                    value = _json.decode(text)
                except JSONParseError:
                    self._skip(frame, text)
                else:
                    self._read_value(value, frame)

    def _skip(self, frame: Frame, text: str) -> None:
        """Pass over *text*, which cannot be read; fail if it held content."""
        if self._transcript.ended:
            return
        is_of_json = '"' in text or text.endswith("}")
        had_content = is_of_json and frame.event != "ping"
        if frame.unfinished:  # What the end cut off is not damage: the stream was cut.
            self._was_cut |= had_content
            self._transcript.damage()
            return
        self.skipped += 1
        if had_content and not self._has_said_all:
            reason = f"a frame of the stream is damaged: {text[:_SHOWN]}"
            self._transcript.fail(ErrorInfo(reason, "malformed", retryable=True))
        elif had_content or _STRUCTURE.search(text):
            self._transcript.damage()

    # --- ends ---

    def fail_truncated(self) -> None:
        """End the answer as one that was cut, or that never was one."""
        if self.skipped and not self.has_read:
            self._transcript.fail(ErrorInfo("the stream holds no JSON", "malformed"))
        else:
            message = "the stream ended before the answer did"
            self._transcript.fail(ErrorInfo(message, "truncated", retryable=True))

    def _refuse_frame(self) -> None:
        reason = f"a frame holds more than {MAX_VALUES} JSON values"
        self._transcript.fail(ErrorInfo(reason, "malformed"))

    def _refuse(self, reason: str) -> list[Event]:
        self._transcript.fail(ErrorInfo(reason, "malformed"))
        return self._transcript.take()

    # --- a body that is not a stream ---

    def _keep(self, data: bytes, *, found: bool) -> None:
        if self._body is None or found or len(self._body) > MAX_BODY:
            self._body = None
        else:
            self._body += data

    def _read_body(self, body: bytes) -> None:
        text = body.decode("utf-8", "replace").lstrip("\ufeff")
        comment = _COMMENT.match(text, 0, MAX_LOOK)
        text = text[comment.end() if comment else 0 :].strip()
        if _json.may_hold_more(text, MAX_VALUES):
            self._refuse_frame()
            return
        try:
            value = _json.decode(text)
        except JSONParseError:
            value = None
        if isinstance(value, list) and value:
            value = value[0]  # Some proxies put their error into a list.
        found = self._read_whole(value) if isinstance(value, dict) else None
        if isinstance(found, AssistantMessage):
            self._replay(found)
        elif found is not None:
            self._transcript.fail(found)
        elif value:
            self._transcript.fail(self._read_page(message_of(value)))
        elif text and not _is_cut(text):
            self._transcript.fail(self._read_page(text))

    def _read_page(self, text: str) -> ErrorInfo:
        """Read a body that is no JSON of the API's, such as a page of HTML."""
        return ErrorInfo(f"no stream but: {text[:_SHOWN]}", "malformed")

    def _replay(self, message: AssistantMessage) -> None:
        transcript = self._transcript
        for event in events_of(message):
            transcript.emit(event)
        transcript.ended = True


def _is_cut(text: str) -> bool:
    """Return whether *text* is the beginning of a stream, or of JSON, and no more than that."""
    if text.startswith(_FIELDS) or any(field.startswith(text) for field in _FIELDS):
        return True
    if not text.startswith(("{", "[")):
        return False
    reader = IncrementalJSON()
    try:
        reader.feed(text[:MAX_LOOK])
    except JSONParseError:
        return False
    return not reader.complete
