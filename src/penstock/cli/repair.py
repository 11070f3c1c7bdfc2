"""``penstock repair``: broken JSON or XML in, the value and what was repaired out."""

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
from penstock.errors import JSONParseError, PenstockError
from penstock.values import coerce, rjson, rxml
from penstock.values.rjson import Repaired

_CODE = {"properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
_DEMO: list[tuple[str, str, Any]] = [
    ("cut off inside a string", '{"path": "notes.md", "content": "# Plan\\n1. measure', None),
    ("quotes and newlines not escaped", '{"text": "she said "hi"\nand left", "n": 3,}', None),
    ("a pattern and a Windows path", r'{"pattern": "\d+\s*", "file": "C:\Users\ada\x"}', None),
    ("Python, in a fence, in prose", "Sure!\n```json\n{'ok': True, 'n': [1, 2,]}\n```\nBye.", None),
    ("XML by a schema", "<path>a.cpp</path><content>if (a < b) vector<int> v;</content>", _CODE),
]

_XML_LEAD: Final = re.compile(r"\s*(?:```\w*\s*)?<")


class InputKind(StrEnum):
    """What the text is."""

    auto = "auto"
    json = "json"
    xml = "xml"


def command(
    file: Annotated[
        Path | None, typer.Argument(help="The text to mend; without it, or as -, a pipe is read.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A JSON Schema that the value is fitted to.")
    ] = None,
    kind: Annotated[
        InputKind, typer.Option("--as", help="What the text is; auto takes a leading < for XML.")
    ] = InputKind.auto,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show what is mended on a few broken outputs.")
    ] = False,
) -> None:
    """Repair broken JSON or XML: the value goes to stdout, what was repaired to stderr."""
    if demo:
        _show_demo()
        return
    if file is None and sys.stdin.isatty():
        raise typer.BadParameter("give a file or pipe a text in")
    try:
        mended = _mend(_read_text(file), kind, _read_schema(schema))
        _show_value(Console(), mended)
    except PenstockError as exc:
        _complain(str(exc))
        raise typer.Exit(1) from exc
    _show_notes(Console(stderr=True), mended)


def _read_text(file: Path | None) -> str:
    is_pipe = file is None or str(file) == "-"
    try:
        data = sys.stdin.buffer.read() if file is None or is_pipe else file.read_bytes()
    except OSError as exc:
        _complain(f"{file}: {exc.strerror}")
        raise typer.Exit(2) from exc
    return data.decode("utf-8-sig", "replace")


def _read_schema(file: Path | None) -> Any:
    if file is None:
        return None
    try:
        schema = _json.decode(file.read_bytes())
    except OSError as exc:
        _complain(f"the schema {file}: {exc.strerror}")
        raise typer.Exit(2) from exc
    except JSONParseError as exc:
        _complain(f"the schema {file}: {exc}")
        raise typer.Exit(2) from exc
    if not isinstance(schema, (dict, bool)):
        _complain(f"the schema {file}: a JSON Schema is an object")
        raise typer.Exit(2)
    return schema


def _mend(text: str, kind: InputKind, schema: Any) -> Repaired:
    is_xml = kind is InputKind.xml or (kind is InputKind.auto and _XML_LEAD.match(text) is not None)
    if is_xml:
        told: list[str] = []
        return Repaired(rxml.loads(text, schema, on_error=told.append), told)
    mended = rjson.repair(text)
    if schema is None:
        return mended
    fitted = coerce(mended.value, schema)
    notes = [] if fitted is mended.value else ["fitted the value to its schema"]
    return Repaired(fitted, mended.repairs + notes)


def _show_demo() -> None:
    out = Console()
    for title, text, schema in _DEMO:
        out.rule(title, align="left", style="dim")
        out.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        mended = _mend(text, InputKind.auto, schema)
        _show_value(out, mended)
        _show_notes(out, mended)


def _show_value(out: Console, mended: Repaired) -> None:
    """Show the value: in colour on a terminal, else as JSON in UTF-8, whatever the locale."""
    strict = _json.encode_strict(mended.value)
    in_ascii = strict.isascii()  # half an emoji has no UTF-8 form: such a value came in escapes
    if out.is_terminal:
        in_ascii = in_ascii or out.encoding != "utf-8"
        out.print_json(strict.decode(), indent=2, ensure_ascii=in_ascii)
    else:
        typer.echo(json.dumps(mended.value, indent=2, ensure_ascii=in_ascii).encode())


def _show_notes(out: Console, mended: Repaired) -> None:
    for note in mended.repairs:
        _say(out, f"mended: {note}", "yellow")


def _complain(message: str) -> None:
    _say(Console(stderr=True), f"penstock: {message}", "red")


def _say(out: Console, message: str, style: str) -> None:
    """Print one line; a control character in it, which a model wrote, steers no terminal."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in message)
    out.print(shown, style=style, markup=False, highlight=False, soft_wrap=True)
