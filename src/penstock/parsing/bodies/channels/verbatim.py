"""A call whose one argument is the text of its message, as it stands: code, or free text.

Nothing in such a text is escaped. It reaches to the first marker that ends its message; where the
format has no such marker the end of the answer is as good.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import ParseError
from penstock.parsing.bodies.base import Run, Verdict
from penstock.parsing.bodies.channels.json_messages import NamedJSONReader
from penstock.parsing.bodies.channels.messages import MessageCall, skip_gap
from penstock.parsing.bodies.open_strings import PlainString
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.reasoning import Channel
from penstock.parsing.scanner import Scanner, markers

CODE: Final = "code"
"""The argument of `python` that takes code."""


class VerbatimReader:
    """Reads a call of *name* with the text as *key*.

    Any of *ends* ends it; so does any of *borders*, which belongs to what follows. With *stands*,
    the end of the answer does, too.
    """

    def __init__(
        self,
        name: str,
        key: str,
        ends: tuple[str, ...],
        borders: tuple[str, ...] = (),
        *,
        stands: bool = False,
    ) -> None:
        self.error: str | ParseError = ""
        self.end = ends[0] if ends else ""
        self.enters: Channel | None = None
        self._name = name
        self._key = key
        self._ends = ends
        self._marks = markers(*ends, *borders)
        self._stands = stands
        self._string: PlainString | None = None

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on, up to what ends the text."""
        string = self._string or self._open(calls)
        found = self._marks.find(scanner.text, scanner.at)
        if found is None:
            _add(string, scanner, self._marks.find_held(scanner.text, scanner.at))
            return Verdict.MORE
        _add(string, scanner, found.start())
        scanner.at = found.end() if found[0] in self._ends else found.start()
        self._close(string, calls)
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended."""
        string = self._string or self._open(calls)
        _add(string, scanner, len(scanner.text))
        if self._stands:
            self._close(string, calls)
            return Verdict.DONE
        self.error = "the call was cut"
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give the text as a run."""
        return None if self._string is None else self._string.run()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Take all of *text*, if the model ended where it does."""
        del text
        written = self.open_text()
        if not ended or written is None:
            return []
        return [Mended(self._name, {self._key: written}, ["closed the message"])]

    def open_text(self) -> str | None:
        """Give what has gone out so far."""
        return None if self._string is None else self._string.gone_out()

    def _open(self, calls: Calls) -> PlainString:
        writer = calls.open(self._name)
        writer.open_text(self._key)
        self._string = PlainString(self._marks, writer)
        return self._string

    def _close(self, string: PlainString, calls: Calls) -> None:
        string.close("")
        calls.close()


class CodeReader:
    """Reads a call of *name* whose message is code, or a JSON object with the arguments.

    It is an object where the first thing of it is a brace. *json* reads that; *code* the rest.
    """

    def __init__(self, json: NamedJSONReader, code: VerbatimReader) -> None:
        self.error: str | ParseError = ""
        self.end = json.end
        self._json = json
        self._code = code
        self._chosen: MessageCall | None = None

    @property
    def enters(self) -> Channel | None:
        """The channel that begins where the body is done."""
        return None if self._chosen is None else self._chosen.enters

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Look at how the message begins, then read it."""
        chosen = self._chosen or self._choose(scanner)
        if chosen is None:
            return Verdict.MORE
        verdict = chosen.read(scanner, calls)
        self.error = chosen.error
        return verdict

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended."""
        verdict = (self._chosen or self._code).finish(scanner, calls)
        self.error = (self._chosen or self._code).error
        return verdict

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        return None if self._chosen is None else self._chosen.run()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Let the reader mend that was chosen."""
        return [] if self._chosen is None else self._chosen.mend(text, ended=ended)

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        return None if self._chosen is None else self._chosen.open_text()

    def _choose(self, scanner: Scanner) -> MessageCall | None:
        begins = skip_gap(scanner.text, scanner.at)
        if begins == len(scanner.text):
            return None
        is_json = begins is not None and scanner.text.startswith("{", begins)
        self._chosen = self._json if is_json else self._code
        return self._chosen


def _add(string: PlainString, scanner: Scanner, end: int) -> None:
    if end > scanner.at:
        piece = scanner.text[scanner.at : end]
        scanner.at = end
        string.add(piece)
