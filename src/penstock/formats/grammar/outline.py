"""The outline of a call: the text that is always the same, and the places where arguments stand.

A call style gives the outline of a call of each tool, made with what it writes calls with: it
writes one with `PLACE` where the arguments go, and `around` takes that apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.formats.grammar.text_without import JSON_LETTERS, RAW, Letters, Marks
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values import python_literals
from penstock.values.schema import Schema

# How values are written: JSON, Python, and the marks of the delimited formats.
#
# A notation is data. They all have objects and lists in brackets, and differ in their words, in
# what stands around a text, and in how keys are written.


Write = Callable[[Any], str]
"""Writes one value, or one key, as text."""


def compact(value: Any) -> str:
    """Write *value* as JSON without blanks."""
    return _json.encode_strict(value).decode()


def out_of_markup(json: str) -> str:
    """Write the signs of markup as escapes: in JSON they are in strings only."""
    return json.translate(_MARKUP)


_MARKUP: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Notation(Struct, frozen=True):
    """How values are written; *name* tells its rules from those of another notation.

    A text is between two *quotes*, made of *letters* and without any of *marks*. *comma* and
    *colon* are what parts members; with *spaced* a blank may follow either. *write* writes a value
    that is given, *key* a key.
    """

    name: str = "json"
    true: str = "true"
    false: str = "false"
    null: str = "null"
    quote: str = '"'
    letters: Letters = JSON_LETTERS
    marks: Marks = Marks()
    spaced: bool = True
    write: Write = compact
    key: Write = compact


JSON: Final = Notation()

JSON_IN_XML: Final = Notation(
    "json-in-xml",
    letters=Letters(
        "json-in-xml", JSON_LETTERS.barred + "<&", JSON_LETTERS.ranges, JSON_LETTERS.escapes
    ),
    write=lambda value: out_of_markup(compact(value)),
    key=lambda key: out_of_markup(compact(key)),
)
"""JSON in which nothing can be taken for markup."""

PYTHON_OF_JSON: Final = Notation(
    "python-json", write=partial(python_literals.dumps, json_words=True)
)
"""Literals of Python in the words of JSON."""

PYTHON: Final = Notation("python", "True", "False", "None", write=python_literals.dumps)
"""Literals of Python: a string of JSON is one of Python, too."""


PLACE: Final = "\ue000"
"""What stands for a place while an outline is made: a character that is nobody's."""

ANY: Final[dict[str, Any]] = {PLACE: None}
"""Arguments that stand for any."""


_NONE: Final = Marks()


class Arguments(Struct, frozen=True):
    """All arguments as one object."""

    notation: Notation = JSON


class Keywords(Struct, frozen=True):
    """The arguments with their names before them, as in ``port="Leith", hours=6``."""

    notation: Notation
    equals: str = "="
    comma: str = ", "


class Slot(Struct, frozen=True):
    """What comes before a value and after it.

    A text in it is made of *letters* and holds none of *marks*; one that is *solid* begins with
    something other than white space.
    """

    before: str
    after: str
    marks: Marks = Marks()
    letters: Letters = RAW
    solid: bool = False


class ParameterOutline(Struct, frozen=True):
    """One argument after the other, each in a slot of its own, with *before* right before it.

    *slot* gives the slot for a key and the type of its value. A text is in it as it is, any
    other value in *notation*. *only* is the one argument that stands here, *but* the one that does
    not; *needs* must be there, whatever their schema says.

    With *elements* an object has a slot for each of its members inside of it. A list then has one
    for each of its items, named *item*; without such a name it is the slot of its key again and
    again.
    """

    slot: Callable[[str, str], Slot]
    notation: Notation = JSON
    before: str = ""
    only: str = ""
    but: str = ""
    needs: tuple[str, ...] = ()
    elements: bool = False
    item: str = ""

    def holds(self, key: str) -> bool:
        """Return whether the argument *key* stands here."""
        return key == self.only if self.only else key != self.but


Piece = str | Arguments | Keywords | ParameterOutline


class Outline(Struct, frozen=True):
    """A call, piece by piece, and what stands around one or more of them.

    *between* parts the calls between *opening* and *closing*; None tells that there is but one.
    *trigger* is what tells that a call begins; without one it is what comes before the name.
    *leads* tells that the call has to be the first thing in an answer.
    """

    call: tuple[Piece, ...]
    opening: str = ""
    closing: str = ""
    between: str | None = "\n"
    trigger: str = ""
    leads: bool = False


def around(text: str, piece: Piece, place: str) -> tuple[Piece, ...]:
    """Take *text* apart at *place*, where *piece* stands."""
    before, _, after = text.partition(place)
    return before, piece, after


def slot_of(text: str, marks: Marks = _NONE, letters: Letters = RAW) -> Slot:
    """Take *text* apart at `PLACE`, where a value stands."""
    before, _, after = text.partition(PLACE)
    return Slot(before, after, marks, letters)


def outline_of(render_call: Callable[[ToolCall], str], tool: Tool, trigger: str = "") -> Outline:
    """Return the outline of a call that has its arguments as JSON, from how one is written."""
    written = render_call(ToolCall("", tool.name, ANY))
    return Outline(around(written, Arguments(), compact(ANY)), trigger=trigger)


def check_names(render_call: Callable[[ToolCall], str], tool: Tool) -> None:
    """Raise `UsageError` where the name of *tool*, or of an argument, cannot be written."""
    render_call(ToolCall("", tool.name, {}))
    for key in Schema(tool.parameters).properties:
        render_call(ToolCall("", tool.name, {key: "text"}))
