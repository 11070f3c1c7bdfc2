"""A reader that becomes another one: what follows a marker says whose call it is.

It looks ahead just as far as the formats of its marker differ, and consumes nothing while it does.
Then the reader of that format takes over. A marker that stands in code is prose, and a call of a
tool that nobody has is text.
"""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.formats.auto.answer import TILDES, Answer, gap_before, line_before
from penstock.formats.auto.delegates import REFUSALS, Delegate
from penstock.formats.auto.table import Choice, Row
from penstock.formats.thinking import STYLES
from penstock.parsing import Body, Calls, Channel, Scanner, Verdict
from penstock.parsing.bodies.auto_calls import KnownCalls
from penstock.parsing.bodies.bare_fences import FENCE
from penstock.parsing.calls import Mended
from penstock.parsing.output import Output


class Recognition(Delegate):
    """Reads what follows *marker*, which stands for one of the formats of *row*."""

    def __init__(self, marker: str, row: Row, answer: Answer) -> None:
        super().__init__(answer)
        self._marker = marker
        self._row = row
        self._rest = ""  # what the format's own marker has behind ours
        self._surplus = ""  # what ours has behind the format's own

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended; what has not told what it is by now is prose.

        Where it names a tool it may yet be mended, so one reader has to know what it says.
        """
        assert isinstance(calls, KnownCalls)  # noqa: S101 - `auto` asks for it
        if self._body is not None:
            return super().finish(scanner, calls)
        choice = self._find_possible(self._choices(calls), scanner, calls)
        if choice is not None and "name" in choice.when.groupindex:
            self._rehearse(choice, scanner, calls)
        return Verdict.PROSE

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, which begins where the format's own marker ends."""
        return super().mend(self._surplus + text.removeprefix(self._rest), ended=ended)

    def _choose(self, scanner: Scanner, calls: KnownCalls) -> Verdict | None:
        if self._is_code(scanner, calls):
            return Verdict.PROSE
        choice = self._find_choice(scanner, calls)
        if isinstance(choice, Verdict):
            return choice
        self._behind = scanner.offset + scanner.at
        self._note_marker(choice)
        scanner.at += len(self._rest) - len(self._surplus)
        if choice.thinks:
            self._body = ThoughtMark(STYLES[choice.format].channel)
        else:
            self._format = choice.format
            self._body = self._answer.syntax_of(choice.format).body(choice.start)
        return None

    def _note_marker(self, choice: Choice) -> None:
        """Note how the marker of the format differs from the one that was passed."""
        if not self._marker.endswith(choice.start):
            self._rest = choice.start[len(self._marker) :]
            self._surplus = self._marker[len(choice.start) :]

    def _rehearse(self, choice: Choice, scanner: Scanner, calls: KnownCalls) -> None:
        """Let the reader of *choice* read what is left of the answer, and nobody hear of it."""
        self._note_marker(choice)
        self._body = self._answer.syntax_of(choice.format).body(choice.start)
        stage = Scanner()
        stage.push(self._surplus + scanner.unread.removeprefix(self._rest))
        stage.begin_call()
        unheard = Calls(Output(stage), calls.schemas, str, _ignore, live=False)
        if self._body.read(stage, unheard) is Verdict.MORE:
            self._body.finish(stage, unheard)
        scanner.at = len(scanner.text)

    def _is_code(self, scanner: Scanner, calls: KnownCalls) -> bool:
        """Tell whether the marker stands in code, or is one of a fence of tildes."""
        gap = gap_before(self._marker, scanner)
        line = line_before(gap, calls)
        if self._marker == TILDES:
            if calls.kind() == "text":
                self._answer.note_tildes(line)
            return True
        if self._marker == FENCE:
            return self._answer.in_tildes
        return self._answer.is_in_code(self._marker, line, gap, calls.shown())

    def _find_choice(self, scanner: Scanner, calls: KnownCalls) -> Choice | Verdict:
        """Give the one choice that the text leaves, or what else it says."""
        choices = self._choices(calls)
        if self._marker == FENCE and self._answer.fences.ticks:
            return choices[-1] if choices else Verdict.PROSE
        if choices and self._row.undecided.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        return self._find_possible(choices, scanner, calls) or Verdict.PROSE

    def _choices(self, calls: KnownCalls) -> tuple[Choice, ...]:
        """Give what the marker may stand for: in a thought, only what may end that."""
        choices = self._row.choices
        return tuple(filter(self._interrupts, choices)) if calls.kind() == "thinking" else choices

    def _find_possible(
        self, choices: tuple[Choice, ...], scanner: Scanner, calls: KnownCalls
    ) -> Choice | None:
        """Give the first of *choices* that the text says, if it may be."""
        for choice in choices:
            found = choice.when.match(scanner.text, scanner.at)
            if found is None or (choice.first and not calls.is_first):
                continue
            name = choice.tool or found.groupdict().get("name")
            is_possible = calls.thinks if choice.thinks else name is None or name in calls.schemas
            return choice if is_possible else None
        return None

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


def _ignore(why: str | ParseError) -> None:
    """Hear what is wrong, and do nothing about it."""
