"""A call that broke, up to its end: then it can be repaired.

What a reader refuses has an end all the same: its end marker, or the next start marker. The text up
to there becomes a call after all, if that may be: the tool is known, the arguments satisfy its
schema, and nothing that went out already is taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.errors import ParseError
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.readers.base import OpenString, Repairable, Verdict
from penstock.parsing.readers.envelope import ENVELOPE
from penstock.parsing.scanner import Scanner, markers
from penstock.values.schema import Schema

MAX_SHOWN: Final = 80
"""How much of the text that was skipped its note shows."""


class RepairReader:
    """Stands for *body*, which broke, until its segment has ended.

    *opener* is the text that opened it; any of *starts* opens the next one.
    """

    def __init__(
        self, body: Repairable, opener: str, starts: tuple[str, ...], *, folds: bool = False
    ) -> None:
        self.error: str | ParseError = body.error
        self.end = body.end
        self.body = body
        self._opener = opener
        self._markers = markers(*filter(None, [body.end]), *starts, fold=folds)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Pass the text up to the end of the segment; then repair it."""
        found = self._markers.find(scanner.text, scanner.at)
        if found is None:
            scanner.at = self._markers.find_held(scanner.text, scanner.at)
            return Verdict.MORE
        scanner.at = found.start()
        inside = scanner.read_since_call().removeprefix(self._opener)
        is_end = found[0].lower() == self.end.lower()
        if is_end:
            scanner.at = found.end()
        rests = None if is_end else scanner
        is_mended = repair(self.body, inside, calls, ended=False, rests=rests)
        return Verdict.DONE if is_mended else Verdict.BROKEN

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: nothing but the end of the answer ends the segment."""
        del calls
        scanner.at = len(scanner.text)
        return Verdict.BROKEN

    def run(self) -> OpenString | None:
        """Return nothing: no string streams."""
        return None


def repair(
    body: Repairable, inside: str, calls: CallSink, *, ended: bool, rests: Scanner | None
) -> bool:
    """Put out the calls that *body* can make of its text *inside*; return whether it could.

    *ended* tells that the model stopped where the body was still valid. The end of the text that
    is not a part of a call is given back to *rests*, where *inside* is the last that was read.
    """
    mended = body.mend(inside, ended=ended)
    if not mended or not keeps_keys(mended, calls.schemas):
        return False
    open_text = body.open_text() if calls.started else None
    if not calls.may_mend(mended[0], open_text):
        return False
    rest = mended[-1].rest
    if rest and rests is not None:
        rests.give_back_end(len(rest))
    elif rest.strip():
        mended[0].repairs.append(f"skipped text before the end: {rest.strip()[:MAX_SHOWN]!r}")
    calls.mend(mended[0], open_text)
    for call in () if calls.was_quoted else mended[1:]:  # All of them have the same text.
        if calls.may_mend(call, None):
            calls.mend(call, None)
    return True


_PLAIN_KEY: Final = re.compile(r"[\w$.\-]+")


def keeps_keys(mended: list[RepairedCall], schemas: Mapping[str, Schema]) -> bool:
    """Return whether the calls have the arguments that their JSON names, and no others.

    A key that a tool declares and that the text writes with its colon is an argument somewhere in
    the calls: else a string swallowed it, or it was dropped. A key that the tool does not declare
    is written as one in the text, and is a plain word: else a repair made it up.
    """
    found = {key for call in mended for key in _keys(call.arguments)}
    for call in mended:
        schema = schemas.get(call.name)
        if not call.written or schema is None:
            continue
        declared = schema.properties
        lost = (key for key in declared if key not in found and key not in ENVELOPE)
        if any(_is_written(key, call.written) for key in lost):
            return False
        unknown = [key for key in call.arguments if key not in declared]
        if not all(_PLAIN_KEY.fullmatch(key) and f'{key}"' in call.written for key in unknown):
            return False
    return True


def _is_written(key: str, text: str) -> bool:
    """Return whether *text* has *key* with a quote on one side at least, and a colon after it."""
    if key not in text:
        return False
    word = re.escape(key)
    return re.search(rf'(?<!\\)"{word}"?\s*+:|(?<!\w){word}"\s*+:', text) is not None


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
