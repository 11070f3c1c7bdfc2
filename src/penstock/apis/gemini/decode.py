"""Decode a stream of `streamGenerateContent`.

Only the first candidate is read. Its parts are text, reasoning (text with ``thought``), calls, and
parts that only Gemini understands. Most calls arrive whole; a call whose arguments stream continues
in the next parts, until one has no ``willContinue``. There is no end marker: older servers send
``STOP`` in every chunk, so the last finish reason counts at the end of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.decoder import LenientDecoder, StreamDecoder
from penstock.apis.encoder import encode_arguments
from penstock.apis.fields import has_content, index_at, string_at
from penstock.apis.gemini import tables
from penstock.apis.gemini.partial_arguments import PartialArguments
from penstock.apis.gemini.tables import unseal
from penstock.apis.transcript import ImplicitBlock
from penstock.framing import Frame, FrameDecoder, json_array
from penstock.messages import AssistantMessage, ErrorInfo

_WHITESPACE: Final = b" \t\r\n"


class Frames(FrameDecoder):
    """Bytes in, frames out: server-sent events with ``alt=sse``, otherwise one JSON array."""

    def __init__(self) -> None:
        super().__init__()
        self._framing: FrameDecoder | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Add bytes; return the frames that they complete."""
        if self._framing is not None:
            return self._framing.feed(data)
        return super().feed(data)

    def finish(self) -> list[Frame]:
        """End the stream; return a frame that was cut, marked as unfinished."""
        return super().finish() if self._framing is None else self._framing.finish()

    def _read(self, data: bytes, frames: list[Frame]) -> None:
        """Choose the framing by the first byte that is not white space."""
        data = data.lstrip(_WHITESPACE)
        if data:
            self._framing = json_array.Decoder() if data[:1] == b"[" else LenientDecoder()
            frames += self._framing.feed(data)

    def _read_end(self, frames: list[Frame]) -> None:
        if self._framing is not None:
            frames += self._framing.finish()


# Fields of parts of every kind; a part with only these is empty or a signature.
_ON_ANY: Final = frozenset({"thought", "thoughtSignature"})


