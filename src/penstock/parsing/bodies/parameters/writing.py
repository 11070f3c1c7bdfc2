"""What the parameters of a call come to: each written when its text is whole, or as it comes.

By the schema, or by what the wire declares; a parameter that comes again counts as it came last, or
makes a list where the dialect says so. A parameter that may hold all arguments waits for what
follows it.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.parameters.dialects import Dialect
from penstock.parsing.bodies.parameters.nested import list_of, nested_value
from penstock.parsing.bodies.parameters.values import declared, object_in, typed
from penstock.values.schema import Schema

_WRAPPERS: Final = ("arguments", "input")
"""What a parameter may be called that holds all arguments."""


class Parameter(Struct, frozen=True):
    """A parameter; *is_text* is what the wire declares its value to be, if it does."""

    key: str
    is_text: bool | None = None


class ParameterWriter:
    """Writes the parameters of one call to *writer*; *schema* is the tool's."""

    def __init__(self, dialect: Dialect, writer: ArgumentWriter, schema: Schema | None) -> None:
        self._dialect = dialect
        self._writer = writer
        self._schema = schema
        self._given: set[str] = set()
        self._texts: dict[str, list[str]] = {}  # where a parameter that comes again makes a list
        self._wrapped: tuple[Parameter, str] | None = None  # may hold all arguments

    def open_text(
        self, parameter: Parameter, *, holds_elements: bool = False
    ) -> ArgumentWriter | None:
        """Begin *parameter*; give what writes its text, if it is a string that streams.

        What begins with an element is one only if its schema says so.
        """
        self._settle()
        child = self._writer.child(parameter.key)
        if holds_elements and (child is None or child.free):
            return None
        streams = (
            self._writer.streams(parameter.key) if parameter.is_text is None else parameter.is_text
        )
        if not streams or parameter.key in self._texts or self._may_wrap(parameter):
            return None
        self._writer.open_text(parameter.key)
        return self._writer

    def note(self, parameter: Parameter, text: str) -> None:
        """Say that a string that streamed has ended."""
        self._given.add(parameter.key)
        if self._dialect.nests:
            self._texts[parameter.key] = [text]

    def put(self, parameter: Parameter, text: str) -> None:
        """Take a value whose *text* is whole."""
        key = parameter.key
        if self._may_wrap(parameter):
            self._wrapped = parameter, text
        elif not self._dialect.nests:
            self._writer.write(key, self._read(parameter, text))
        elif key in self._texts:
            self._texts[key].append(text)
        else:
            self._texts[key] = [text]
            prefix = self._dialect.spelling.prefix
            self._writer.write(key, nested_value(text, self._writer.child(key), prefix))
        self._given.add(key)

    def put_nothing(self, parameter: Parameter) -> None:
        """Take a value without any text."""
        self._settle()
        self.put(parameter, "")

    def close(self) -> None:
        """Say that there are no more parameters: write what waited for that."""
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            inside = object_in(wrapped[1])
            if inside is None:
                self._writer.write(wrapped[0].key, self._read(*wrapped))
            for key, value in (inside or {}).items():
                self._writer.put(key, value)
        for key, texts in self._texts.items():
            if len(texts) > 1:
                prefix = self._dialect.spelling.prefix
                self._writer.write(key, list_of(texts, self._writer.child(key), prefix))

    def is_missing(self, key: str, open_parameter: Parameter) -> bool:
        """Tell whether *key* is a parameter that was not given.

        Of a tool that nobody knows, or whose schema names none, any is one.
        """
        if self._schema is None or not self._schema.properties:
            return True
        is_given = key in self._given or key == open_parameter.key
        return key in self._schema.properties and not is_given

    def _may_wrap(self, parameter: Parameter) -> bool:
        is_declared = self._schema is not None and parameter.key in self._schema.properties
        may = self._dialect.unwraps and parameter.key in _WRAPPERS and not is_declared
        return may and not self._given

    def _settle(self) -> None:
        """Write the parameter that would have held all arguments: it is not alone."""
        wrapped, self._wrapped = self._wrapped, None
        if wrapped is not None:
            self._writer.write(wrapped[0].key, self._read(*wrapped))

    def _read(self, parameter: Parameter, text: str) -> Any:
        if parameter.is_text is None:
            return typed(text, self._writer.child(parameter.key))
        return text if parameter.is_text else declared(text)
