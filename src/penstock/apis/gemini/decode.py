"""Chunks of `streamGenerateContent` to events.

The first candidate alone counts. Its parts are text, reasoning (text that is marked so), calls, and
what only Gemini understands. A call mostly comes whole; one whose arguments stream continues in the
parts that follow, until one of them says no more. There is not a mark of the end but the end: older
servers say ``STOP`` in every chunk, so the last word counts once the bytes are at their end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis import decoder
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import object_text
from penstock.apis.fields import index_of
from penstock.apis.gemini import tables
from penstock.apis.gemini.partial_arguments import PartialArguments
from penstock.apis.gemini.response import read_response, unsealed
from penstock.apis.transcript import ImplicitBlock
from penstock.framing import json_array
from penstock.framing.base import Frame, FrameDecoder
from penstock.messages import AssistantMessage, ErrorInfo

# Frames of a Gemini stream: server-sent events, or one JSON array.
#
# Which of the two depends on whether the client asked for ``alt=sse``; the first byte tells.


_WHITESPACE: Final = b" \t\r\n"


class Frames(FrameDecoder):
    """Bytes in either framing in, frames out."""

    def __init__(self) -> None:
        super().__init__()
        self._framing: FrameDecoder | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Take more bytes; return the frames that they complete."""
        if self._framing is not None:
            return self._framing.feed(data)
        return super().feed(data)

    def finish(self) -> list[Frame]:
        """End the stream; return what it cut off, if anything, as an unfinished frame."""
        return super().finish() if self._framing is None else self._framing.finish()

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        """Choose by the first byte; white space before it means nothing in either framing."""
        data = data.lstrip(_WHITESPACE)
        if data:
            self._framing = json_array.Decoder() if data[:1] == b"[" else decoder.Decoder()
            frames += self._framing.feed(data)

    def _read_end(self, frames: list[Frame]) -> None:
        if self._framing is not None:
            frames += self._framing.finish()


_ON_ANY: Final = frozenset({"thought", "thoughtSignature"})
"""What stands on parts of every kind; on a part of no kind it says nothing, or signs."""


