"""A stream to take away: as a test vector, so that a bug report is a test, and as a command.

Both leave the house, so both are looked through for secrets once more: for those that the gateway
knows and the key that the caller came with, and for whatever is written as keys are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock import _json
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.formats import parse
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.inspector.recorded import events_of
from penstock.gateway.redaction import LogRedactor
from penstock.gateway.replaying import logged_message, options_of, request_of
from penstock.models.http.redaction import HIDDEN
from penstock.store import RequestDetail

MAX_VECTOR: Final = 1_000_000
"""How many characters the text of a vector has at most: a test of more shows nobody anything."""

MAX_LINE: Final = 100_000
"""Up to how many bytes a body is an argument of a command; systems take a little more."""

_KEYS: Final = re.compile(
    r"(?:\b|(?<=\\[bfnrt])|(?i:(?<=\\x[\da-f]{2})|(?<=\\u[\da-f]{4})|(?<=%[\da-f]{2})))"
    r"(?:(?:sk|pk|rk)[-_][\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{12,}"
    r"|AIza[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|hf_\w{20,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"
    r"|(?i:bearer\s+)[\w.~+/-]{16,})"
)
"""How the keys of well-known providers look; an escape before one, as in JSON, is no part of it."""

_UNPLAIN: Final = re.compile(r"[^\x20-\x7e]")


def vector_of(detail: RequestDetail, secrets: LogRedactor) -> dict[str, Any]:
    """Give the stream of *detail* in the shape of the library's vectors.

    What it expects is what is read today, so that it passes as it is: who reports a bug writes down
    what should have been read. Raises `UsageError` for a stream without text.
    """
    options, hide = options_of(detail), _hider(secrets)
    text = hide(_text_of(detail))
    if not text:
        raise UsageError(
            f"request {detail.row.id} has no text that could be read: the upstream sent its calls "
            "as calls, or nothing is stored"
        )
    tools = _hidden(msgspec.to_builtins(request_of(detail).tools), hide)
    return {
        "id": f"logged-{detail.row.id}",
        "format": options.format,
        "tools": tools,
        "text": text,
        "expect": _hidden(_expected(text, options, tools), hide),
        "content_mode": "exact",
        "options": _options(options),
        "why": f"a stream of {hide(detail.row.model) or 'a model'}; edit `expect` to what it "
        "should be",
    }


def _text_of(detail: RequestDetail) -> str:
    """Give the text that was read, without what came natively; all of it where nobody read it."""
    events, _ = events_of(detail)
    text = "".join(event.raw for event in events) or logged_message(detail)[0].text
    if len(text) > MAX_VECTOR:
        raise UsageError(f"a vector has at most {MAX_VECTOR:,} characters, not {len(text):,}")
    return text


def _options(options: ModelOptions) -> dict[str, Any]:
    kept = {name: getattr(options, name) for name in ("arguments", "repair", "trim")}
    for name in ("reasoning", "prompt_suffix"):
        if value := getattr(options, name):
            kept[name] = value
    if options.fenced != "text":
        kept["fenced"] = options.fenced
    return kept


def _expected(text: str, options: ModelOptions, tools: Any) -> dict[str, Any]:
    try:
        message = parse(text, options.format, tools, **_options(options))
    except PenstockError as exc:
        raise UsageError(f"the text cannot be read today: {exc}") from exc
    calls = [
        {"name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
        if call.complete
    ]
    return {"content": message.text, "reasoning": message.thinking or None, "calls": calls}


# --- a command ---


def curl_of(detail: RequestDetail, base: str, secrets: LogRedactor, *, needs_key: bool) -> str:
    """Write the request of *detail* as a command for a shell.

    The key is a variable, and no character of the body can mean anything to a terminal. Raises
    `UsageError` where the request is not stored.
    """
    if not detail.request:
        raise UsageError(f"the body of request {detail.row.id} was not kept")
    body = _plain_json(detail.request, _hider(secrets))
    head = ["curl -N", shlex.quote(base + detail.row.path), "-H 'content-type: application/json'"]
    if needs_key:
        head.append('-H "authorization: Bearer $PENSTOCK_API_KEY"')
    if len(body) <= MAX_LINE:
        return " ".join([*head, "-d", shlex.quote(body)]) + "\n"
    return " ".join([*head, "--data-binary @- <<'EOF'"]) + f"\n{body}\nEOF\n"


def _plain_json(data: bytes, hide: Callable[[str], str]) -> str:
    """Give *data* as JSON on one line, all of it ASCII; what is no JSON as a JSON string.

    Secrets are hidden in the values: in JSON, a newline before a key is a letter.
    """
    try:
        value = _json.decode(data)
    except JSONParseError:
        value = data.decode("utf-8", "replace")
    text = _json.encode_wire(_hidden(value, hide)).decode()
    return _UNPLAIN.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


# --- secrets ---


def _hider(secrets: LogRedactor) -> Callable[[str], str]:
    return lambda text: _KEYS.sub(HIDDEN, secrets.text(text))


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    """Give a JSON *value* with every secret in it hidden."""
    match value:
        case str():
            return hide(value)
        case list():
            return [_hidden(one, hide) for one in value]
        case dict():
            return {hide(str(name)): _hidden(one, hide) for name, one in value.items()}
        case _:
            return value
