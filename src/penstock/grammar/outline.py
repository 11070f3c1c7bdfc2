"""The outline of a call: its constant text, and the places of its arguments.

A call style makes the outline with its own renderer: it renders a call with `PLACE` as arguments,
and `split_around` splits the text there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.grammar.text_without import JSON_LETTERS, RAW, Letters, Marks
from penstock.messages import ToolCall
from penstock.tools import Tool
from penstock.values import python_literals
from penstock.values.schema import Schema

Write = Callable[[Any], str]
"""Writes one value, or one key, as text."""


def compact(value: Any) -> str:
    """Write *value* as JSON without spaces."""
    return _json.encode_strict(value).decode()


def out_of_markup(json: str) -> str:
    """Escape ``<``, ``>`` and ``&``, which occur in JSON only inside of strings."""
    return json.translate(_MARKUP)


_MARKUP: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Notation(Struct, frozen=True):
    """How values are written: JSON, Python literals, or the delimited form of Gemma 4.

    Objects and lists are in brackets in all of them. *name* prefixes the rules of the notation. A
    string is between two *quotes*, consists of *letters* and contains none of *marks*. With
    *spaced* a space may follow a comma or a colon. *write* writes a given value, *key* a key.
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

# A value between tags must not look like the end of one: with "<" as an escape, "</arg>" in a
# string is data for every reader of XML.
JSON_IN_XML: Final = Notation(
    "json-in-xml",
    letters=Letters(
        "json-in-xml", JSON_LETTERS.barred + "<&", JSON_LETTERS.ranges, JSON_LETTERS.escapes
    ),
    write=lambda value: out_of_markup(compact(value)),
    key=lambda key: out_of_markup(compact(key)),
)
"""JSON without markup characters."""

PYTHON_OF_JSON: Final = Notation(
    "python-json", write=partial(python_literals.dumps, json_words=True)
)
"""Python literals with JSON's true, false and null, as OLMo 3 writes them."""

PYTHON: Final = Notation("python", "True", "False", "None", write=python_literals.dumps)
"""Python literals; a JSON string is also a Python string."""


PLACE: Final = "\ue000"
"""The placeholder while an outline is made: a character of Unicode's private use area."""

ANY: Final[dict[str, Any]] = {PLACE: None}
"""The placeholder for all arguments."""


_NONE: Final = Marks()


class Arguments(Struct, frozen=True):
    """All arguments as one object."""

    notation: Notation = JSON


class Keywords(Struct, frozen=True):
    """The arguments as keywords: ``port="Leith", hours=6``."""

    notation: Notation
    equals: str = "="
    comma: str = ", "


# `solid`: where readers strip white space before a value, a value that begins with it would lose
# it.
class Slot(Struct, frozen=True):
    """The text before and after a value.

    A string value consists of *letters* and contains none of *marks*; with *solid* it does not
    begin with white space.
    """

    before: str
    after: str
    marks: Marks = Marks()
    letters: Letters = RAW
    solid: bool = False


class ParameterOutline(Struct, frozen=True):
    """The arguments one after the other, each in its own slot and preceded by *before*.

    *slot* returns the slot for a key and the type of its value. Strings are verbatim in it unless
    *quotes* is set, other values are in *notation*. *only* restricts the piece to one argument,
    *but* excludes one; *needs* are required even if the schema makes them optional. With
    *is_sorted* they are in the order of their names instead of the schema's.

    With *elements* the members of an object have slots inside the slot of the object. The items of
    a list have slots named *item* inside the slot of the list; without *item* the slot of the list
    itself is repeated. With *typed* the slots of elements depend on the type, and items have none
    of their own: their key is empty. An object or a list whose content the schema does not describe
    is written in the notation, in the slot of a number.
    """

    slot: Callable[[str, str], Slot]
    notation: Notation = JSON
    before: str = ""
    only: str = ""
    but: str = ""
    needs: tuple[str, ...] = ()
    elements: bool = False
    item: str = ""
    is_sorted: bool = False
    quotes: bool = False
    typed: bool = False

    def holds(self, key: str) -> bool:
        """Return whether the argument *key* belongs to this piece."""
        return key == self.only if self.only else key != self.but


Piece = str | Arguments | Keywords | ParameterOutline


# xgrammar starts to constrain at *trigger*, so it is a prefix that all calls have in common.
class Outline(Struct, frozen=True):
    """The pieces of a call, and the text around one or more calls.

    *between* separates the calls between *opening* and *closing*; None means one call only.
    *trigger* is the text that starts a call; by default it is the text before the name. With
    *leads* the call has to begin the response.
    """

    call: tuple[Piece, ...]
    opening: str = ""
    closing: str = ""
    between: str | None = "\n"
    trigger: str = ""
    leads: bool = False


def split_around(text: str, piece: Piece, place: str) -> tuple[Piece, ...]:
    """Split *text* at *place* and put *piece* there."""
    before, _, after = text.partition(place)
    return before, piece, after


def make_slot(text: str, marks: Marks = _NONE, letters: Letters = RAW) -> Slot:
    """Make a slot of *text*, which has `PLACE` instead of the value."""
    before, _, after = text.partition(PLACE)
    return Slot(before, after, marks, letters)


def json_outline(render_call: Callable[[ToolCall], str], tool: Tool, trigger: str = "") -> Outline:
    """Return the outline of a call whose arguments are one JSON object."""
    written = render_call(ToolCall("", tool.name, ANY))
    return Outline(split_around(written, Arguments(), compact(ANY)), trigger=trigger)


def check_names(render_call: Callable[[ToolCall], str], tool: Tool) -> None:
    """Raise `UsageError` if the name of *tool* or of a parameter cannot be written."""
    # The renderers know what their format cannot express; a grammar must not produce it either.
    render_call(ToolCall("", tool.name, {}))
    for key in Schema(tool.parameters).properties:
        render_call(ToolCall("", tool.name, {key: "text"}))
