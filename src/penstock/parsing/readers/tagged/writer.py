"""What the parameters of a call come to: each written when its text is whole, or as it comes.

By the schema, or by what the wire declares. A parameter that may come again to make a list is
written when the call ends, so that its key is written once; any other that comes again makes the
call incomplete. A parameter that may hold all arguments waits for what follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import NoCallError
from penstock.parsing.readers.tagged.dialect import TagDialect
from penstock.parsing.readers.tagged.endings import UnclearError
from penstock.parsing.readers.tagged.values import (
    UnreadableValueError,
    declared,
    list_of,
    nested_value,
    object_in,
    repaired_list,
    typed,
)
from penstock.values.rxml.elements import is_list
from penstock.values.schema import Schema

_WRAPPERS: Final = ("arguments", "input")
"""What a parameter may be called that holds all arguments."""


class Parameter(Struct, frozen=True):
    """A parameter; *is_text* is what the wire declares its value to be, if it does."""

    key: str
    is_text: bool | None = None


class ParameterWriter:
    """Writes the parameters of one call to *writer*; *schema* is the tool's.

    *note* takes what was tolerated. With *repairs*, a bracket that a list lacks is added.
    """

    def __init__(
        self,
        dialect: TagDialect,
        writer: ArgumentWriter,
        schema: Schema | None,
        note: Callable[[str], None],
        *,
        repairs: bool = False,
    ) -> None:
        self._dialect = dialect
        self._writer = writer
        self._schema = schema
        self._tell = note
        self._repairs = repairs
        self._given: set[str] = set()
        self._waiting: dict[str, list[tuple[Parameter, str]]] = {}  # may come again
        self._wrapped: tuple[Parameter, str] | None = None  # may hold all arguments

    def child(self, key: str) -> Schema | None:
        """Return the schema of the parameter *key*, where one is known."""
        return self._writer.child(key)

    def open_text(
        self, parameter: Parameter, *, holds_elements: bool = False
    ) -> ArgumentWriter | None:
        """Begin *parameter*; return what writes its text, if it is a string that streams.

        What begins with an element is one only if its schema says so.
        """
        self._settle()
        key = parameter.key
        self._check_given(key)
        child = self._writer.child(key)
        if holds_elements and (child is None or child.free):
            return None
        streams = self._writer.streams(key) if parameter.is_text is None else parameter.is_text
        if not streams or self._may_repeat(key) or self._may_wrap(parameter):
            return None
        self._writer.open_text(key)
        return self._writer

    def note(self, parameter: Parameter, text: str) -> None:
        """Say that a string that streamed has ended."""
        del text
        self._given.add(parameter.key)

    def put(self, parameter: Parameter, text: str) -> None:
        """Take a value whose *text* is whole."""
        key = parameter.key
        if self._may_wrap(parameter):
            self._wrapped = parameter, text
        elif self._may_repeat(key):
            self._waiting.setdefault(key, []).append((parameter, text))
        else:
            self._writer.write(key, self._read(parameter, text))
        self._given.add(key)

    def put_whole(self, parameter: Parameter, text: str) -> None:
        """Take a value that did not come between its tags."""
        self._settle()
        self._check_given(parameter.key)
        self.put(parameter, text)

    def put_nothing(self, parameter: Parameter) -> None:
        """Take a value without any text."""
        self.put_whole(parameter, "")

    def close(self) -> None:
        """Say that there are no more parameters: write what waited for that."""
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            inside = object_in(wrapped[1])
            if inside is None:
                self._writer.write(wrapped[0].key, self._read(*wrapped))
            for key, value in (inside or {}).items():
                self._writer.put(key, value)
        for key, texts in self._waiting.items():
            self._writer.write(key, self._read_all(key, texts))
        self._waiting = {}

    def is_missing(self, key: str, open_parameter: Parameter) -> bool:
        """Return whether *key* is a parameter that was not given.

        Of a tool that nobody knows, or whose schema names none, any is one.
        """
        is_given = key in self._given or key == open_parameter.key
        if self._schema is None or not self._schema.properties:
            return bool(key) and not is_given
        return key in self._schema.properties and not is_given

    def is_declared(self, key: str) -> bool:
        """Return whether the tool has a parameter *key*."""
        return self._schema is not None and key in self._schema.properties

    @property
    def has_required(self) -> bool:
        """Whether all parameters were given that the tool requires, and at least one."""
        required = self._schema.required if self._schema is not None else ()
        return bool(self._given) and self._given.issuperset(required)

    def _check_given(self, key: str) -> None:
        if key in self._given and not self._may_repeat(key):
            raise UnclearError(f"the parameter {key!r} came twice")

    def _may_repeat(self, key: str) -> bool:
        """Return whether *key* may come again to make a list."""
        child = self._writer.child(key)
        if child is None or child.free:
            return self._dialect.nests and self._schema is not None
        return is_list(child) and "string" not in child.types

    def _may_wrap(self, parameter: Parameter) -> bool:
        is_declared = self.is_declared(parameter.key)
        may = self._dialect.unwraps and parameter.key in _WRAPPERS and not is_declared
        return may and not self._given

    def _settle(self) -> None:
        """Write the parameter that would have held all arguments: it is not alone."""
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            self._writer.write(wrapped[0].key, self._read(*wrapped))

    def _read(self, parameter: Parameter, text: str) -> Any:
        child = self._writer.child(parameter.key)
        if self._dialect.nests:
            return nested_value(text, child, self._dialect.spelling.prefix)
        if parameter.is_text and not is_list(child):
            return text
        if parameter.is_text is False:
            found = declared(text)
            if not isinstance(found, str) or not is_list(child):
                return found
        return self._typed(text, child)

    def _typed(self, text: str, schema: Schema | None) -> Any:
        try:
            return typed(text, schema)
        except UnreadableValueError as exc:
            found = repaired_list(text, schema) if self._repairs else None
            if found is None:
                raise NoCallError(str(exc)) from exc
            self._tell("added a bracket to a list")
            return found

    def _read_all(self, key: str, texts: list[tuple[Parameter, str]]) -> Any:
        """Read a parameter that came once, or several times to make a list."""
        if len(texts) == 1:
            return self._read(*texts[0])
        child = self._writer.child(key)
        if self._dialect.nests:
            prefix = self._dialect.spelling.prefix
            return list_of([text for _, text in texts], child, prefix)
        items: list[Any] = []
        for parameter, text in texts:
            found = self._read(parameter, text)
            items += found if isinstance(found, list) else [found]
        return items
