r"""The arguments of a call as they arrive: what each value says, without its JSON.

Rules and guards look at values, decoded: ``"`` in a file's text is one character there, and not
``\"``. A call whose deltas did not say what it says in the end is looked at once more, whole: some
were mended, and some models write all of the arguments as one string that holds JSON.
"""

from __future__ import annotations

from penstock import _json
from penstock.events import ToolCallDelta, ToolCallEnd
from penstock.values import IncrementalJSON
from penstock.values.incremental_state import Change


class ArgumentReader:
    """Reads the arguments of one call; never raises on what a model wrote."""

    def __init__(self) -> None:
        self._reader = IncrementalJSON(recover=True)

    def add(self, event: ToolCallDelta) -> list[Change]:
        """Read one more piece; tell what it says."""
        return self._reader.feed(event.arguments)

    def close(self, event: ToolCallEnd) -> list[Change] | None:
        """Say that the call is whole; tell all that it says, if that was not told before."""
        reader, call = self._reader, event.call
        is_told = reader.complete and not reader.problems and isinstance(reader.value, dict)
        is_same = not call.repairs or reader.value == call.arguments
        if (is_told and is_same) or not call.complete:
            return None
        return IncrementalJSON(recover=True).feed(_json.encode(event.call.arguments).decode())


def scalar_text(value: object) -> str:
    """Write a value that is no text as JSON does."""
    return _json.encode(value).decode()
