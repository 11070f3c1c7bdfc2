"""The grammar of a Gemini stream, checked from the outside.

Knows nothing of the encoder: it reads bytes as the API's own client does, which cuts lines as
Python cuts them and takes whatever does not begin with ``data: `` for the text of an error.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import Any, Final

from penstock.conformance.base import Complaints, is_count, is_text, is_word_of, objects_of

_FINISH: Final = frozenset(
    {
        "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST",
        "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "CONTINUATION", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE",
    }
)  # fmt: skip
_KINDS: Final = frozenset(
    {
        "text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode",
        "codeExecutionResult", "toolCall", "toolResponse", "audioTranscription",
    }
)  # fmt: skip
_ON_ANY: Final = frozenset({"thought", "thoughtSignature"})
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="
_COUNTS: Final = ("promptTokenCount", "totalTokenCount")
_MORE_COUNTS: Final = (
    "candidatesTokenCount",
    "cachedContentTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
)
"""Counts that the API leaves out while they are zero."""


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* breaks the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.complain = Complaints()
        self.first: dict[str, Any] = {}
        self.ids: set[str] = set()
        self.is_done = False

    def check(self, data: bytes) -> list[str]:
        complain = self.complain
        for line in data.decode("utf-8", "replace").splitlines():
            complain.unless(line == "" or line.startswith("data: "), "a line is no data")
        for frame, value in objects_of(data, complain):
            complain.unless(not self.is_done, "something follows the end")
            complain.unless("\n" not in frame.data, "a frame has several lines")
            if "error" in value:
                complain.unless(frame.data.startswith('{"error":'), "an error does not begin so")
                self.read_error(value["error"])
            else:
                self.read_chunk(value)
        complain.unless(self.is_done, "there is no finishReason")
        return complain.found

    def read_error(self, error: Any) -> None:
        self.is_done = True
        is_good = (
            isinstance(error, dict)
            and isinstance(error.get("message"), str)
            and isinstance(error.get("status"), str)
        )
        self.complain.unless(is_good, "an error has no message or no status")
        code = error.get("code") if isinstance(error, dict) else None
        is_code = isinstance(code, int) and 400 <= code < 600  # noqa: PLR2004
        self.complain.unless(is_code, "an error has no code")

    def read_chunk(self, value: dict[str, Any]) -> None:
        complain = self.complain
        for key in ("modelVersion", "responseId"):
            complain.unless(isinstance(value.get(key), str), f"a chunk has no {key}")
            same = self.first.setdefault(key, value.get(key)) == value.get(key)
            complain.unless(same, f"{key} changes")
        candidates = value.get("candidates")
        if not candidates and "promptFeedback" in value:
            self.read_feedback(value["promptFeedback"])
        elif not isinstance(candidates, list) or len(candidates) != 1:
            complain("a chunk has not one candidate")
        elif not isinstance(candidates[0], dict) or candidates[0].get("index", 0) != 0:
            complain("a candidate has no index 0")
        else:
            self.read_candidate(candidates[0])
        self.read_usage(value.get("usageMetadata"))

    def read_feedback(self, feedback: Any) -> None:
        """Read why there is not an answer: the prompt was blocked."""
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        self.complain.unless(is_text(reason), "a prompt is blocked for no reason")
        self.is_done = True

    def read_usage(self, usage: Any) -> None:
        if usage is None:
            self.complain.unless(not self.is_done, "the last chunk has no usage")
            return
        fields = usage if isinstance(usage, dict) else {}
        is_good = all(is_count(fields.get(key)) for key in _COUNTS)
        self.complain.unless(is_good, "usage has no counts")
        for key in _MORE_COUNTS:
            self.complain.unless(is_count(fields.get(key, 0)), f"{key} is no count")

    def read_candidate(self, candidate: dict[str, Any]) -> None:
        complain = self.complain
        content = candidate.get("content", {})
        parts = content.get("parts", []) if isinstance(content, dict) else None
        if not isinstance(parts, list):
            complain("content is no content, or has no parts")
        elif parts:  # A candidate may say nothing, and then it may have no content.
            complain.unless(content.get("role") == "model", "content of another role")
            for part in parts:
                self.read_part(part)
        finish = candidate.get("finishReason")
        if finish is not None:
            complain.unless(is_word_of(finish, _FINISH), f"finishReason is {finish!r}")
            self.is_done = True

    def read_part(self, part: Any) -> None:
        complain = self.complain
        if not isinstance(part, dict):
            complain("a part is no object")
            return
        kinds = part.keys() & _KINDS
        is_new = not kinds and bool(
            part.keys() - _ON_ANY
        )  # Clients pass over what they do not know.
        complain.unless(len(kinds) == 1 or is_new, "a part is not one thing")
        complain.unless(isinstance(part.get("text", ""), str), "text is no text")
        complain.unless(isinstance(part.get("thought", False), bool), "thought is no flag")
        complain.unless(_is_base64(part.get("thoughtSignature", "")), "a signature is no base64")
        if "functionCall" in kinds:
            self.read_call(part["functionCall"])

    def read_call(self, call: Any) -> None:
        complain = self.complain
        if not isinstance(call, dict):
            complain("a call is no object")
            return
        id_, name = call.get("id"), call.get("name")
        complain.unless(is_text(name), "a call has no name")
        is_object = isinstance(call.get("args", {}), dict)  # None are omitted.
        complain.unless(is_object, "the arguments of a call are no object")
        complain.unless(is_text(id_), "a call has no id")
        complain.unless(str(id_) not in self.ids, "two calls have one id")
        self.ids.add(str(id_))


def _is_base64(signature: Any) -> bool:
    try:
        urlsafe_b64decode(signature.encode("ascii") if isinstance(signature, str) else b"-")
    except ValueError:
        return False
    return isinstance(signature, str) and not signature.strip(_BASE64)
