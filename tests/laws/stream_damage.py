"""Law 11 against damage of whole streams: pieces that are lost, moved or spliced, and lost escapes.

`laws.damage` and `laws.hostile` break one place of the markup. Here a proxy loses, repeats or moves
a piece of the text, two responses are mixed, the model stops and closes other brackets, two tags
change places, or escapes and quotes are written otherwise in all of the text. Arguments are code,
shell commands, JSON, paths and nested values.

A complete call is wrong if it is not one that was rendered, unless the damaged text says nothing
else: it contains the call as the format renders it, or it is nearer to the response with this call
than to the one that was damaged. Nearer means that fewer characters differ. So damage that only
changes a value is not counted, and markup in a value or a value that lost a part is.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from laws.damage import Setting
from laws.hostile import find_markup
from penstock import Parser
from penstock.errors import UsageError
from penstock.events import ToolCallEnd
from penstock.formats import Format
from penstock.messages import ToolCall
from penstock.tools import Tool

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_TEXTS: Final[dict[str, Any]] = {"type": "array", "items": _TEXT}


def _tool(name: str, required: tuple[str, ...], **properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name, "", schema)


TOOLS: Final = [
    _tool("write_file", ("path", "content"), path=_TEXT, content=_TEXT),
    _tool(
        "edit_file",
        ("path", "old", "new"),
        path=_TEXT,
        old=_TEXT,
        new=_TEXT,
        all={"type": "boolean"},
    ),
    _tool(
        "run_shell",
        ("command",),
        command=_TEXT,
        timeout={"type": "integer"},
        env={"type": "object", "additionalProperties": _TEXT},
    ),
    _tool("search", ("pattern",), pattern=_TEXT, paths=_TEXTS, limit={"type": "integer"}),
    _tool(
        "add_rows",
        ("rows",),
        rows={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "name": _TEXT, "tags": _TEXTS},
            },
        },
    ),
    _tool("get_status", ()),
]
_CODE: Final = (
    'def add(a, b):\n    """Add them."""\n    return a + b\n',
    'const f = (x) => {\n  return { ok: true, "items": [x, "y"] };\n};\n',
    'int main(void) {\n\tprintf("a < b && c > d\\n");\n}\n',
    '{"name": "demo", "scripts": {"test": "jest --ci"}, "list": [1, 2]}',
    '<ul class="nav">\n  <li><a href="/x?a=1&b=2">Home &amp; more</a></li>\n</ul>\n',
    '# Title\n\n- one\n\n```python\nprint("x")\n```\n',
    "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = {'b': [1, 2]}\n",
)
_COMMANDS: Final = (
    "ls -la",
    "git commit -m \"Fix 'it'\" && git push",
    'grep -rn "foo(.*)" src | head -n 5 > out.txt 2>&1',
    "cat <<EOF > a.txt\nhello $USER\nEOF",
)
_WORDS: Final = (
    "hello",
    'Say "hi", then go.',
    "",
    "a, b",
    "key: value",
    "12",
    "[1]",
    "end}",
    "é 😀",
)
_PATHS: Final = ("a.txt", "src/main.py", "C:\\Users\\me\\notes.txt", "docs/read me.md")
_ROWS: Final = (
    [{"id": 1, "name": "Ann", "tags": ["x"]}, {"id": 2, "name": 'Bob "B"', "tags": []}],
    [{"id": 3, "name": "", "tags": ["z"]}],
)
_PROSE: Final = ("I will write the file now.", "Now the second step: run the tests.", "Done.")


class Response(NamedTuple):
    """A response as it was meant: its text, its calls, and how the calls become the text."""

    text: str
    calls: tuple[ToolCall, ...]
    write: Callable[[tuple[ToolCall, ...]], str]


class DamagedStream(NamedTuple):
    """A damaged *text*, the responses in it, and whether it was cut."""

    text: str
    meant: tuple[Response, ...]
    way: str
    is_cut: bool


def damaged_streams(fmt: Format, number: int, seed: int = 1) -> Iterator[DamagedStream]:
    """Yield *number* damaged texts of *fmt*, the same ones each time."""
    random = Random(f"{fmt.name} {seed}")
    ways = list(_WAYS)
    made = 0
    while made < number:
        response, other = _make_response(fmt, random), _make_response(fmt, random)
        for way in random.sample(ways, 6):
            text = _WAYS[way](response, other, random)
            if text != response.text and made < number:
                made += 1
                meant = (response, other) if way in _MIXES else (response,)
                yield DamagedStream(text, meant, way, is_cut=way == "cut")


def _make_response(fmt: Format, random: Random) -> Response:
    before = random.choice(("", "", random.choice(_PROSE) + "\n"))

    def write(calls: tuple[ToolCall, ...]) -> str:
        return before + fmt.render_calls(calls)

    while True:
        number = random.choice((1, 1, 2, 3))
        calls = tuple(_make_call(random, f"call_{at}") for at in range(number))
        try:
            return Response(write(calls), calls, write)
        except UsageError:
            continue


def _make_call(random: Random, id_: str) -> ToolCall:
    word = random.choice((random.choice(_CODE), random.choice(_WORDS), random.choice(_COMMANDS)))
    arguments: dict[str, Any]
    match random.randrange(6):
        case 0:
            name, arguments = "write_file", {"path": random.choice(_PATHS), "content": word}
        case 1:
            name = "edit_file"
            arguments = {"path": random.choice(_PATHS), "old": word, "new": random.choice(_CODE)}
            arguments |= random.choice(({}, {"all": True}))
        case 2:
            name, arguments = "run_shell", {"command": random.choice(_COMMANDS)}
            arguments |= random.choice(({}, {"timeout": 120}, {"env": {"A": "1", "B": "x y"}}))
        case 3:
            name, arguments = "search", {"pattern": word}
            arguments |= random.choice(({}, {"paths": ["src", "a b"]}, {"limit": 10}))
        case 4:
            name, arguments = "add_rows", {"rows": random.choice(_ROWS)}
        case _:
            name, arguments = "get_status", {}
    return ToolCall(id_, name, arguments)


# --- ways of damage -----------------------------------------------------------------------------

_TAG: Final = re.compile(r"</?[^\s<>]{1,60}(?: [^<>\n]{0,80})?>|\[/?[A-Z_]{3,}\]")
_CLOSERS: Final = ('"}', '"}}', "</tool_call>", "</function>\n</tool_call>", "<|im_end|>", ")]")
MAX_PIECE: Final = 40
"""How long a piece is that a proxy loses, repeats or moves."""

Change = Callable[[Response, Response, Random], str]


def _lose(response: Response, _: Response, random: Random) -> str:
    text = response.text
    at = random.randrange(len(text))
    return text[:at] + text[at + random.randint(1, MAX_PIECE) :]


def _repeat(response: Response, _: Response, random: Random) -> str:
    text = response.text
    at = random.randrange(len(text))
    return text[:at] + text[at : at + random.randint(1, MAX_PIECE)] + text[at:]


def _move(response: Response, _: Response, random: Random) -> str:
    text = response.text
    at, size = random.randrange(len(text)), random.randint(2, MAX_PIECE)
    rest = text[:at] + text[at + size :]
    to = min(len(rest), max(0, at + random.randint(-60, 60)))
    return rest[:to] + text[at : at + size] + rest[to:]


def _splice(response: Response, other: Response, random: Random) -> str:
    begun = response.text[: random.randrange(1, len(response.text))]
    return begun + other.text[random.randrange(len(other.text)) :]


def _insert_call(response: Response, other: Response, random: Random) -> str:
    text = response.text
    tags = [found.end() for found in _markup_tags(response)]
    at = random.choice(tags or [len(text)])
    return f"{text[:at]}{other.text}{text[at:]}"


def _mix_lines(response: Response, other: Response, random: Random) -> str:
    one, two = response.text.split("\n"), other.text.split("\n")
    lines = []
    while one or two:
        lines.append((one if one and (not two or random.random() < 1 / 2) else two).pop(0))
    return "\n".join(lines)


def _close_otherwise(response: Response, _: Response, random: Random) -> str:
    text = response.text
    return text[: random.randrange(1, len(text))] + random.choice(_CLOSERS)


def _stop(response: Response, _: Response, random: Random) -> str:
    return response.text[: random.randrange(1, len(response.text))]


def _swap_tags(response: Response, _: Response, random: Random) -> str:
    text, tags = response.text, _markup_tags(response)
    if not tags:
        return text
    one, two = sorted((random.choice(tags), random.choice(tags)), key=lambda tag: tag.start())
    if one is two:
        return text
    between = text[one.end() : two.start()]
    return text[: one.start()] + two[0] + between + one[0] + text[two.end() :]


def _misspell(response: Response, _: Response, random: Random) -> str:
    text = response.text
    places = [at for at, is_free in enumerate(_markup(response)) if is_free]
    at = random.choice(places)
    piece = random.choice(("", text[at] * 2, random.choice("\"'<>{}[]:,=/ \nax"), text[at] + " "))
    return text[:at] + piece + text[at + 1 :]


def _double_escapes(response: Response, _: Response, __: Random) -> str:
    return response.text.replace("\\", "\\\\")


def _lose_escape(response: Response, _: Response, random: Random) -> str:
    text = response.text
    places = [found.start() for found in re.finditer(r'\\(?=["\\])', text)]
    at = random.choice(places) if places else len(text)
    return text[:at] + text[at + 1 :]


def _escape_quotes(response: Response, _: Response, __: Random) -> str:
    return response.text.replace('"', '\\"')


def _change_quotes(response: Response, _: Response, random: Random) -> str:
    marks = zip(response.text, _markup(response), strict=True)
    return "".join(
        random.choice("“”") if char == '"' and is_free else char for char, is_free in marks
    )


def _write_entities(response: Response, _: Response, __: Random) -> str:
    return html.escape(response.text)


_WAYS: Final[dict[str, Change]] = {
    "piece lost": _lose,
    "piece repeated": _repeat,
    "piece moved": _move,
    "two responses spliced": _splice,
    "call inside a call": _insert_call,
    "lines of two responses": _mix_lines,
    "other brackets closed": _close_otherwise,
    "cut": _stop,
    "stopped": _stop,
    "two tags swapped": _swap_tags,
    "character of markup": _misspell,
    "escapes doubled": _double_escapes,
    "escape lost": _lose_escape,
    "all quotes escaped": _escape_quotes,
    "curly quotes": _change_quotes,
    "entities": _write_entities,
}
_MIXES: Final = {"two responses spliced", "call inside a call", "lines of two responses"}


def _markup(response: Response) -> list[bool]:
    return find_markup(response.text, response.calls)


def _markup_tags(response: Response) -> list[re.Match[str]]:
    is_markup = _markup(response)
    tags = _TAG.finditer(response.text)
    return [tag for tag in tags if all(is_markup[tag.start() : tag.end()])]


# --- the judgement ------------------------------------------------------------------------------


def read_stream(fmt: Format, damaged: DamagedStream, setting: Setting) -> list[ToolCall]:
    """Return the calls that are read out of the text of *damaged* in *setting*."""
    parser = Parser(
        setting.reader or fmt, TOOLS, arguments=setting.arguments, repair=setting.repair
    )
    events = [*parser.feed(damaged.text), *parser.finish(cut=damaged.is_cut)]
    return [event.call for event in events if isinstance(event, ToolCallEnd)]


def find_wrong_call(calls: list[ToolCall], damaged: DamagedStream) -> ToolCall | None:
    """Return the first complete call that is not what the text says; None if all are."""
    meant = [call for response in damaged.meant for call in response.calls]
    known = {_key(call) for call in meant}
    complete = (call for call in calls if call.complete and _key(call) not in known)
    return next((call for call in complete if not _is_plain(call, damaged)), None)


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(call.arguments, sort_keys=True)


def _is_plain(call: ToolCall, damaged: DamagedStream) -> bool:
    """Return whether the damaged text plainly says *call*, which was not meant."""
    for response in damaged.meant:
        distance = _count_changes(response.text, damaged.text)
        for at, other in enumerate(response.calls):
            calls = (*response.calls[:at], call, *response.calls[at + 1 :])
            for text in _write_otherwise(response, calls, other, call):
                if _count_changes(text, damaged.text) < distance:
                    return True
    try:
        return damaged.meant[0].write((call,)).split("\n", 1)[-1].strip() in damaged.text
    except UsageError:
        return False


def _write_otherwise(
    response: Response, calls: tuple[ToolCall, ...], one: ToolCall, other: ToolCall
) -> Iterator[str]:
    """Yield the response with *calls*: rendered, and with only the text of one value changed.

    A changed value may be rendered in another way, such as in a CDATA section.
    """
    with contextlib.suppress(UsageError):
        yield response.write(calls)
    if one.name != other.name or one.arguments.keys() != other.arguments.keys():
        return
    changed = [key for key, value in one.arguments.items() if other.arguments[key] != value]
    values = [(one.arguments[key], other.arguments[key]) for key in changed]
    if len(values) == 1 and all(isinstance(value, str) and value for value in values[0]):
        for form in (str, _quote, html.escape):
            old, new = map(form, values[0])
            yield response.text.replace(old, new, 1)


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


MAX_CELLS: Final = 400_000
"""How many pairs of characters are compared; texts that differ in more are far from each other."""


def _count_changes(one: str, other: str) -> int:
    """Return how many characters have to be added, removed or replaced to make *other* of *one*."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    end = 0
    while end < min(len(one), len(other)) and one[-1 - end] == other[-1 - end]:
        end += 1
    one, other = one[: len(one) - end], other[: len(other) - end]
    if not one or not other or len(one) * len(other) > MAX_CELLS:
        return max(len(one), len(other))
    row = list(range(len(other) + 1))
    for at, char in enumerate(one, 1):
        above, row[0] = row[0], at
        for place, mark in enumerate(other, 1):
            changed = above if char == mark else 1 + min(above, row[place], row[place - 1])
            above, row[place] = row[place], changed
    return row[-1]
