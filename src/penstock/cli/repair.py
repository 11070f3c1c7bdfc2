"""``penstock repair``: broken JSON or XML in, the value and the repairs out."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from penstock import _json
from penstock.cli.output import argument, option, refuse, say
from penstock.errors import JSONParseError, PenstockError
from penstock.values import coerce, rjson, rxml
from penstock.values.rjson import Repaired

FAILED: Final = 1
"""The exit code if the text cannot be repaired."""

_CODE = {"properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
_DEMO: list[tuple[str, str, Any]] = [
    ("cut off inside a string", '{"path": "notes.md", "content": "# Plan\\n1. measure', None),
    ("quotes and newlines not escaped", '{"text": "she said "hi"\nand left", "n": 3,}', None),
    ("a pattern and a Windows path", r'{"pattern": "\d+\s*", "file": "C:\Users\ada\x"}', None),
    ("Python, in a fence, in prose", "Sure!\n```json\n{'ok': True, 'n': [1, 2,]}\n```\nBye.", None),
    ("XML by a schema", "<path>a.cpp</path><content>if (a < b) vector<int> v;</content>", _CODE),
]

_XML_START: Final = re.compile(r"\s*(?:```\w*\s*)?<")


class InputKind(StrEnum):
    """The syntax of the text."""

    auto = "auto"
    json = "json"
    xml = "xml"


def command(
    file: Annotated[
        Path | None, argument("File with the text to repair; - or nothing reads stdin.")
    ] = None,
    schema: Annotated[Path | None, option("JSON Schema to coerce the value to.")] = None,
    kind: Annotated[
        InputKind, option("Syntax of the text; auto: a leading < means XML.", "--as")
    ] = InputKind.auto,
    demo: Annotated[bool, option("Show the repairs of a few broken outputs.", "--demo")] = False,
) -> None:
    """Repair broken JSON or XML: print the value to stdout and the repairs to stderr."""
    if demo:
        _show_demo()
        return
    if file is None and sys.stdin.isatty():
        raise typer.BadParameter("pass a file, or pipe text to stdin")
    try:
        repaired = _repair(_read_text(file), kind, _read_schema(schema))
        _show_value(Console(), repaired)
    except PenstockError as exc:
        refuse(str(exc), exc, code=FAILED)
    _show_repairs(Console(stderr=True), repaired)


def _read_text(file: Path | None) -> str:
    is_pipe = file is None or str(file) == "-"
    try:
        data = sys.stdin.buffer.read() if file is None or is_pipe else file.read_bytes()
    except OSError as exc:
        refuse(f"{file}: {exc.strerror}", exc)
    return data.decode("utf-8-sig", "replace")


def _read_schema(file: Path | None) -> Any:
    if file is None:
        return None
    try:
        schema = _json.decode(file.read_bytes())
    except OSError as exc:
        refuse(f"cannot read the schema {file}: {exc.strerror}", exc)
    except JSONParseError as exc:
        refuse(f"invalid schema {file}: {exc}", exc)
    if not isinstance(schema, (dict, bool)):
        refuse(f"invalid schema {file}: a JSON Schema must be an object")
    return schema


def _repair(text: str, kind: InputKind, schema: Any) -> Repaired:
    is_auto_xml = kind is InputKind.auto and _XML_START.match(text) is not None
    if kind is InputKind.xml or is_auto_xml:
        repairs: list[str] = []
        return Repaired(rxml.loads(text, schema, on_error=repairs.append), repairs)
    repaired = rjson.repair(text)
    if schema is None:
        return repaired
    value = coerce(repaired.value, schema)
    notes = [] if value is repaired.value else ["coerced the value to its schema"]
    return Repaired(value, repaired.repairs + notes)


def _show_demo() -> None:
    out = Console()
    for title, text, schema in _DEMO:
        out.rule(title, align="left", style="dim")
        out.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        repaired = _repair(text, InputKind.auto, schema)
        _show_value(out, repaired)
        _show_repairs(out, repaired)


def _show_value(out: Console, repaired: Repaired) -> None:
    """Print the value: in colour on a terminal, else as JSON in UTF-8, whatever the locale."""
    strict = _json.encode_strict(repaired.value)
    in_ascii = strict.isascii()  # a lone surrogate, which has no UTF-8 form, stays an escape
    if out.is_terminal:
        in_ascii = in_ascii or out.encoding != "utf-8"
        out.print_json(strict.decode(), indent=2, ensure_ascii=in_ascii)
    else:
        typer.echo(json.dumps(repaired.value, indent=2, ensure_ascii=in_ascii).encode())


def _show_repairs(out: Console, repaired: Repaired) -> None:
    for repair in repaired.repairs:
        say(out, f"repaired: {repair}", "yellow")
