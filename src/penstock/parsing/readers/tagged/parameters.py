"""Calls with raw values: a section of them, or one that stands alone, up to its own end.

A call that has come to its end stands, whatever becomes of the next one, and so does a section
whose end is missing. After a call without a section the end of one is dropped all the same: models
forget how they began. What is not a call is given back, and later calls are still found.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from penstock.errors import JSONParseError, ParseError
from penstock.events import ToolCallEnd
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.output import Output
from penstock.parsing.readers.base import OpenString, Verdict
from penstock.parsing.readers.json_calls import JSONCallReader
from penstock.parsing.readers.plausible import LAST_TURN_END, TURN_ENDS
from penstock.parsing.readers.tagged.arguments import ParameterReader
from penstock.parsing.readers.tagged.dialect import TagDialect, TagOpening, grammar_of
from penstock.parsing.readers.tagged.tags import MAX_TAG
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.schema import Schema


class ParameterCallReader:
    """Reads what *marker*, which begins a section or a call of *dialect*, leads.

    Without a marker it reads on in a section. With *repairs*, it reads text that was refused.
    """

    def __init__(self, dialect: TagDialect, marker: str, *, repairs: bool = False) -> None:
        self.error: str | ParseError = ""
        self.end = _literal(dialect, dialect.section_end or dialect.call_end)
        self._grammar = grammar_of(dialect)
        self._dialect = dialect
        self._marker = marker
        self._repairs = repairs
        self._lead = marker  # what was read of the first tag
        self._in_section = not marker
        self._calls = 0  # that have come to their end
        self._inside: ParameterReader | None = None  # of the call that is open
        self._json: JSONCallReader | None = None  # that stands for the calls of the section
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        self._schemas = calls.schemas
        verdict = None
        while verdict is None:
            if self._json is not None:
                return self._delegated(self._json, self._json.read(scanner, calls))
            if self._inside is not None:
                verdict = self._read_inside(self._inside, scanner, calls)
            elif self._lead:
                verdict = self._read_first_tag(scanner, calls)
            else:
                verdict = self._read_between(scanner, calls)
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: calls that have come to their end stand."""
        if self._json is not None:
            return self._delegated(self._json, self._json.finish(scanner, calls))
        if self._lead and not self._is_meant:
            return Verdict.NOT_A_CALL
        if self._inside is not None and self._inside.finish(scanner, calls) is Verdict.DONE:
            self._end_call(calls)
        if self._inside is None and self._calls and not self._is_call_begun(scanner):
            return Verdict.DONE
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        reader = self._inside or self._json
        return None if reader is None else reader.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        reader = self._inside or self._json
        return None if reader is None else reader.open_text()

    # --- sections and calls ---

    def _read_first_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the tag that the marker began: that of a section, or of a call."""
        grammar, lead = self._grammar, self._lead
        text = lead + scanner.text[scanner.at : scanner.at + MAX_TAG]
        section = grammar.section.match(text) if grammar.section is not None else None
        opening = grammar.open_call(text) if section is None else None
        tags = filter(None, (grammar.section, grammar.call))
        if section is not None:
            scanner.at += section.end() - len(lead)
            self._in_section = True
            self.end = _literal(self._dialect, self._dialect.section_end, section[0])
        elif opening is not None:
            scanner.at += opening.end - len(lead)
            self._begin_call(opening, calls)
        elif any(tag.is_begun(text) for tag in tags):
            return Verdict.MORE
        else:
            self.error = "no call behind the start marker"
            return Verdict.BROKEN if self._is_meant else Verdict.NOT_A_CALL
        self._lead = ""
        return None

    @property
    def _is_meant(self) -> bool:
        """Whether the marker is a whole tag: half a tag may be prose."""
        return self._marker.endswith(">")

    def _read_between(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take what follows a call, or the beginning of a section."""
        grammar, text = self._grammar, scanner.text
        if grammar.section is None:
            return Verdict.DONE
        at = grammar.skip_gap(text, scanner.at)
        if at is None:
            return self._leave()
        if at == len(text):
            return Verdict.MORE
        for section_end in grammar.section_ends:
            found = section_end.match(text, at)
            if found is not None and self._calls:
                scanner.at = found.end()
                return Verdict.DONE
        return self._take_next(scanner, at, calls)

    def _take_next(self, scanner: Scanner, at: int, calls: CallSink) -> Verdict | None:
        """Take the call at *at*, or what may stand between calls."""
        grammar, text = self._grammar, scanner.text
        opening = grammar.open_call(text, at)
        if opening is not None:
            scanner.at = opening.end
            self._begin_call(opening, calls)
            return None
        for trail in grammar.trail if self._calls else ():
            found = trail.match(text, at)
            if found is not None:
                scanner.at = found.end()
                return None
        if self._dialect.json == "in sections" and not self._calls and text[at] in "{[":
            self._json = JSONCallReader(self.end)
            return None
        tags = (grammar.call, *((*grammar.section_ends, *grammar.trail) if self._calls else ()))
        if any(tag.is_begun(text, at) for tag in tags):
            return Verdict.MORE
        return self._leave()

    def _leave(self) -> Verdict:
        """Go where neither a call nor the end of the section stands."""
        if self._calls:
            return Verdict.UNTERMINATED if self._in_section else Verdict.DONE
        self.error = "a section without a call"
        return Verdict.BROKEN

    def _begin_call(self, opening: TagOpening, calls: CallSink) -> None:
        calls.name = opening.name
        if opening.is_whole:
            calls.open(opening.name)
            self._end_call(calls)
        else:
            schema = calls.schemas.get(opening.name)
            self._inside = ParameterReader(
                self._grammar, opening.name, schema, repairs=self._repairs
            )

    def _read_inside(
        self, inside: ParameterReader, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = inside.read(scanner, calls)
        self.error = inside.error
        if verdict is not Verdict.DONE:
            return verdict
        self._end_call(calls)
        return None

    def _end_call(self, calls: CallSink) -> None:
        calls.close()
        self._inside = None
        self._calls += 1

    def _is_call_begun(self, scanner: Scanner) -> bool:
        """Return whether the text ends inside the tag of another call; pass half an end."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None or at == len(text):
            return False
        if any(tag.is_begun(text, at) for tag in (*grammar.section_ends, *grammar.trail)):
            scanner.at = len(text)
            return False
        return grammar.call.is_begun(text, at)

    def _delegated(self, reader: JSONCallReader, verdict: Verdict) -> Verdict:
        self.error = reader.error
        return verdict

    # --- repairing ---

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of *text*: close what was left open, or repair its JSON."""
        if self._json is not None:
            return self._json.mend(text, ended=ended)
        inside = self._inside
        if inside is None or inside.is_unclear:
            return []
        marker = "" if self._calls else self._marker
        if inside.is_json:
            return self._mend_json(marker, _without_turn_end(text))
        return ParameterCallReader(self._dialect, marker, repairs=True).read_again(
            text, self._schemas
        )

    def read_again(self, text: str, schemas: Mapping[str, Schema]) -> list[RepairedCall]:
        """Read the one call of *text*, which was refused, with what is clear added to it."""
        scanner = Scanner()
        output = Output(scanner)
        calls = CallSink(output, schemas, lambda: "", lambda _: None, live=False)
        scanner.push(text)
        verdict = self.read(scanner, calls)
        inside, notes = self._inside, []
        if verdict is Verdict.MORE and inside is not None:
            if not inside.close_early(scanner, calls):
                return []
            self._end_call(calls)
            notes = ["closed the call"]
        elif verdict in (Verdict.BROKEN, Verdict.NOT_A_CALL):
            return []
        found = [event.call for event in output.take() if isinstance(event, ToolCallEnd)]
        if len(found) != 1:
            return []
        call, rest = found[0], scanner.unread
        return [RepairedCall(call.name, call.arguments, [*call.repairs, *notes], rest=rest)]

    def _mend_json(self, marker: str, text: str) -> list[RepairedCall]:
        """Repair the object that stands for the parameters."""
        grammar = self._grammar
        inside, call_end, _ = text.rpartition(_literal(self._dialect, self._dialect.call_end))
        whole = marker + (inside if call_end else text)
        section = grammar.section.match(whole) if grammar.section is not None else None
        at = grammar.skip_gap(whole, section.end() if section else 0)
        opening = grammar.open_call(whole, at or 0)
        if opening is None:
            return []
        with suppress(JSONParseError):
            arguments, repairs = rjson.repair(whole[opening.end :])
            if isinstance(arguments, dict):
                return [RepairedCall(opening.name, arguments, [*repairs, "closed the call"])]
        return []


def _literal(dialect: TagDialect, template: str, like: str = "") -> str:
    """Write a closing tag; with the suffix that the opening tag *like* has."""
    return dialect.spelling.prefix + template.removesuffix(">") + _suffix(dialect, like) + ">"


def _suffix(dialect: TagDialect, like: str) -> str:
    """Return the suffix that the opening tag *like* has, where tags have one."""
    if not dialect.spelling.suffixed or ":" not in like:
        return ""
    return like[like.index(":") :].removesuffix(">").rstrip()


def _without_turn_end(text: str) -> str:
    """Return *text* without the token that ends the turn, if it ends with one."""
    bare = text.rstrip()
    for token in (*TURN_ENDS, LAST_TURN_END):
        if bare.endswith(token):
            return bare.removesuffix(token)
    return text
