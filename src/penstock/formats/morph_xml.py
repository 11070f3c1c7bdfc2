"""Calls as elements: the tag is the tool's name, and a child element each of its arguments.

A value can be written in several ways: as text, as elements, a list as repeated tags or as items in
one tag, and anything as JSON. The renderer uses the first way that reads back unchanged, which it
checks by reading. A value that no way can express is refused: an argument whose name is not valid
in a tag, and values that are not JSON.

Elements have no types of their own: without a schema for an argument, or for a value nested in one,
a value is what it looks like, and the text ``5`` reads as a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.prompts import HEAD, TAIL, spaced_json
from penstock.formats.round_trip import require_round_trip
from penstock.grammar import PLACE, Outline, ParameterOutline, Slot, check_names, make_slot
from penstock.grammar.outline import JSON_IN_XML, out_of_markup
from penstock.grammar.text_without import XML_LETTERS
from penstock.messages import ToolCall, ToolResult
from penstock.parsing.body import BodyReader
from penstock.readers.bare_json import JSON_START, JSONInsteadReader
from penstock.readers.elements import Duplicates, ElementCalls
from penstock.readers.yaml_calls import YAMLCalls
from penstock.tools import Tool
from penstock.values import yaml
from penstock.values.rxml.markup import is_name
from penstock.values.rxml.writer import Style, write_element

_NULL: Final = "null"
# How results are written: for a model to read, so with as few escapes as possible.
_RESULT: Final = Style(format=False, minimal_escaping=True, null=_NULL)


class ElementStyle(Struct, frozen=True):
    """An element per call, with *separator* between its tags.

    With *trims*, string values lose one newline next to each of their tags. *duplicates* decides
    about a call that gives a string twice: it is refused, or the ``first`` one counts.
    """

    trims: bool = False
    duplicates: Duplicates = "error"
    separator: str = ""

    def syntax(self, tools: Iterable[Tool]) -> ElementCalls:
        """Return the syntax of calls of *tools*: no other name is ever called."""
        return ElementCalls.of(tools, trims=self.trims, duplicates=self.duplicates)

    def render_call(self, call: ToolCall) -> str:
        """Write *call* as one element.

        Raise `UsageError` for a name that is not valid in a tag, and for values that are not JSON.
        """
        if not is_name(call.name):
            raise UsageError(f"{call.name!r} cannot be the name of a tag")
        fields = [self._field(call.name, key, value) for key, value in call.arguments.items()]
        return require_round_trip(self, call, self._element(call.name, fields))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        check_names(self.render_call, tool)
        parameters = ParameterOutline(_slot, JSON_IN_XML, before=self.separator, elements=True)
        opening, closing = f"<{tool.name}>", f"{self.separator}</{tool.name}>"
        return Outline((opening, parameters, closing))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one element with the name of the tool and its content."""
        name = write_element("tool_name", result.name, _RESULT)
        return self._element("tool_response", [name, _result(result.content)])

    def _element(self, name: str, fields: Iterable[str]) -> str:
        return self.separator.join([f"<{name}>", *fields, f"</{name}>"])

    def _field(self, name: str, key: str, value: Any) -> str:
        """Write the argument *key* in the first way that reads back."""
        if not is_name(key):
            raise UsageError(f"{key!r} cannot be the name of a tag")
        alone = ToolCall("", name, {key: value})
        refused: UsageError | None = None
        for write in (self._as_tags, self._as_one_tag, _as_json):
            try:
                field = write(key, value)
                require_round_trip(self, alone, self._element(name, [field]))
            except UsageError as exc:
                refused = refused or exc
            else:
                return field
        raise UsageError(f"cannot write the argument {key!r} as elements: {refused}") from refused

    def _as_tags(self, key: str, value: Any) -> str:
        """Write a tag, and for a list one for each of its elements."""
        values = value if isinstance(value, list) else [value]
        return self.separator.join(self._as_one_tag(key, each) for each in values)

    def _as_one_tag(self, key: str, value: Any) -> str:
        """Write a tag; the elements of a list are items in it."""
        return write_element(key, value, Style(format=False, null=_NULL, pads=self.trims))


def _slot(key: str, kind: str) -> Slot:
    del kind
    return make_slot(f"<{key}>{PLACE}</{key}>", letters=XML_LETTERS)


def _as_json(key: str, value: Any) -> str:
    """Write JSON text between two tags; nothing in it can be taken for markup."""
    text = out_of_markup(_json.encode_strict(value).decode())
    return f"<{key}>{text}</{key}>"


def _result(content: Any) -> str:
    """Write the content of a result as text or elements, or else as JSON."""
    try:
        return write_element("result", content, _RESULT)
    except UsageError:
        return _as_json("result", content)


