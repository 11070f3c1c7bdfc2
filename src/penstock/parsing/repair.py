"""The repair of a broken call, once all of its text has arrived.

A call that a reader refuses still has an end: its end marker, or the next start marker. The text up
to there becomes a call if the tool is known, the arguments satisfy its schema, and
nothing that was emitted already is taken back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from penstock.errors import shorten
from penstock.parsing.body import MAX_NOTE, BodyReader, Verdict
from penstock.parsing.call_shape import ANY_CALL, CALL_KEYS
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.scanner import Scanner, markers
from penstock.values.control_tokens import has_control_token, without_turn_end
from penstock.values.rjson.notes import Repair, closes_text
from penstock.values.schema import Schema


class RepairReader(BodyReader):
    """Reads the rest of the segment of *body*, which broke, and repairs it.

    *opener* is the text that opened it; any of *starts* opens the next one.
    """

    def __init__(
        self, body: BodyReader, opener: str, starts: tuple[str, ...], *, folds: bool = False
    ) -> None:
        self.error = body.error
        self.end = body.end
        self.body = body
        self._opener = opener
        self._markers = markers(*filter(None, [body.end]), *starts, fold=folds)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Skip the text up to the end of the segment, then repair it."""
        found = self._markers.find(scanner.text, scanner.at)
        if found is None:
            scanner.advance_to(self._markers.find_held(scanner.text, scanner.at))
            return Verdict.MORE
        scanner.advance_to(found.start())
        is_end = found[0].lower() == self.end.lower()
        is_next = is_end or self.body.begins_next(scanner.text, scanner.at)
        if is_next is None:
            return Verdict.MORE
        if not is_next:
            return Verdict.BROKEN
        inside = scanner.read_since_call().removeprefix(self._opener)
        if is_end:
            scanner.advance_to(found.end())
        repaired = self.body.repair(inside, ended=False)
        if closes_strings(repaired):
            return Verdict.BROKEN  # The marker may be inside the string.
        if not is_end and _is_abandoned(inside, repaired):
            return Verdict.BROKEN
        rewound = None if is_end else scanner
        is_repaired = emit_repaired(self.body, repaired, calls, scanner=rewound)
        return Verdict.DONE if is_repaired else Verdict.BROKEN

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: only the end of the response ends the segment."""
        del calls
        scanner.skip_all()
        return Verdict.BROKEN


def repair_calls(
    body: BodyReader, inside: str, calls: CallSink, *, ended: bool, scanner: Scanner
) -> bool:
    """Emit the calls that *body* can make of its text *inside*; return whether it could.

    With *ended*, the model stopped where the body was still valid. Text after the last call
    becomes unread in *scanner*, which has just read *inside*.
    """
    repaired = body.repair(inside, ended=ended)
    if repaired and has_control_token(last_text(repaired[-1].arguments) or ""):
        return False  # The token ended the turn; it is not clear what it followed.
    return emit_repaired(body, repaired, calls, scanner=scanner)


def emit_repaired(
    body: BodyReader, repaired: list[RepairedCall], calls: CallSink, *, scanner: Scanner | None
) -> bool:
    """Emit *repaired*, the calls that *body* made of its text; return whether that is possible.

    Text after the last call becomes unread in *scanner*; with None it is skipped and noted.
    """
    if not repaired or not keeps_keys(repaired, calls.schemas):
        return False
    rest = repaired[-1].rest
    if scanner is not None:  # A held call claims what was read once it is known not to be quoted.
        scanner.rewind(len(rest))
    open_text = body.open_text() if calls.started else None
    if not calls.can_repair(repaired[0], open_text):
        if scanner is not None:
            scanner.skip(len(rest))
        return False
    if scanner is None and rest.strip():
        repaired[0].repairs.append(
            f"skipped text before the end: {shorten(rest.strip(), MAX_NOTE)!r}"
        )
    calls.repair(repaired[0], open_text)
    for call in () if calls.was_quoted else repaired[1:]:  # They share the quoted text.
        if calls.can_repair(call, None):
            calls.repair(call, None)
    return True


def _is_abandoned(text: str, repaired: list[RepairedCall]) -> bool:
    """Return whether the call in *text* may be one that the model left to begin another one.

    No bracket of it is closed at its end, so nothing shows that its last value, or its last
    argument, is complete.
    """
    if without_turn_end(text).rstrip()[-1:] in ("}", "]", ")"):
        return False
    return any(closes_text(call.repairs) or call.repairs == _CLOSED for call in repaired)


_CLOSED: Final = ["closed an open call"]
"""The note about a call whose brackets are not those of JSON and were open."""


def closes_strings(repaired: list[RepairedCall]) -> bool:
    """Return whether a repair closed a string that was open at the end of the text."""
    said = Repair.UNCLOSED_STRING.value[0]
    return any(said in call.repairs for call in repaired)


def last_text(value: object) -> str | None:
    """Return the string that ends *value*, if one does."""
    while isinstance(value, dict | list) and value:
        value = list(value.values())[-1] if isinstance(value, dict) else value[-1]
    return value if isinstance(value, str) else None


_PLAIN_KEY: Final = re.compile(r"[\w$.\-]+")


def keeps_keys(repaired: list[RepairedCall], schemas: Mapping[str, Schema]) -> bool:
    """Return whether the calls have the arguments that their JSON names, and no others.

    A key that a tool declares and that the text writes with its colon is an argument somewhere in
    the calls; otherwise a string contains it, or it was dropped. A key that the tool does not
    declare is a plain word that the text has as a key; otherwise the repair invented it.
    """
    found = {key for call in repaired for key in _keys(call.arguments)}
    for call in repaired:
        schema = schemas.get(call.name)
        if schema is None:
            continue
        if not _are_nested_right(call.arguments, schema):
            return False
        if not call.written:
            continue
        declared = schema.properties
        lost = (key for key in declared if key not in found and key not in CALL_KEYS)
        if any(_is_written(key, call.written) for key in lost):
            return False
        if _holds_envelope(call, declared, schemas):
            return False
        unknown = [key for key in call.arguments if key not in declared]
        if not all(_PLAIN_KEY.fullmatch(key) and f'{key}"' in call.written for key in unknown):
            return False
    return True


def _holds_envelope(call: RepairedCall, declared: Collection[str], tools: Collection[str]) -> bool:
    """Return whether an argument of *call* holds another call, or the beginning of one.

    A model that stops inside a call and writes it again leaves a string open, and the quotes of the
    second call are read as those of the first one. Its keys are in a string then, with quotes
    that are not escaped, or among the arguments, or the call is an item of the first one.
    """
    if any(key in CALL_KEYS and key not in declared for key in call.arguments):
        return True
    for value in _values(call.arguments):
        if isinstance(value, dict):
            names = (value.get(key) for key in ANY_CALL.names)
            if any(isinstance(name, str) and name in tools for name in names):
                return True
            if any(map(_NO_KEY.search, value)):
                return True
        elif isinstance(value, str):
            for found in _MEMBER.finditer(value):
                is_known = found[1] in CALL_KEYS or found[1] in declared or found[1] in tools
                if is_known and found[0] in call.written:
                    return True
    return False


_NO_KEY: Final = re.compile(r'[{}"\n]')
_MEMBER: Final = re.compile(r"""[{,]\s*+["']([\w.\-]{1,64}+)["']\s*+:""")


def _are_nested_right(arguments: dict[str, Any], schema: Schema) -> bool:
    """Return whether no argument is inside another one, or the other way round.

    If a bracket is missing or doubled, a repair may close an object too late or too early. Then a
    key of the tool is in the object of an argument, or a key of that object among the arguments.
    """
    for key, value in arguments.items():
        inner = schema.property(key)
        if not isinstance(value, dict) or inner is None or not inner.properties:
            continue
        if any(name in schema.properties and name not in inner.properties for name in value):
            return False
        if any(name in inner.properties and name not in schema.properties for name in arguments):
            return False
    return True


def _is_written(key: str, text: str) -> bool:
    """Return whether *text* has *key* as the key of a member, with a quote on one side at least."""
    if key not in text:
        return False
    word = re.escape(key)
    # With a colon after it; or after a comma, in quotes: then the colon may be missing.
    pattern = rf'(?<!\\)"{word}"?\s*+:|(?<!\w){word}"\s*+:|,\s*+"{word}"\s'
    return re.search(pattern, text) is not None


def _values(value: Any) -> Iterator[Any]:
    """Yield all values inside *value*."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield inner
            yield from _values(inner)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
