"""Calls in Python without markers of their own: after prose, in brackets, in a ``tool_code`` fence.

A list of calls that is not the first thing of a response may be an example. It is a call only where
it begins a line and nothing follows it, so it is held back until the response ends. The same holds
for ``[Tool call: NAME({…})]``, a line with which some models repeat the history of a conversation:
it is a call only if the response consists of such lines.

Gemma's template teaches a fence with the label ``tool_code``, in which each line is a call; most
models print the result of it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.parsing.body import BodyReader, ChoosingReader, Verdict
from penstock.parsing.call_sink import CallSink, read_call
from penstock.parsing.scanner import Scanner
from penstock.readers.json_calls import Balance
from penstock.readers.loose_bodies import read_object
from penstock.readers.pythonic import LeadingCallReader, PythonCallReader, PythonOrJSONReader
from penstock.tools import clean_name

# --- lists after prose --------------------------------------------------------------------------


class BracketReader(ChoosingReader):
    """Reads what follows a bracket: a list of calls, first or last in a response, or a log line."""

    def __init__(self, end: str = "", *, alone: bool = False) -> None:
        self.end = end
        self._alone = alone

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Choose the reader by the place and the first word, then continue with it."""
        if self._chosen is None and not _LABEL_BEGUN.fullmatch(scanner.text, scanner.at):
            if calls.is_first and scanner.match(_LABEL):
                self._chosen = LabelledCallReader()
            else:
                leading = LeadingCallReader(self.end, alone=self._alone)
                self._chosen = leading if calls.is_first else LastListReader()
        return Verdict.MORE if self._chosen is None else super().read(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a bracket alone is text."""
        return super().finish(scanner, calls) if self._chosen else Verdict.NOT_A_CALL


_TAIL: Final = re.compile(r"\s*+(?:<[^<>\s]{1,64}>\s*){0,16}(?:<[^<>\s]{0,64})?")
"""What may follow the last call of a response: white space and special tokens."""


class LastListReader(BodyReader):
    """Reads a list of calls that begins a line after prose, if nothing follows it.

    The list is read twice: as it arrives, to find out whether it is one, and at the end of the
    response, where it becomes calls.
    """

    def __init__(self) -> None:
        self._stage = Scanner()
        self._trial = TrialReader()
        self._sink: CallSink | None = None
        self._is_list = False

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Hold all text while it is a list of calls with nothing after it."""
        if self._sink is None:
            before = scanner.read_since_call()[:-1]
            line = before.rpartition("\n")[2] if "\n" in before else calls.line() + before
            if line:
                return Verdict.NOT_A_CALL
            self._sink = CallSink.detached(self._stage, calls.schemas)
        self._stage.push(scanner.unread)
        scanner.skip_all()
        if not self._is_list:
            verdict = self._trial.read(self._stage, self._sink)
            if verdict is Verdict.MORE:
                return verdict
            if verdict is not Verdict.DONE:
                return Verdict.NOT_A_CALL
            self._is_list = True
        is_last = _TAIL.fullmatch(self._stage.unread) is not None
        return Verdict.MORE if is_last else Verdict.NOT_A_CALL

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: a whole list is read again, as calls."""
        if not self._is_list:
            return Verdict.NOT_A_CALL
        text = scanner.read_since_call()
        blank = len(text) - len(text.lstrip())
        scanner.give_back()
        scanner.begin_call()
        scanner.skip(blank + 1)
        verdict = TrialReader().read(scanner, calls)
        return verdict if verdict is Verdict.DONE else Verdict.NOT_A_CALL


class TrialReader(LeadingCallReader):
    """Reads a list of calls of known tools in any place of a response."""

    def _is_possible(self, calls: CallSink) -> bool:
        del calls
        return True


# --- [Tool call: NAME({…})] ---------------------------------------------------------------------


MAX_LABEL: Final = 160
"""How long the label and the name of a tool may be."""

_WORDS: Final = r"(?i:tool(?:[ _]?(?:call|use))?)"
_LABEL: Final = re.compile(rf"{_WORDS}\s?:\s?(?P<name>[\w.:-]{{1,128}}?)\s{{0,4}}(?=[({{\]])")
_LABEL_BEGUN: Final = re.compile(
    r"(?i:t(?:o(?:o(?:l(?:[ _]?(?:c(?:a(?:ll?)?)?|u(?:se?)?)?)?)?)?)?)\s?"
    r"|(?i:tool(?:[ _]?(?:call|use))?)\s?:\s?[\w.:-]{0,128}\s{0,4}"
)


class LabelledCallReader(BodyReader):
    """Reads ``Tool call: NAME({…})]`` after a bracket, and further lines like that."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, dict[str, Any]]] = []
        self._pieces: list[str] = []  # of the line
        self._balance: Balance | None = None  # of its brackets

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Hold all text while it is such lines."""
        while True:
            if self._balance is None:
                found = scanner.match(_NEXT_LINE if self._calls else _LABEL)
                if found is None:
                    begun = (_NEXT_BEGUN, _TAIL) if self._calls else (_LABEL_BEGUN,)
                    is_begun = any(one.fullmatch(scanner.text, scanner.at) for one in begun)
                    return Verdict.MORE if is_begun else Verdict.NOT_A_CALL
                self._pieces = [clean_name(found["name"], calls.schemas)]
                if self._pieces[0] not in calls.schemas:
                    return Verdict.NOT_A_CALL
                scanner.advance_to(found.end())
                self._balance = Balance(1, "")
            end = self._balance.find_end(scanner.text, scanner.at)
            self._pieces.append(scanner.take_to(end))
            if not self._balance.is_even:
                return Verdict.MORE
            name, *pieces = self._pieces
            arguments = _read_arguments("".join(pieces)[:-1].strip(), name, calls)
            if arguments is None:
                return Verdict.NOT_A_CALL
            self._calls.append((name, arguments))
            self._balance = None

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: all lines are calls."""
        if self._balance is not None or not _TAIL.fullmatch(scanner.unread):
            return Verdict.NOT_A_CALL
        for name, arguments in self._calls:
            calls.write(name, arguments)
        return Verdict.DONE


