"""An answer as a member of JSON: ``{"response": "…"}`` in place of a call.

A model that was held to JSON says what it has to say in a string. That string is the text of the
answer: it is shown decoded, as it comes. The rest of the object says nothing.
"""

from __future__ import annotations

from typing import Final

from penstock.parsing.bodies.base import Verdict
from penstock.parsing.bodies.json_leading import LeadingJSONReader
from penstock.parsing.bodies.json_signatures import Signature
from penstock.parsing.bodies.json_steps import BrokenJSONError, Flow, JSONSteps
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner

RESPONSE: Final = "response"
"""The key of the text."""

_SIGNATURE: Final = Signature((f'{{"{RESPONSE}":"',))


class ResponseReader(LeadingJSONReader):
    """Reads leading calls as ever; or else an object that holds the text of the answer."""

    _response: JSONSteps | None = None  # reads the object, once it is known to be one

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and say what it says to *calls*."""
        if self._response is None and not self._has_begun and calls.is_first:
            is_response = _SIGNATURE.judge(self._bracket, scanner.text, scanner.at)
            if is_response is None:
                return Verdict.MORE
            if is_response:
                self._response = JSONSteps()
                self._response.step(self._bracket, 0, Flow.WAITS)
        if self._response is None:
            return super().read(scanner, calls)
        return self._read_response(self._response, scanner, calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: so has what was said of the answer."""
        if self._response is None:
            return super().finish(scanner, calls)
        is_broken = not self._response.awaits and bool(scanner.unread.strip())
        scanner.at = len(scanner.text)
        return Verdict.PROSE if is_broken else Verdict.DONE

    def _read_response(self, response: JSONSteps, scanner: Scanner, calls: Calls) -> Verdict:
        """Show the string; where the object breaks, the text from there on is text."""
        moves = True
        try:
            while moves and scanner.at < len(scanner.text) and not response.complete:
                begin = scanner.at
                changes, scanner.at = response.step(scanner.text, begin, Flow.STREAMS)
                for change in changes:
                    if change.path == (RESPONSE,) and change.kind == "string":
                        calls.say(change.text)
                moves = scanner.at > begin or bool(changes)
        except BrokenJSONError:
            return Verdict.PROSE
        return Verdict.DONE if response.complete else Verdict.MORE
