"""Calls with raw values: a section of calls, or a single one.

A call that has ended is complete, whatever follows it; so are the calls of a section whose end is
missing. The end of a section is also dropped after a call that began without a section: models
forget how they began. Text that is not a call is given back, and later calls are still found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock.errors import JSONParseError
from penstock.parsing.body import CALL_CUT, BodyReader, StreamingPart, Verdict
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.scanner import Scanner
from penstock.readers.json_calls import JSONCallReader
from penstock.readers.loose_bodies import read_loose
from penstock.readers.tagged import JSONCall, TagDialect, compile_dialect
from penstock.readers.tagged.parameters import ParameterReader
from penstock.readers.tagged.tags import MAX_TAG, FoundTag
from penstock.values import rjson
from penstock.values.control_tokens import without_turn_end
from penstock.values.schema import Schema

_TAG: Final = r"\s*<[^<>=\s\"'/]{1,96}(?: [a-z_]{1,16})?>"
_SECTION: Final = re.compile(rf"\A{_TAG}(?:{_TAG}(?=\s*[{{\[]))?")
"""The marker of a section, as the text of a call begins with it, and that of JSON in it."""


class TaggedCallReader(BodyReader):
    """Reads the section or call of *dialect* that *marker* begins.

    An empty marker continues inside a section. With *repairs* it reads text that was refused.
    """

    is_repairable = True

    def __init__(self, dialect: TagDialect, marker: str, *, repairs: bool = False) -> None:
        self.end = _make_closing_tag(dialect, dialect.section_end or dialect.call_end)
        self._grammar = compile_dialect(dialect)
        self._dialect = dialect
        self._marker = marker
        self._repairs = repairs
        self._lead = marker  # what was read of the first tag
        self._body_start = 0  # where in the response the text after the marker begins
        self._in_section = not marker
        self._calls = 0  # that have ended
        self._inside: ParameterReader | None = None  # of the open call
        self._json: JSONCallReader | None = None  # in the place of the calls of a section
        self._schemas: Mapping[str, Schema] = {}

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        self._schemas = calls.schemas
        verdict = None
        while verdict is None:
            if self._json is not None:
                return self._relay(self._json, self._json.read(scanner, calls))
            if self._inside is not None:
                verdict = self._inside.read(scanner, calls)
                self.error = self._inside.error
                if verdict is Verdict.DONE:
                    self._end_call(calls)
                    verdict = None
            elif self._lead:
                verdict = self._read_first_tag(scanner, calls)
            else:
                verdict = self._read_between(scanner, calls)
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: calls that have ended are complete."""
        if self._json is not None:
            return self._relay(self._json, self._json.finish(scanner, calls))
        if self._lead and not self._is_meant:
            return Verdict.NOT_A_CALL
        if self._inside is not None and self._inside.finish(scanner, calls) is Verdict.DONE:
            self._end_call(calls)
        if self._inside is None and self._calls and not self._is_call_begun(scanner):
            return Verdict.DONE
        scanner.skip_all()
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._inside or self._json

    # --- sections and calls ---

    def _read_first_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the tag that the marker began: of a section, or of a call."""
        grammar, lead = self._grammar, self._lead
        text = lead + scanner.peek(MAX_TAG)
        section = grammar.section.match(text) if grammar.section is not None else None
        self._body_start = scanner.position
        opening = grammar.open_call(text) if section is None else None
        tags = filter(None, (grammar.section, grammar.call))
        if section is not None:
            scanner.skip(section.end - len(lead))
            self._in_section = True
            self.end = _make_closing_tag(self._dialect, self._dialect.section_end, section.text)
        elif opening is not None:
            scanner.skip(opening.end - len(lead))
            self._begin_call(opening, calls)
        elif any(tag.could_begin(text) for tag in tags):
            return Verdict.MORE
        elif (json := grammar.find_json_call(text, 0)) is not None:
            if json.bracket == -1:
                return Verdict.MORE
            scanner.skip(json.bracket - len(lead))
            self._begin_json(json, calls)
        else:
            self.error = "no call after the start marker"
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
        for section_end in grammar.section_ends if self._calls else ():
            found = section_end.match(text, at)
            if found is not None:
                scanner.advance_to(found.end)
                return Verdict.DONE
        return self._take_next(scanner, at, calls)

    def _take_next(self, scanner: Scanner, at: int, calls: CallSink) -> Verdict | None:
        """Take the call at *at*, or what may be between calls."""
        grammar, text = self._grammar, scanner.text
        opening = grammar.open_call(text, at)
        if opening is not None and not (
            opening.is_damaged and calls.find_schema(opening.name) is None
        ):
            scanner.advance_to(opening.end)
            self._begin_call(opening, calls)
            return None
        again = grammar.section.match(text, at) if grammar.section and not self._calls else None
        if again is not None:  # MiniMax-M2 in a wrapper of another model
            scanner.advance_to(again.end)
            return None
        for trail in grammar.trail if self._calls else ():
            found = trail.match(text, at)
            if found is not None:
                scanner.advance_to(found.end)
                return None
        json = grammar.find_json_call(text, at)
        if json is not None:
            if json.bracket == -1:
                return Verdict.MORE
            scanner.advance_to(json.bracket)
            self._begin_json(json, calls)
            return None
        if self._dialect.json == "in sections" and not self._calls and text[at] in "{[":
            self._json = JSONCallReader(self.end)
            return None
        return self._judge_other(scanner, at)

    def _judge_other(self, scanner: Scanner, at: int) -> Verdict:
        """Judge text between the calls that is neither a call nor a part of the section."""
        grammar, text = self._grammar, scanner.text
        others = (*grammar.section_ends, *grammar.trail) if self._calls else (grammar.section,)
        tags = filter(None, (grammar.call, *others))
        if any(tag.could_begin(text, at) for tag in tags):
            return Verdict.MORE
        if not self._calls and self._in_section:
            if _OTHER_BEGUN.fullmatch(text, at) and len(text) - at < MAX_TAG:
                return Verdict.MORE
            is_plain = self._marker.startswith(("<\uff5c", "<|"))
            if (_PLAIN_CALL if is_plain else _DSML_CALL).match(text, at):
                return self._give_back(scanner)
        return self._leave()

    def _give_back(self, scanner: Scanner) -> Verdict:
        """Read the section again, as a wrapper around a call of another format."""
        before = len(scanner.read_since_call()) - (scanner.position - self._body_start)
        scanner.give_back()
        scanner.begin_call()
        scanner.skip(before)
        return Verdict.NOT_A_CALL

    def _leave(self) -> Verdict:
        """End the body before text that is neither a call nor the end of the section."""
        if self._calls:
            return Verdict.UNTERMINATED if self._in_section else Verdict.DONE
        self.error = "the section has no call"
        return Verdict.BROKEN

    def _begin_call(self, opening: FoundTag, calls: CallSink) -> None:
        name = calls.name = opening.name
        schema = calls.find_schema(name)
        if opening.is_empty:
            others = dict(opening.attributes)
            others.pop(self._grammar.call.attribute, None)
            ParameterReader(self._grammar, name, schema).take_attributes(others, calls)
            self._end_call(calls)
        else:
            self._inside = ParameterReader(self._grammar, name, schema, repairs=self._repairs)

    def _begin_json(self, json: JSONCall, calls: CallSink) -> None:
        """Begin a call with JSON in the place of its name or of its parameters."""
        if not json.name:
            self._json = JSONCallReader(_make_closing_tag(self._dialect, self._dialect.call_end))
            return
        short = json.name.rpartition("/")[2].strip()
        name = calls.name = short if short in calls.schemas else json.name.strip()
        self._inside = ParameterReader(self._grammar, name, calls.find_schema(name))
        self._inside.begin_json(calls)

    def _end_call(self, calls: CallSink) -> None:
        calls.close()
        self._inside = None
        self._calls += 1

    def _is_call_begun(self, scanner: Scanner) -> bool:
        """Return whether the text ends inside the tag of another call; skip half an end."""
        grammar, text = self._grammar, scanner.text
        at = grammar.skip_gap(text, scanner.at)
        if at is None or at == len(text):
            return False
        if any(tag.could_begin(text, at) for tag in (*grammar.section_ends, *grammar.trail)):
            scanner.skip_all()
            return False
        return grammar.call.could_begin(text, at)

    # --- repair ---

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Close what was left open, or repair the JSON in the place of parameters or calls."""
        json = self._json
        calls = self._repair_tags(text) if json is None else json.repair(text, ended=ended)
        own = self._dialect.parameter.partition("KEY")[0]
        has_own = self._inside is not None and own in text
        if calls or ended or self._calls or has_own:
            return calls
        inside = _SECTION.sub("", self._marker + text).removesuffix(self.end)
        return read_loose(inside, self._schemas)

    def begins_next(self, text: str, at: int) -> bool | None:
        """Return whether a call, or a section of calls, begins at *at*; None if it may."""
        if not text.startswith(self._dialect.starts, at):
            return True
        return self._grammar.begins_call(text, at)

    def _repair_tags(self, text: str) -> list[RepairedCall]:
        """Close what was left open in *text*."""
        inside = self._inside
        if inside is None or inside.is_unclear:
            return []
        marker = "" if self._calls else self._marker
        if inside.is_json:
            return self._repair_json(marker, without_turn_end(text))
        bare = without_turn_end(text, *self._grammar.tags)
        again = TaggedCallReader(self._dialect, marker, repairs=True)
        calls = again.read_again(bare, self._schemas)
        if calls and calls[-1].rest:
            calls[-1] = calls[-1]._replace(rest=calls[-1].rest + text[len(bare) :])
        return calls

    def read_again(self, text: str, schemas: Mapping[str, Schema]) -> list[RepairedCall]:
        """Read the one call of *text*, which was refused; what is clearly missing is added."""
        scanner = Scanner()
        calls = CallSink.detached(scanner, schemas)
        scanner.push(text)
        notes = []
        try:
            verdict = self.read(scanner, calls)
            inside = self._inside
            if verdict is Verdict.MORE and inside is not None:
                if not inside.close_early(scanner, calls):
                    return []
                self._end_call(calls)
                notes = ["closed the call"]
            elif verdict in (Verdict.BROKEN, Verdict.NOT_A_CALL):
                return []
        except NoCallError:  # The meaning of the call is in doubt.
            return []
        found = calls.calls()
        if len(found) != 1:
            return []
        call, rest = found[0], scanner.unread
        return [RepairedCall(call.name, call.arguments, [*call.repairs, *notes], rest=rest)]

    def _repair_json(self, marker: str, text: str) -> list[RepairedCall]:
        """Repair the object in the place of the parameters."""
        grammar = self._grammar
        call_end = _make_closing_tag(self._dialect, self._dialect.call_end)
        inside, has_end, _ = text.rpartition(call_end)
        whole = marker + (inside if has_end else text)
        section = grammar.section.match(whole) if grammar.section is not None else None
        at = grammar.skip_gap(whole, section.end if section else 0)
        opening = grammar.open_call(whole, at or 0)
        if opening is None:
            return []
        with suppress(JSONParseError):
            arguments, repairs = rjson.repair(whole[opening.end :], guess=False)
            if isinstance(arguments, dict):
                return [RepairedCall(opening.name, arguments, [*repairs, "closed the call"])]
        return []


def _make_closing_tag(dialect: TagDialect, template: str, opening: str = "") -> str:
    """Write a closing tag, with the suffix of *opening*, its opening tag, if it has one."""
    suffix = ""
    if dialect.spelling.suffixed and ":" in opening:
        suffix = opening[opening.index(":") :].removesuffix(">").rstrip()
    return f"{dialect.spelling.prefix}{template.removesuffix('>')}{suffix}>"


# A call of DeepSeek in a section of another format, and a plain one in a section of DeepSeek.
_DSML_CALL: Final = re.compile(r"<[\uff5c|]{1,2}(?:DSML|GCML)[\uff5c|]{1,2} ?invoke\s")
_PLAIN_CALL: Final = re.compile(r"<invoke\s")
_OTHER_BEGUN: Final = re.compile(r"<[\uff5c|A-Za-z_ ]{0,24}")
