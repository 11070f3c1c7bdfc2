"""A reader that becomes another one: what follows a marker says whose call it is.

It looks ahead just as far as the formats of its marker differ, and consumes nothing while it does.
Then the reader of that format takes over. A marker that stands in code is prose, and a call of a
tool that nobody has is text.
"""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.formats.auto.answer import TILDES, Answer, line_before
from penstock.formats.auto.delegates import REFUSALS, Delegate
from penstock.formats.auto.table import Choice, Row
from penstock.formats.thinking import STYLES
from penstock.parsing import Body, Calls, Channel, Scanner, Verdict
from penstock.parsing.bodies.auto_calls import KnownCalls
from penstock.parsing.bodies.bare_fences import FENCE
from penstock.parsing.calls import Mended


class Recognition(Delegate):
    """Reads what follows *marker*, which stands for one of the formats of *row*."""

    def __init__(self, marker: str, row: Row, answer: Answer) -> None:
        super().__init__(answer)
        self._marker = marker
        self._row = row
        self._rest = ""  # what the format's own marker has behind ours

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, without what is left of the marker in it."""
        return super().mend(text.removeprefix(self._rest), ended=ended)

    def _choose(self, scanner: Scanner, calls: KnownCalls) -> Verdict | None:
        if self._is_code(line_before(self._marker, scanner, calls), calls):
            return Verdict.PROSE
        choice = self._find_choice(scanner, calls)
        if isinstance(choice, Verdict):
            return choice
        self._behind = scanner.offset + scanner.at
        if not self._marker.endswith(choice.start):
            scanner.at += len(choice.start) - len(self._marker)
        self._rest = choice.start[len(self._marker) :]
        if choice.thinks:
            self._body = ThoughtMark(STYLES[choice.format].channel)
        else:
            self._format = choice.format
            self._body = self._answer.syntax_of(choice.format).body(choice.start)
        return None

    def _is_code(self, line: str, calls: KnownCalls) -> bool:
        """Tell whether the marker behind *line* stands in code, or is one of a fence of tildes."""
        if self._marker == TILDES:
            if calls.kind() == "text":
                self._answer.note_tildes(line)
            return True
        return self._answer.in_tildes if self._marker == FENCE else self._answer.is_quoted(line)

    def _find_choice(self, scanner: Scanner, calls: KnownCalls) -> Choice | Verdict:
        """Give the one choice that the text leaves, or what else it says."""
        text, at, choices = scanner.text, scanner.at, self._row.choices
        if calls.kind() == "thinking":
            choices = tuple(filter(self._interrupts, choices))
        if self._marker == FENCE and self._answer.fences.ticks:
            return choices[-1] if choices else Verdict.PROSE
        if choices and self._row.undecided.fullmatch(text, at):
            return Verdict.MORE
        for choice in choices:
            found = choice.when.match(text, at)
            if found is None or (choice.first and not calls.is_first):
                continue
            name = choice.tool or found.groupdict().get("name")
            is_possible = calls.thinks if choice.thinks else name is None or name in calls.schemas
            return choice if is_possible else Verdict.PROSE
        return Verdict.PROSE

    def _interrupts(self, choice: Choice) -> bool:
        return not choice.thinks and self._answer.interrupts(choice.format)

    def _settle(self, body: Body, verdict: Verdict, scanner: Scanner, calls: KnownCalls) -> Verdict:
        if verdict in REFUSALS and self._marker == FENCE and self._rest:
            self._answer.fences.open(len(FENCE))  # It is a fence like any other.
        return super()._settle(body, verdict, scanner, calls)


class ThoughtMark:
    """Passes the marker that opens a thought, and enters its channel."""

    def __init__(self, enters: Channel) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self.enters = enters

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the marker is all there is."""
        del scanner, calls
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say the same."""
        return self.read(scanner, calls)

    def run(self) -> None:
        """Give nothing: no string streams."""
