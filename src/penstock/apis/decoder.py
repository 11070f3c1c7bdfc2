"""Decoders: bytes of a provider's stream in, frames, JSON and events out.

An API implements `_read` for one JSON object of its stream and `_read_end` for the end of the
bytes. The rest is the same for all APIs:

* A frame that is not JSON is read line by line, since some servers omit the blank lines between
  frames (see `LenientDecoder`). A line that is not JSON either is skipped and counted (`skipped`).
  If it is a fragment of JSON, content was lost: the response fails at once as ``malformed``, so
  that no text and no call continues after the gap. Noise (``ping``, ``{oops``) is only counted, but
  no call that was open while a bracket was skipped is complete.
* A body that is not a stream (an error as plain JSON, a whole response, an HTML page) is read as
  what it is. A body that stops inside its first frame is a truncated stream.
* A frame above its limit, and bytes without a frame, end in `Failed` of kind ``malformed``.
* Anything after the terminal event is ignored.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.errors import find_message, truncated_error
from penstock.apis.transcript import CallBlock, LostContentError, TextBlock, Transcript
from penstock.builder import message_events
from penstock.errors import JSONParseError, LimitError, UsageError
from penstock.events import Event
from penstock.framing import Frame, FrameDecoder, sse
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.values import IncrementalJSON

# --- the hot path ---
#
# A provider sends each delta of a block in the same JSON except for one string. Once such a frame
# was read in full, its text is located in it and what surrounds the text is kept: a frame that
# differs only in that string has the same meaning for another text, and its JSON need not be
# parsed. Two more fields may differ because they are not used: OpenAI's `sequence_number`, and
# `obfuscation`, the padding by which OpenAI hides the length of a text. In an event stream, the
# bytes of a frame are compared with the template, before they are split into lines.

# Text without characters that a server may escape: other text may be spelled differently.
_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,:;!?()\[\]{}_*#@^~|$%-]+")

# What is before the data of a frame in an event stream.
_FRAME_START: Final = re.compile(r"(?:event: [^\r\n]+\n)?data: ")

_FRAME_END: Final = "\n\n"

_FILLER: Final = re.compile(r'(?<="sequence_number":)[0-9]++|(?<="obfuscation":")[A-Za-z0-9]++')
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*+")
_PADDING: Final = re.compile(r"[A-Za-z0-9]++")


class FrameTemplate:
    """The frame that was read last, without its text, and the block that the text was added to.

    It is kept as the pieces around the gaps: one gap is the text, the others are numbers and
    padding. Most frames have only the text.
    """

    __slots__ = (
        "_block",
        "_ends_in_number",
        "_head",
        "_inner",
        "_place",
        "_rest",
        "_start",
        "_tail",
    )

    def __init__(self) -> None:
        self._block: TextBlock | CallBlock | None = None
        self._head = ""
        self._inner: list[str] = []  # pieces between two gaps
        self._tail = ""
        self._start = self._rest = 0  # the lengths of both
        self._place = 0  # which gap is the text
        self._ends_in_number = False  # whether there are two gaps: the text, then a number

    def learn(self, data: str, text: str, block: TextBlock | CallBlock) -> None:
        """Remember *data*, a frame that added *text* to *block* and did nothing else.

        If *text* cannot be located with certainty, nothing is remembered.
        """
        quoted = f'"{text}"'
        at = data.find(quoted) + 1
        if not at or not _PLAIN.fullmatch(text) or data.find(quoted, at) >= 0:
            self._block = None
            return
        self._block = block
        before, after = _FILLER.split(data[:at]), _FILLER.split(data[at + len(text) :])
        self._place = len(before) - 1
        self._head, *self._inner, self._tail = before + after
        self._start, self._rest = len(self._head), len(self._tail)
        is_single = len(self._inner) == 1 and self._place == 0
        self._ends_in_number = is_single and not self._inner[0].endswith('"')

    def forget(self) -> None:
        """Match nothing until `learn` is called again."""
        self._block = None

    def learn_sent(self, frame: FrameTemplate, data: str, sent: str) -> None:
        """Remember *sent*, all that was sent of a frame with *data*, which matches *frame*."""
        start, _, end = sent.rpartition(data)
        if end != _FRAME_END or not _FRAME_START.fullmatch(start):
            self._block = None
            return
        self._block = frame._block
        self._head, self._inner, self._tail = start + frame._head, frame._inner, frame._tail + end
        self._start, self._rest = len(self._head), len(self._tail)
        self._place, self._ends_in_number = frame._place, frame._ends_in_number

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        return self._block is None

    @property
    def size_of_two(self) -> int:
        """The characters of two frames without text."""
        return 2 * (self._start + self._rest)

    def match(self, data: str) -> tuple[TextBlock | CallBlock | None, str]:
        """Return the block and the text of *data*, if it matches this template."""
        block = self._block
        if (
            block is None
            or not block.is_open
            or not data.startswith(self._head)
            or not data.endswith(self._tail)
        ):
            return None, ""
        text = data[self._start : len(data) - self._rest]
        if self._ends_in_number:
            text, piece, number = text.partition(self._inner[0])
            # Digits of other scripts are not ASCII, and JSON has no number with a leading zero.
            if not (piece and number.isascii() and number.isdigit()) or (
                number[0] == "0" and number != "0"
            ):
                return None, ""
        elif self._inner:
            text = self._text_in(text)
        if '"' in text or "\\" in text or not text.isprintable():
            text = _unescape(text)
        return (block, text) if text else (None, "")

    def match_all(self, data: str) -> tuple[TextBlock | CallBlock | None, list[str]]:
        """Return the block and the texts of the frames at the start of *data* that match.

        A template with several gaps matches single frames only.
        """
        block, start, end = self._block, self._start, data.rfind(self._tail)
        if (
            block is None
            or not block.is_open
            or self._inner
            or end < start
            or not data.startswith(self._head)
        ):
            return None, []
        texts = data[start:end].split(self._tail + self._head)
        whole = "".join(texts)
        if '"' in whole or "\\" in whole or not whole.isprintable():
            texts = [_unescape(text) for text in texts]
        return (block, texts) if all(texts) else (None, [])

    def _text_in(self, gaps: str) -> str:
        """Return the text from *gaps* and the pieces between them, if the other gaps are valid."""
        text = ""
        before = self._head
        for place, piece in enumerate([*self._inner, ""]):
            gap, is_there, gaps = gaps.partition(piece) if piece else (gaps, True, "")
            if place == self._place:
                text = gap
            elif not is_there or not _is_filler(gap, before):
                return ""
            before = piece
        return text


def _is_filler(gap: str, before: str) -> bool:
    """Return whether *gap* is a number or, in quotes, padding."""
    pattern = _PADDING if before.endswith('"') else _NUMBER
    return pattern.fullmatch(gap) is not None


def _unescape(text: str) -> str:
    """Parse *text* as the inside of a JSON string; return ``""`` if it is not one."""
    try:
        value = _json.decode(f'"{text}"')
    except JSONParseError:
        return ""
    return value if isinstance(value, str) else ""


# --- event streams without blank lines ---
#
# By the rules of SSE a stream without blank lines is one frame, which ends with the stream. So if a
# line of data that is a whole JSON object is followed by another line of a frame, the missing blank
# line is assumed, and the response is emitted while it arrives.
#
# A standard decoder ignores a line with an unknown field. In a stream that has begun, such a line
# may be the rest of a damaged frame (``ta: {"choices"…``, or the rest of a line that a server broke
# in two). It is delivered as data, so that the decoder of the API notices the loss.

_FRAME_FIELDS: Final = (b"data:", b"event:", b"id:")
_NAME: Final = re.compile(rb"[a-z][a-z0-9_-]*")
# What remains of the name ``data`` if characters of it were lost.
_REST_OF_DATA: Final = frozenset(
    {b"data", b"dat", b"daa", b"dta", b"ata", b"da", b"dt", b"aa", b"at", b"ta", b"d", b"a", b"t"}
)


class LenientDecoder(sse.Decoder):
    """Bytes of an event stream in, frames out, with or without blank lines between them."""

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
        """Return whether data is followed by anything but a blank line; few streams do that."""
        has_data = bool(self._data)
        for line in lines:
            if has_data and line:
                return True
            has_data = line.startswith(b"data:")
        return False


def _is_lost_data(line: bytes) -> bool:
    """Return whether *line* may be the rest of a line of data: it contains a piece of JSON."""
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
"""How many bytes of a body without frames are kept, to report what it was."""

MAX_SILENT: Final = 64 * 1024 * 1024
"""How many bytes in a row may cause no event: several frames of the largest size."""

MAX_SILENT_FRAMES: Final = 100_000
"""How many frames in a row may cause no event: some servers send one for each hidden token."""

MAX_VALUES: Final = 100_000
"""How many values the JSON of a frame may contain, by its commas and brackets."""

MAX_BLOCKS: Final = 2_000
"""How many blocks a response may have: about ten times what agents receive."""

MAX_MATCHED: Final = 64 * 1024
"""How many bytes of a read are compared with the template: far more than a delta has."""

MAX_LOOK: Final = 65_536
"""How many characters of a body without frames are read to skip comments, and to detect JSON that
was cut."""

_DONE: Final = "[DONE]"
_SHOWN: Final = 200  # characters of a body that are quoted in an error
_FIELDS: Final = ("data:", "event:", "id:", "retry:", ":")
_COMMENT: Final = re.compile(r"(?:\s*:[^\r\n]*[\r\n])+")
_STRUCTURE: Final = re.compile(r"[{}\[\]\\]")


class StreamDecoder(ABC):
    """Bytes of a provider's stream in, events out."""

    def __init__(
        self, frames: FrameDecoder | None = None, *, ids: Callable[[], str] | None = None
    ) -> None:
        self.session: dict[str, str] = {}
        """The ids that the next request of the conversation needs, if the server stores it."""
        self._was_cut = False  # inside a frame, by the end of the bytes
        self._frames = frames or LenientDecoder()
        self._transcript = Transcript(ids)
        self._frame_template = FrameTemplate()
        self._bytes_template = FrameTemplate()
        self._is_sse = isinstance(self._frames, sse.Decoder)
        self._is_aligned = False  # the last read ended with a blank line: no frame is pending
        self._body: bytearray | None = bytearray()  # until the first frame
        self._silent = 0  # bytes since the last event
        self._silent_frames = 0
        self._finished = False

    @property
    def skipped(self) -> int:
        """How many frames, lines of frames, or fields could not be read."""
        return self._transcript.skipped

    def feed(self, data: bytes) -> list[Event]:
        """Add bytes; return the events that they make certain."""
        if self._is_aligned and len(data) <= MAX_MATCHED:
            template, sent = self._bytes_template, str(data, "utf-8", "replace")
            if len(sent) < template.size_of_two:  # nearly all reads
                block, text = template.match(sent)
                if block is not None:
                    block.add(text)
                    return self._transcript.take()
            else:
                block, texts = template.match_all(sent)
                if block is not None:
                    for text in texts:
                        block.add(text)
                    data = data.split(b"\n\n", len(texts))[-1]
                    if not data:
                        return self._transcript.take()
        return self._feed(data)

    def _feed(self, data: bytes) -> list[Event]:
        if self._finished:
            raise UsageError("the decoder is finished: use a new one for each response")
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
        """End the stream; return what was held, and the terminal event unless it was emitted."""
        if self._finished:
            raise UsageError("the decoder is finished: use a new one for each response")
        self._finished = True
        self._is_aligned = False
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
        """Read a whole response as a stream of one frame; return its message."""
        self.has_read = True
        self._read_object(dict(data), "")
        if not self._transcript.ended:
            self._read_end()
        return self._transcript.message

    # --- implemented by each API ---

    has_read = False
    """Whether any frame was valid."""

    @abstractmethod
    def _read(self, data: dict[str, Any], event: str) -> None:
        """Read one JSON object of the stream; *event* is the event name of its frame."""

    @property
    def _is_complete(self) -> bool:
        """Whether all content has arrived, so that a damaged frame after it does no harm."""
        return False

    def _read_done(self) -> None:  # noqa: B027 - most streams have no ``[DONE]``
        """Read ``[DONE]``."""

    def _read_end(self) -> None:
        """Read the end of the bytes before a terminal event: the stream was truncated."""
        self.fail_truncated()

    @abstractmethod
    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        """Read a body that is not a stream: a response, an error, or neither (None)."""

    # --- frames ---

    def _read_frame(self, frame: Frame) -> None:
        data = frame.data
        block, text = self._frame_template.match(data)
        if block is not None:
            block.add(text)
            return
        self._frame_template.forget()  # Another frame may change the meaning of the template.
        if self._transcript.ended:
            return
        if data == _DONE:
            self._read_lines(frame)
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
            reason = f"the response has more than {MAX_BLOCKS} blocks"
            self._transcript.fail(ErrorInfo(reason, "malformed"))
        grown = self._transcript.grown_since(mark)
        if grown is not None:
            self._frame_template.learn(data, grown.last, grown)

    def _learn(self, data: bytes, frames: list[Frame]) -> None:
        """Learn how the last frame of a read was sent, if nothing is pending after it."""
        was_aligned, self._is_aligned = self._is_aligned, self._is_sse and data[-2:] == b"\n\n"
        start = data.rfind(b"\n\n", 0, -2)
        is_known = self._is_aligned and frames and not self._frame_template.is_empty
        if is_known and (start >= 0 or was_aligned):
            sent = str(data[start + 2 if start >= 0 else 0 :], "utf-8", "replace")
            self._bytes_template.learn_sent(self._frame_template, frames[-1].data, sent)
        else:
            self._bytes_template.forget()

    def _read_value(self, value: object, frame: Frame) -> None:
        if self._transcript.ended:
            return
        if isinstance(value, dict):
            self.has_read = True
            self._body = None
            self._read_object(value, frame.event)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            self._skip(frame, frame.data)
        else:
            self._skip(frame, "")

    def _read_object(self, data: dict[str, Any], event: str) -> None:
        try:
            self._read(data, event)
        except LostContentError as exc:
            self._transcript.fail(ErrorInfo(str(exc), "malformed", retryable=True))

    def _read_lines(self, frame: Frame) -> None:
        """Read a frame that is not one JSON value: ``[DONE]``, several values, or garbage."""
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
        """Skip *text*, which cannot be parsed; fail if it may have contained content."""
        if self._transcript.ended:
            return
        looks_like_json = '"' in text or text.endswith("}")
        had_content = looks_like_json and frame.event != "ping"
        if frame.unfinished:  # The end of the bytes cut it: the stream was truncated.
            self._was_cut |= had_content
            self._transcript.damage()
            return
        self._transcript.skipped += 1
        if had_content and not self._is_complete:
            reason = f"a frame of the stream is damaged: {text[:_SHOWN]}"
            self._transcript.fail(ErrorInfo(reason, "malformed", retryable=True))
        elif had_content or _STRUCTURE.search(text):
            self._transcript.damage()

    # --- ends ---

    def fail_truncated(self) -> None:
        """End the response as truncated, or as malformed if there was no JSON at all."""
        if self.skipped and not self.has_read:
            self._transcript.fail(ErrorInfo("the stream contains no JSON", "malformed"))
        else:
            self._transcript.fail(truncated_error())

    def _refuse_frame(self) -> None:
        reason = f"a frame contains more than {MAX_VALUES} JSON values"
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
            value = value[0]  # Some proxies wrap their error in a list.
        found = self._read_whole(value) if isinstance(value, dict) else None
        if isinstance(found, AssistantMessage):
            self._replay(found)
        elif found is not None:
            self._transcript.fail(found)
        elif value:
            self._transcript.fail(self._read_page(find_message(value)))
        elif text and not _is_cut(text):
            self._transcript.fail(self._read_page(text))

    def _read_page(self, text: str) -> ErrorInfo:
        """Read a body that is not JSON of the API, such as an HTML page."""
        return ErrorInfo(f"the body is not a stream: {text[:_SHOWN]}", "malformed")

    def _replay(self, message: AssistantMessage) -> None:
        transcript = self._transcript
        for event in message_events(message):
            transcript.emit(event)
        transcript.ended = True


def _is_cut(text: str) -> bool:
    """Return whether *text* is an incomplete stream or incomplete JSON."""
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