class Decoder(StreamDecoder):
    """Bytes of a Gemini stream in, events out, in either of its framings."""

    def __init__(self, *, ids: Callable[[], str] | None = None) -> None:
        # With ``alt=sse`` the service ends frames with CRLF CRLF; without it the body is one JSON
        # array.
        super().__init__(Frames(), ids=ids)
        self._block = ImplicitBlock(self._transcript)
        self._partial: PartialArguments | None = None  # the call whose arguments stream
        self._metadata: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._finish = ""
        self._reason = ""  # in words
        self._is_blocked = False

    def _read(self, data: dict[str, Any], event: str) -> None:
        del event  # The API has no event names.
        inner = data.get("response")
        if isinstance(inner, dict):  # Code Assist wraps each chunk.
            data = inner
        if data.get("error"):
            self._transcript.fail(tables.read_error(data["error"]))
            return
        self._transcript.begin(string_at(data, "responseId"), string_at(data, "modelVersion"))
        # Every chunk has the counts so far.
        if isinstance(data.get("usageMetadata"), dict):
            self._usage |= data["usageMetadata"]  # Some chunks have only a part of it.
            self._transcript.usage = tables.read_usage(self._usage)
        # A prompt that was blocked has no candidates at all.
        if isinstance(data.get("promptFeedback"), dict):
            self._read_feedback(data["promptFeedback"])
        for candidate in self._transcript.read_objects(data, "candidates"):
            # A single candidate has no index or 0. Further ones (`candidateCount`) are not read.
            if not index_at(candidate):
                self._read_candidate(candidate)
                break

    def _read_feedback(self, feedback: Mapping[str, Any]) -> None:
        """Read why a prompt was blocked, if it was."""
        reason = string_at(feedback, "blockReason")
        if reason and reason not in tables.UNSPECIFIED:
            self._is_blocked = True
            self._finish, self._reason = reason, string_at(feedback, "blockReasonMessage")

    def _read_candidate(self, candidate: Mapping[str, Any]) -> None:
        # A candidate may lack `content` or `parts`.
        content = self._transcript.read_object(candidate, "content")
        for part in self._transcript.read_objects(content, "parts"):
            self._read_part(part)
        for key in tables.METADATA:
            if isinstance(candidate.get(key), dict) and candidate[key]:
                _merge(self._metadata.setdefault(key, {}), candidate[key])
        finish = string_at(candidate, "finishReason")
        if finish and (finish not in tables.UNSPECIFIED or not self._finish):
            self._finish, self._reason = finish, string_at(candidate, "finishMessage")

    def _read_part(self, part: Mapping[str, Any]) -> None:
        if isinstance(part.get("functionCall"), dict):
            self._read_call(part["functionCall"], unseal(string_at(part, "thoughtSignature")))
        elif _is_text(part):
            self._read_text(part)
        elif has_content(part.get("functionCall")):
            self._transcript.lose("functionCall", part["functionCall"])
        elif has_content(part.get("text")) and not isinstance(part["text"], str):
            self._transcript.lose("text", part["text"])
        else:
            self._block.close()
            self._transcript.part(tables.NAME, without_lone_surrogates(dict(part)))

    # --- text and thinking ---

    def _read_text(self, part: Mapping[str, Any]) -> None:
        text, is_text = part.get("text"), part.get("thought") is not True
        if is_text:
            self._block.add_text(text)
        else:
            self._block.add_reasoning(text)
        # A signature does not make a part a thought: it belongs to the part that it came with, and
        # may come alone on an empty text part at the end.
        signature = unseal(string_at(part, "thoughtSignature"))
        if signature:
            self._sign(signature, is_text=is_text)

    def _sign(self, signature: str, *, is_text: bool) -> None:
        """Sign the open block, or an empty one if no block of that kind is open."""
        transcript = self._transcript
        last = transcript.last_text
        if self._block.is_open and last and last.is_open and last.is_text == is_text:
            last.signature = signature
        else:
            self._block.close()
            (transcript.text() if is_text else transcript.thinking()).close(signature)

    # --- calls ---

    def _read_call(self, data: Mapping[str, Any], signature: str) -> None:
        name, id_ = string_at(data, "name"), string_at(data, "id")
        # With `streamFunctionCallArguments` the first part has the name and `willContinue`, the
        # next ones only `partialArgs` (a JSON path and a value each), and the last `functionCall`
        # is empty. Without it `args` comes whole.
        entries, continues = data.get("partialArgs"), data.get("willContinue") is True
        if self._partial is not None and self._is_another(name, id_):
            self._end_partial()
        partial = self._partial
        if partial is None:
            if not name and not entries and not has_content(data.get("args")):
                return  # The end of a call that has ended already.
            self._block.close()
            partial = PartialArguments(self._transcript.call(name, id_))
        call = partial.call
        call.signature = signature or call.signature
        if has_content(data.get("args")) or not (entries or continues or self._partial):
            self._partial = None
            call.close(_arguments(data.get("args")))
            return
        self._partial = partial
        for entry in entries if isinstance(entries, list) else [entries] if entries else ():
            partial.add(entry)
        if not continues:
            self._end_partial()

    def _is_another(self, name: str, id_: str) -> bool:
        """Return whether a new call starts; a part that continues one has no name."""
        before = self._partial.call.wanted_id if self._partial else ""
        return id_ != before if id_ and before else bool(name)

    def _end_partial(self) -> None:
        partial, self._partial = self._partial, None
        if partial is not None:
            partial.call.close(partial.finish())

    # --- ends ---

    def _read_end(self) -> None:
        self._block.close()
        if self._metadata:
            metadata = without_lone_surrogates(self._metadata)
            self._transcript.part(tables.NAME, metadata)
        if self._finish and not self._was_cut:
            self._conclude(self._finish)
        else:
            self.fail_truncated()

    def _conclude(self, finish: str) -> None:
        transcript = self._transcript
        # There is no finish reason for calls: ``STOP`` with a call means tool use.
        if finish in tables.STOP and not self._is_blocked:
            if self._partial is not None and not self._partial.is_in_string:
                self._end_partial()
            transcript.done("stop", finish)
        elif finish in tables.LENGTH:
            transcript.done("length", finish)
        else:
            transcript.fail(self._failure(finish), finish)

    def _failure(self, finish: str) -> ErrorInfo:
        """Return the error for a finish reason that is a failure."""
        message = self._reason
        if finish not in message:
            end = f"the provider ended the response: {finish}"
            message = f"{end}: {message}" if message else end
        if self._is_blocked or finish in tables.FILTER:
            return ErrorInfo(message, "filter", finish)
        # The model's output could not be parsed as a call. It is a sample, so another may be valid.
        if finish in tables.MALFORMED:
            return ErrorInfo(message, "malformed", finish, retryable=True)
        return ErrorInfo(message, "provider", finish)

    def _read_whole(self, data: dict[str, Any]) -> AssistantMessage | ErrorInfo | None:
        if data.get("error"):
            return tables.read_error(data["error"])
        is_response = "candidates" in data or "promptFeedback" in data or "response" in data
        return read_response(data) if is_response else None


def _is_text(part: Mapping[str, Any]) -> bool:
    """Return whether *part* is text or reasoning; a signature alone is empty text."""
    if isinstance(part.get("text"), str):
        return not part.keys() & tables.KINDS
    return part.keys() <= _ON_ANY


def _arguments(args: object) -> str:
    if isinstance(args, str):
        return args
    if isinstance(args, dict):
        args = without_lone_surrogates(args)
    return encode_arguments(args if has_content(args) else {})


def _merge(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Merge *more* into *known*: a list continues or is repeated; other values are replaced."""
    for key, value in more.items():
        listed = known.get(key)
        if not isinstance(value, list):
            known[key] = value
        elif not isinstance(listed, list) or value[: len(listed)] == listed:
            known[key] = [*value]
        else:
            listed += value


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole response by the rules of the stream, as one chunk."""
    return Decoder().read_whole(data)