_NEXT_LINE: Final = re.compile(rf"[ \t]{{0,16}}\r?\n\s{{0,64}}\[{_LABEL.pattern}")
_NEXT_BEGUN: Final = re.compile(
    rf"[ \t]{{0,16}}(?:\r?\n\s{{0,64}}(?:\[(?:{_LABEL_BEGUN.pattern})?)?)?"
)


def _read_arguments(text: str, name: str, calls: CallSink) -> dict[str, Any] | None:
    """Return the arguments in *text*: an object, with parentheses or without, or Python's."""
    inside = text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
    if not inside:
        return {} if text or not calls.schemas[name].required else None
    if inside.startswith("{"):
        return read_object(inside)
    if inside == text:
        return None
    call = read_call(PythonCallReader(""), f"[{name}{text}]", calls.schemas)
    return None if call is None else call.arguments


# --- tool_code ----------------------------------------------------------------------------------


class ToolCodeReader(PythonOrJSONReader):
    """Reads calls up to *end*, one per line; a call in Python may be printed."""

    def _make_python_reader(self) -> BodyReader:
        return PrintedCallReader(self.end)


_PRINT: Final = re.compile(r"\s{0,256}print\s{0,8}\(\s{0,8}")
_PRINTED: Final = re.compile(r"\s{0,256}print\s{0,8}\(\s{0,8}[A-Za-z_]\w{0,64}\s{0,8}\)")
_TARGET: Final = re.compile(r"\s{0,256}[A-Za-z_]\w{0,64}\s{0,8}=\s{0,8}(?=[A-Za-z_])")
_AROUND_BEGUN: Final = re.compile(
    r"\s{0,256}(?:[A-Za-z_]\w{0,64}\s{0,8}(?:=\s{0,8}"
    r"|\(\s{0,8}(?:[A-Za-z_]\w{0,64}\s{0,8})?)?)?"
)


class PrintedCallReader(PythonCallReader):
    """Reads calls one per line, up to *end*; a call may be printed, or assigned to a name."""

    def __init__(self, end: str) -> None:
        super().__init__(end, lines=True)

    def _read_call(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if self._skip_around(scanner):
            return None
        is_begun = _AROUND_BEGUN.fullmatch(scanner.text, scanner.at)
        return Verdict.MORE if is_begun else super()._read_call(scanner, calls)

    def _read_after(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        if _AROUND_BEGUN.fullmatch(scanner.text, scanner.at):
            return Verdict.MORE
        if self._skip_around(scanner):
            return None
        return super()._read_after(scanner, calls)

    def _skip_around(self, scanner: Scanner) -> bool:
        """Skip what is around a call on its line; return whether there was anything."""
        return any(scanner.take_match(one) for one in (_PRINTED, _PRINT, _TARGET))
