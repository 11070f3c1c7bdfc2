"""How values are written: JSON, Python, and the marks of the delimited formats.

A notation is data. They all have objects and lists in brackets, and differ in their words, in what
stands around a text, and in how keys are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.formats.grammar.texts import JSON_LETTERS, Letters, Marks
from penstock.values import literals

Write = Callable[[Any], str]
"""Writes one value, or one key, as text."""


def compact(value: Any) -> str:
    """Write *value* as JSON without blanks."""
    return _json.encode_strict(value).decode()


def out_of_markup(json: str) -> str:
    """Write the signs of markup as escapes: in JSON they stand in strings only."""
    return json.translate(_MARKUP)


_MARKUP: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Notation(Struct, frozen=True):
    """How values are written; *name* tells its rules from those of another notation.

    A text stands between two *quotes*, made of *letters* and without any of *marks*. *comma* and
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

PYTHON_OF_JSON: Final = Notation("python-json", write=partial(literals.dumps, json_words=True))
"""Literals of Python in the words of JSON."""

PYTHON: Final = Notation("python", "True", "False", "None", write=literals.dumps)
"""Literals of Python: a string of JSON is one of Python, too."""
