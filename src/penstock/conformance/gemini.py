"""The grammar of a stream of `streamGenerateContent`.

It is independent of the encoder: it reads bytes as Google's own client does, which splits lines as
Python does and reads a line without ``data: `` as the text of an error.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import Any, Final

from penstock.conformance import CheckReport, is_count, is_one_of, is_text, read_objects

# The values of `FinishReason` in Google's API.
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
# Counts that the API omits while they are zero.
_MORE_COUNTS: Final = (
    "candidatesTokenCount",
    "cachedContentTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
)


def check(data: bytes) -> list[str]:
    """List every way in which the stream *data* violates the grammar."""
    return _Checker().check(data)


class _Checker:
    def __init__(self) -> None:
        self.report = CheckReport()
        self.first: dict[str, Any] = {}
        self.ids: set[str] = set()
        self.is_done = False

    def check(self, data: bytes) -> list[str]:
        report = self.report
        # `splitlines` also splits at U+2028, U+2029 and U+0085, as Google's SDK does (`iter_lines`
        # of its HTTP client): inside a string they cut the frame.
        for line in data.decode("utf-8", "replace").splitlines():
            report.require(line == "" or line.startswith("data: "), "a line is not data")
        for frame, value in read_objects(data, report):
            report.require(not self.is_done, "something follows the end")
            # The service sends each frame as one line.
            report.require("\n" not in frame.data, "a frame has several lines")
            if "error" in value:
                # The SDK knows an error by these first bytes only, and raises by its `code`.
                report.require(frame.data.startswith('{"error":'), "`error` is not the first field")
                self.read_error(value["error"])
            else:
                self.read_chunk(value)
        report.require(self.is_done, "there is no finishReason")
        return report.found

    def read_error(self, error: Any) -> None:
        self.is_done = True
        is_good = (
            isinstance(error, dict)
            and isinstance(error.get("message"), str)
            and isinstance(error.get("status"), str)
        )
        self.report.require(is_good, "an error has no message or no status")
        code = error.get("code") if isinstance(error, dict) else None
        is_code = isinstance(code, int) and 400 <= code < 600  # noqa: PLR2004
        self.report.require(is_code, "an error has no code")

    def read_chunk(self, value: dict[str, Any]) -> None:
        report = self.report
        for key in ("modelVersion", "responseId"):
            report.require(isinstance(value.get(key), str), f"a chunk has no {key}")
            same = self.first.setdefault(key, value.get(key)) == value.get(key)
            report.require(same, f"{key} changes")
        candidates = value.get("candidates")
        # A blocked prompt has no candidates.
        if not candidates and "promptFeedback" in value:
            self.read_feedback(value["promptFeedback"])
        elif not isinstance(candidates, list) or len(candidates) != 1:
            report.add("a chunk needs exactly one candidate")
        elif not isinstance(candidates[0], dict) or candidates[0].get("index", 0) != 0:
            report.add("a candidate has no index 0")
        else:
            self.read_candidate(candidates[0])
        self.read_usage(value.get("usageMetadata"))

    def read_feedback(self, feedback: Any) -> None:
        """Read the reason why the prompt was blocked."""
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        self.report.require(is_text(reason), "a blocked prompt has no reason")
        self.is_done = True

    def read_usage(self, usage: Any) -> None:
        if usage is None:
            self.report.require(not self.is_done, "the last chunk has no usage")
            return
        fields = usage if isinstance(usage, dict) else {}
        is_good = all(is_count(fields.get(key)) for key in _COUNTS)
        self.report.require(is_good, "usage has no counts")
        for key in _MORE_COUNTS:
            self.report.require(is_count(fields.get(key, 0)), f"{key} is not a count")

    def read_candidate(self, candidate: dict[str, Any]) -> None:
        report = self.report
        content = candidate.get("content", {})
        parts = content.get("parts", []) if isinstance(content, dict) else None
        if not isinstance(parts, list):
            report.add("content is not an object with parts")
        elif parts:  # A candidate may be empty, without content.
            report.require(content.get("role") == "model", "content of another role")
            for part in parts:
                self.read_part(part)
        finish = candidate.get("finishReason")
        if finish is not None:
            report.require(is_one_of(finish, _FINISH), f"finishReason is {finish!r}")
            self.is_done = True

    def read_part(self, part: Any) -> None:
        report = self.report
        if not isinstance(part, dict):
            report.add("a part is not an object")
            return
        kinds = part.keys() & _KINDS
        is_new = not kinds and bool(part.keys() - _ON_ANY)  # Clients ignore unknown kinds.
        report.require(len(kinds) == 1 or is_new, "a part has not exactly one kind")
        report.require(isinstance(part.get("text", ""), str), "text is not a string")
        report.require(isinstance(part.get("thought", False), bool), "thought is not a boolean")
        # The field is `bytes` in Google's clients: anything else fails the whole chunk.
        report.require(_is_base64(part.get("thoughtSignature", "")), "a signature is not base64")
        if "functionCall" in kinds:
            self.read_call(part["functionCall"])

    def read_call(self, call: Any) -> None:
        report = self.report
        if not isinstance(call, dict):
            report.add("a call is not an object")
            return
        id_, name = call.get("id"), call.get("name")
        report.require(is_text(name), "a call has no name")
        is_object = isinstance(call.get("args", {}), dict)  # Missing arguments are an empty object.
        report.require(is_object, "the arguments of a call are not an object")
        report.require(is_text(id_), "a call has no id")
        report.require(str(id_) not in self.ids, "two calls have one id")
        self.ids.add(str(id_))


def _is_base64(signature: Any) -> bool:
    try:
        urlsafe_b64decode(signature.encode("ascii") if isinstance(signature, str) else b"-")
    except ValueError:
        return False
    return isinstance(signature, str) and not signature.strip(_BASE64)
