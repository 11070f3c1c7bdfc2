"""Export a stream: as a test vector, which makes a bug report a test, and as a curl command.

Both may be sent to other people, so secrets are redacted once more: those that the gateway knows,
the key that the caller sent, and everything that looks like the key of a well-known provider.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock import _json
from penstock.config.routes import ModelOptions
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.formats import parse
from penstock.gateway.inspector.recording import read_events
from penstock.gateway.replay import message_for, options_for, request_for
from penstock.redaction import HIDDEN, Redactor
from penstock.store import RequestDetail

MAX_VECTOR: Final = 1_000_000
"""How many characters the text of a vector may have."""

MAX_LINE: Final = 100_000
"""Up to how many bytes a body is an argument of the command: Linux allows 128 KiB for one."""

# The keys of well-known providers; an escape sequence before one (JSON) is not part of it.
_KEYS: Final = re.compile(
    r"(?:\b|(?<=\\[bfnrt])|(?i:(?<=\\x[\da-f]{2})|(?<=\\u[\da-f]{4})|(?<=%[\da-f]{2})))"
    r"(?:(?:sk|pk|rk)[-_][\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{12,}"
    r"|AIza[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|hf_\w{20,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"
    r"|(?i:bearer\s+)[\w.~+/-]{16,})"
)

_NOT_PRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


def make_vector(detail: RequestDetail, redactor: Redactor) -> dict[str, Any]:
    """Return the stream of *detail* in the shape of the library's test vectors.

    Its `expect` is what is parsed today, so that the vector passes as it is; the author of a bug
    report writes there what should have been parsed. Raises `UsageError` for a stream without text.
    """
    options, redact = options_for(detail), _redact_with(redactor)
    text = redact(_text_for(detail))
    if not text:
        raise UsageError(
            f"request {detail.row.id} has no text that could be parsed: the upstream sent its "
            "calls natively, or the bodies were not stored"
        )
    tools = _redact_json(msgspec.to_builtins(request_for(detail).tools), redact)
    return {
        "id": f"logged-{detail.row.id}",
        "format": options.format,
        "tools": tools,
        "text": text,
        "expect": _redact_json(_make_expectation(text, options, tools), redact),
        "content_mode": "exact",
        "options": _parser_options(options),
        "why": f"a stream of {redact(detail.row.model) or 'a model'}; edit `expect` to what it "
        "should be",
    }


def _text_for(detail: RequestDetail) -> str:
    """Return the text that was parsed, without native blocks; all text if nothing was parsed."""
    events, _ = read_events(detail)
    text = "".join(event.raw for event in events) or message_for(detail)[0].text
    if len(text) > MAX_VECTOR:
        raise UsageError(
            f"the text has {len(text):,} characters; a vector may have at most {MAX_VECTOR:,}"
        )
    return text


def _parser_options(options: ModelOptions) -> dict[str, Any]:
    """Return the options of `Parser`, without those that have their default."""
    found = options.parser_options()
    defaults = {
        "reasoning": None,
        "prompt_suffix": "",
        "fenced": "text",
        "reasoning_only": "text" if options.repair else "reasoning",
        "stray_reasoning": "split" if options.repair else "text",
    }
    return {
        name: value
        for name, value in found.items()
        if name not in defaults or value != defaults[name]
    }


def _make_expectation(text: str, options: ModelOptions, tools: Any) -> dict[str, Any]:
    try:
        message = parse(text, options.format, tools, **_parser_options(options))
    except PenstockError as exc:
        raise UsageError(f"the text cannot be parsed: {exc}") from exc
    calls = [
        {"name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
        if call.complete
    ]
    return {"content": message.text, "reasoning": message.thinking or None, "calls": calls}


# --- curl ---


def make_curl(detail: RequestDetail, base: str, redactor: Redactor, needs_key: bool) -> str:  # noqa: FBT001 - sent to the worker
    """Return the request of *detail* as a shell command.

    The key is a variable, and no character of the body has a meaning for a terminal. Raises
    `UsageError` if the request is not stored.
    """
    if not detail.request:
        raise UsageError(f"the body of request {detail.row.id} was not stored")
    body = _encode_ascii(detail.request, _redact_with(redactor))
    # `-N` shows a stream as it arrives: curl buffers otherwise.
    head = ["curl -N", shlex.quote(base + detail.row.path), "-H 'content-type: application/json'"]
    if needs_key:
        head.append('-H "authorization: Bearer $PENSTOCK_API_KEY"')
    if len(body) <= MAX_LINE:
        return " ".join([*head, "-d", shlex.quote(body)]) + "\n"
    # `-d` would remove newlines. With the word in quotes the shell expands nothing in the text.
    return " ".join([*head, "--data-binary @- <<'EOF'"]) + f"\n{body}\nEOF\n"


def encode_curl(detail: RequestDetail, base: str, redactor: Redactor, needs_key: bool) -> bytes:  # noqa: FBT001 - sent to the worker
    """Return the command of `make_curl` as bytes, which the worker pool does not encode as JSON."""
    return make_curl(detail, base, redactor, needs_key).encode()


def _encode_ascii(data: bytes, redact: Callable[[str], str]) -> str:
    """Return *data* as JSON on one line in ASCII; data that is not JSON as a JSON string.

    Secrets are redacted in the values: in JSON text a newline before a key is the letter ``n``.
    """
    try:
        value = _json.decode(data)
    except JSONParseError:
        value = data.decode("utf-8", "replace")
    text = _json.encode_wire(_redact_json(value, redact)).decode()
    # Terminals obey control characters that are pasted with a command.
    return _NOT_PRINTABLE.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


# --- secrets ---


def _redact_with(redactor: Redactor) -> Callable[[str], str]:
    return lambda text: _KEYS.sub(HIDDEN, redactor.text(text))


def _redact_json(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON *value* with every secret in it redacted."""
    match value:
        case str():
            return redact(value)
        case list():
            return [_redact_json(one, redact) for one in value]
        case dict():
            return {redact(str(name)): _redact_json(one, redact) for name, one in value.items()}
        case _:
            return value
