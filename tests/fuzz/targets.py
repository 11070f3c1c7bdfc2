"""One target per reader: any text in, and only what the reader promises out.

A target returns when the reader kept its promises and raises otherwise. `test_targets` tries them
with hypothesis on every run; ``make fuzz`` gives them to a coverage-guided fuzzer.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from laws import check_readings, one_by_one
from penstock import MessageBuilder, Parser, ToolCall, _json
from penstock.errors import JSONParseError, ParseError
from penstock.events import ToolCallDelta, ToolCallStart
from penstock.formats.registry import BUILT_IN
from penstock.framing import json_array, ndjson, sse
from penstock.tools import Tool
from penstock.values import IncrementalJSON, coerce, rjson, rxml

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"type": "array", "items": {"type": "string"}},
        "d": {"type": "object", "properties": {"e": {"type": "string"}}},
        "f": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
}


_TOOLS = [Tool("f", parameters=_SCHEMA), Tool("write_file"), Tool("run_bash")]


def seam(text: str) -> None:
    """The seam accepts what the standard library accepts, and gives the same value."""
    assert _value_or_broken(_json.decode, text) == _value_or_broken(json.loads, text)


def relaxed(text: str) -> None:
    """`rjson.loads` gives a value that can be written, or a typed error inside the text."""
    try:
        value = rjson.loads(text, duplicates="last")
    except JSONParseError as exc:
        if not 0 <= exc.position <= len(text):
            raise AssertionError("the error points outside the text") from exc
        return
    rewritten = rjson.loads(rjson.dumps(value)) if _is_finite(value) else value
    assert repr(rewritten) == repr(value)


def mended(text: str) -> None:
    """`rjson.repair` gives a value or a typed error, and leaves strict JSON as it is."""
    try:
        repaired = rjson.repair(text)
    except JSONParseError:
        return
    with contextlib.suppress(JSONParseError):
        expected = _json.decode(text)
        # A string may hold JSON that is decoded; NaN is a float to the seam and a word to `rjson`.
        if not isinstance(expected, (str, float)):
            assert repr(repaired.value) == repr(expected)


def strict_increments(text: str) -> None:
    """Fed one by one, the strict reader takes exactly what it takes whole."""
    assert _read(IncrementalJSON(), [text]) == _read(IncrementalJSON(), one_by_one(text))


def lenient_increments(text: str) -> None:
    """The lenient reader, fed one by one, reads what `rjson.loads` reads."""
    expected = _value_or_broken(lambda text: rjson.loads(text, duplicates="last"), text)
    assert _read(IncrementalJSON(lenient=True), one_by_one(text)) == expected


def recovering_increments(text: str) -> None:
    """The recovering reader never raises, at any cut, and the cut makes no difference."""
    assert _read(IncrementalJSON(recover=True), [text]) == _read(
        IncrementalJSON(recover=True), one_by_one(text)
    )


def markup(text: str) -> None:
    """`rxml.loads` gives an object or a typed error."""
    for schema in (None, _SCHEMA):
        with contextlib.suppress(ParseError):
            assert isinstance(rxml.loads(text, schema), dict)


def coerced(text: str) -> None:
    """`coerce` never raises, and twice is once."""
    for schema in (None, *_SCHEMA["properties"].values(), _SCHEMA):
        once = coerce(text, schema)
        assert repr(coerce(once, schema)) == repr(once)


def schemas(text: str) -> None:
    """Any value is taken for a schema: coercion by it never raises, and twice is once."""
    with contextlib.suppress(JSONParseError):
        schema = rjson.repair(text).value
        for value in ("1", {"a": "1", "b": ["x"]}):
            once = coerce(value, schema)
            assert repr(coerce(once, schema)) == repr(once)


def arguments(text: str) -> None:
    """Argument text never raises, live or at its end."""
    ToolCall.from_text("c", "f", text)
    builder = MessageBuilder()
    builder.add(ToolCallStart(0, "c", "f"))
    for piece in one_by_one(text):
        builder.add(ToolCallDelta(0, piece))
    assert isinstance(builder.message.tool_calls[0].arguments, dict)


def framing(text: str) -> None:
    """All three framings give the same frames whole and byte by byte."""
    data = text.encode("utf-8", "surrogatepass")
    for make in (sse.Decoder, ndjson.Decoder, json_array.Decoder):
        whole, pieces = make(), make()
        expected = whole.feed(data) + whole.finish()
        seen = [frame for byte in one_by_one(data) for frame in pieces.feed(byte)]
        assert seen + pieces.finish() == expected


def parsed(text: str) -> None:
    """A format reads any text, loses nothing of it, and makes the same of it at any cut."""
    for fmt in BUILT_IN[len(text) % 5 :: 5]:  # The text chooses: all of them take too long.
        for mode in ("whole", "live"):
            repair, trim = len(text) % 2 == 0, len(text) % 3 == 0
            make = partial(Parser, fmt, _TOOLS, arguments=mode, repair=repair, trim=trim)
            check_readings(make, text, [one_by_one(text)])


TARGETS: dict[str, Callable[[str], None]] = {
    target.__name__: target
    for target in (
        seam,
        relaxed,
        mended,
        strict_increments,
        lenient_increments,
        recovering_increments,
        markup,
        coerced,
        schemas,
        arguments,
        framing,
        parsed,
    )
}


def _value_or_broken(loads: Callable[[str], object], text: str) -> str:
    try:
        return repr(loads(text))
    except (JSONParseError, ValueError, RecursionError):
        return "broken"


def _read(reader: IncrementalJSON, pieces: list[str]) -> str:
    try:
        for piece in pieces:
            reader.feed(piece)
        reader.finish()
    except JSONParseError:
        return "broken"
    return repr(reader.value)


def _is_finite(value: object) -> bool:
    text = _json.encode(value)
    return b"NaN" not in text and b"Infinity" not in text