class Decoder(StreamDecoder):
    """Bytes of a Gemini stream in, events out, in either of its framings."""

    def __init__(self, *, ids: Callable[[], str] | None = None) -> None:
        super().__init__(Frames(), ids=ids)
        self._speech = ImplicitBlock(self._transcript)
        self._partial: PartialArguments | None = None  # the call whose arguments stream
        self._metadata: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._finish = ""
        self._reason = ""  # in words, where the provider gives one
        self._is_blocked = False

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # The API names no frames.
        inner = data.get("response")
        if isinstance(inner, dict):  # Code Assist wraps each chunk once more.
            data = inner
        if data.get("error"):
            self._transcript.fail(tables.read_error(data["error"]))
            return
        self._transcript.begin(_text(data, "responseId"), _text(data, "modelVersion"))
        if isinstance(data.get("usageMetadata"), dict):
            self._usage |= data["usageMetadata"]  # Some chunks tell only half of it.
            self._transcript.usage = tables.read_usage(self._usage)
        if isinstance(data.get("promptFeedback"), dict):
            self._read_feedback(data["promptFeedback"])
        candidates = data.get("candidates")
        for candidate in candidates if isinstance(candidates, list) else ():
            if isinstance(candidate, dict) and not index_of(candidate):
                self._read_candidate(candidate)
                break

    def _read_feedback(self, feedback: Mapping[str, Any]) -> None:
        """Read why a prompt got no answer, if it got none."""
        reason = _text(feedback, "blockReason")
        if reason and reason not in tables.UNSPECIFIED:
            self._is_blocked = True
            self._finish, self._reason = reason, _text(feedback, "blockReasonMessage")

    def _read_candidate(self, candidate: Mapping[str, Any]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._read_part(part)
        for key in tables.METADATA:
            if isinstance(candidate.get(key), dict) and candidate[key]:
                _merge(self._metadata.setdefault(key, {}), candidate[key])
        finish = _text(candidate, "finishReason")
        if finish and (finish not in tables.UNSPECIFIED or not self._finish):
            self._finish, self._reason = finish, _text(candidate, "finishMessage")

    def _read_part(self, part: Mapping[str, Any]) -> None:
        if isinstance(part.get("functionCall"), dict):
            self._read_call(part["functionCall"], unsealed(_text(part, "thoughtSignature")))
        elif _is_speech(part):
            self._read_speech(part)
        else:
            self._speech.close()
            self._transcript.part(tables.NAME, without_lone_surrogates(dict(part)))

    # --- text and thinking ---

    def _read_speech(self, part: Mapping[str, Any]) -> None:
        text, is_text = part.get("text"), part.get("thought") is not True
        if is_text:
            self._speech.say(text)
        else:
            self._speech.think(text)
        signature = unsealed(_text(part, "thoughtSignature"))
        if signature:
            self._sign(signature, is_text=is_text)

    def _sign(self, signature: str, *, is_text: bool) -> None:
        """Sign the passage that is open, or an empty one where none of that kind is."""
        transcript = self._transcript
        speaker = transcript.speaker
        if self._speech.is_open and speaker and speaker.is_open and speaker.is_text == is_text:
            speaker.signature = signature
        else:
            self._speech.close()
            (transcript.text() if is_text else transcript.thinking()).close(signature)

    # --- calls ---

    def _read_call(self, data: Mapping[str, Any], signature: str) -> None:
        name, id_ = _text(data, "name"), _text(data, "id")
        entries, goes_on = data.get("partialArgs"), data.get("willContinue") is True
        if self._partial is not None and self._is_another(name, id_):
            self._end_partial()
        partial = self._partial
        if partial is None:
            if not name and not entries and not data.get("args"):
                return  # This ends a call that has ended.
            self._speech.close()
            partial = PartialArguments(self._transcript.call(name, id_))
        call = partial.call
        call.signature = signature or call.signature
        if data.get("args") or not (entries or goes_on or self._partial):
            self._partial = None
            call.close(_arguments(data.get("args")))
            return
        self._partial = partial
        for entry in entries if isinstance(entries, list) else ():
            partial.add(entry)
        if not goes_on:
            self._end_partial()

    def _is_another(self, name: str, id_: str) -> bool:
        """Return a new call from more of the one that streams: what continues has no name again."""
        before = self._partial.call.wanted_id if self._partial else ""
        return id_ != before if id_ and before else bool(name)

    def _end_partial(self) -> None:
        partial, self._partial = self._partial, None
        if partial is not None:
            partial.call.close(partial.finish())

    # --- ends ---

    def _read_end(self) -> None:
        self._speech.close()
        if self._metadata:
            metadata = without_lone_surrogates(self._metadata)
            self._transcript.part(tables.NAME, metadata)
        if self._finish and not self._was_cut:
            self._conclude(self._finish)
        else:
            self.fail_truncated()

    def _conclude(self, finish: str) -> None:
        transcript = self._transcript
        if finish in tables.STOP and not self._is_blocked:
            if self._partial is not None and not self._partial.is_in_string:
                self._end_partial()
            transcript.done("stop", finish)
        elif finish in tables.LENGTH:
            transcript.done("length", finish)
        else:
            transcript.fail(self._failure(finish), finish)

    def _failure(self, finish: str) -> ErrorInfo:
        """Make an error of a word for an end that is not one.

        Its reason may name the word itself.
        """
        message = self._reason
        if finish not in message:
            end = f"the provider ended the answer: {finish}"
            message = f"{end}: {message}" if message else end
        if self._is_blocked or finish in tables.FILTER:
            return ErrorInfo(message, "filter", finish)
        if finish in tables.MALFORMED:
            return ErrorInfo(message, "malformed", finish, retryable=True)
        return ErrorInfo(message, "provider", finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        if data.get("error"):
            return tables.read_error(data["error"])
        is_answer = "candidates" in data or "promptFeedback" in data or "response" in data
        return read_response(data) if is_answer else None


def _is_speech(part: Mapping[str, Any]) -> bool:
    """Return text, whatever stands beside it, from all else; a signature alone is empty text."""
    if isinstance(part.get("text"), str):
        return not part.keys() & tables.KINDS
    return part.keys() <= _ON_ANY


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _arguments(args: object) -> str:
    if isinstance(args, str):
        return args
    if isinstance(args, dict):
        args = without_lone_surrogates(args)
    return object_text(args or {})


def _merge(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add *more* to what is *known*: a list continues, or says all of it again; all else is new."""
    for key, value in more.items():
        listed = known.get(key)
        if not isinstance(value, list):
            known[key] = value
        elif not isinstance(listed, list) or value[: len(listed)] == listed:
            known[key] = [*value]
        else:
            listed += value