_HOW: Final = """\
To call a tool, write one element: its tag is the name of the tool, and inside it is one \
element for each argument, whose tag is the name of the argument, like this:

{example}

The tags of the call hold its name and nothing else. For a list, repeat the tag of the argument, \
once for each element of the list; for an object, put one element for each of its properties \
inside. Omit arguments that you do not need, and write no argument twice.

A string ends at its closing tag: write code and markup exactly as they are, and escape nothing. \
Where a text is shown to you with `&lt;` and `&amp;`, these mean `<` and `&`. After \
a closing tag comes the next tag, and nothing else.
"""

_LINES: Final = """\
One line break after the opening tag of a string and one before its closing tag are not part of it.
"""

_SEVERAL: Final = """
For several calls, write one element for each, one after the other. Close every tag.
"""

MORPH_XML: Final[Format] = Format(
    name="morph_xml",
    calls=ElementStyle(),
    prompt=HEAD + _HOW + _SEVERAL + TAIL,
)

QWEN_WEB: Final[Format] = Format(
    name="qwen_web",
    calls=ElementStyle(trims=True, separator="\n"),
    prompt=HEAD + _HOW + _LINES + _SEVERAL + TAIL,
)


# --- YAML inside elements ---

# Strings that are written without quotes, if they are not a word of YAML.
_PLAIN: Final = re.compile(r"[A-Za-z_/](?:[\w ./-]*[\w./-])?")

# Strings of several lines that a literal block can hold.
_BLOCK: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f].*(?:\n.*)+", re.DOTALL)

_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class YAMLOrJSONCalls(YAMLCalls, frozen=True):
    """Calls with YAML inside; models that were trained on hermes also write its JSON calls."""

    @property
    def starts(self) -> tuple[str, ...]:
        """The start tags, and the marker of a JSON call, unless it is the tag of a tool."""
        starts = super().starts
        return starts if JSON_START in starts else (*starts, JSON_START)

    def body(self, marker: str) -> BodyReader:  # type: ignore[override]
        """Return a new reader for the text after *marker*."""
        is_json = marker == JSON_START and JSON_START not in super().starts
        return JSONInsteadReader() if is_json else super().body(marker)


class YAMLStyle(Struct, frozen=True):
    """An element per call, with one line or one literal block per argument."""

    def syntax(self, tools: Iterable[Tool]) -> YAMLOrJSONCalls:
        """Return the syntax of calls of *tools*: no other name is ever called."""
        return YAMLOrJSONCalls(tuple(tool.name for tool in tools if is_name(tool.name)))

    def render_call(self, call: ToolCall) -> str:
        """Write *call*; raise `UsageError` for names that a tag or a YAML key cannot have."""
        if not is_name(call.name):
            raise UsageError(f"{call.name!r} cannot be the name of a tag")
        lines = "".join(f"{key}: {_write(value)}\n" for key, value in call.arguments.items())
        return require_round_trip(self, call, f"<{call.name}>\n{lines}</{call.name}>")

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*: a line for each argument, in JSON.

        JSON is YAML, and a grammar cannot count how deep the lines of a block are indented.
        """
        check_names(self.render_call, tool)
        arguments = ParameterOutline(lambda key, _: Slot(f"{key}: ", "\n"), quotes=True)
        return Outline((f"<{tool.name}>\n", arguments, f"</{tool.name}>"))

    def render_result(self, result: ToolResult) -> str:
        """Write a result as one element with the tool's name and its content."""
        return MORPH_XML.calls.render_result(result)


def _write(value: Any) -> str:
    """Write *value* as a YAML value on the line of its key."""
    if not isinstance(value, str):
        return spaced_json(value)
    if _PLAIN.fullmatch(value) and yaml.resolve(value) == value:
        return value
    if _BLOCK.fullmatch(value) and not _UNPRINTABLE.search(value):
        body = value.rstrip("\n")
        ends = len(value) - len(body)
        mark = "-" if ends == 0 else "" if ends == 1 else "+"
        lines = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
        return f"|{mark}\n{lines}" + "\n" * max(ends - 1, 0)
    return spaced_json(value)


_YAML_HOW: Final = """\
To call a tool, write one element: its tag is the name of the tool, and inside it is a YAML \
mapping with one key for each argument, like this:

{example}

Write a string of several lines after a `|`, and indent only its lines. Put a string in double \
quotes if it looks like a number or contains a colon or a `#`. For several calls, write one \
element for each, one after the other. Close every tag.
"""

YAML_XML: Final[Format] = Format(name="yaml_xml", calls=YAMLStyle(), prompt=HEAD + _YAML_HOW + TAIL)
