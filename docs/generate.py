"""Write the pages that the code knows better: ``python docs/generate.py``.

A page with generated tables has them between two comments; everything else in it is written by
hand. A test fails when a page is behind the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from penstock import apis, messages
from penstock.errors import UsageError
from penstock.events import Event
from penstock.formats import Format, model_names
from penstock.formats.registry import BUILT_IN
from penstock.gateway import config
from penstock.messages import AssistantMessage, Content, ErrorInfo, Text, ToolCall

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "penstock"


def event_table() -> str:
    """List every event: its class, its wire name, its fields."""
    rows = ["| class | `type` | fields | says |", "|---|---|---|---|"]
    for kind in get_args(Event):
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        rows.append(f"| `{kind.__name__}` | `{_tag(kind)}` | {fields} | {_says(kind)} |")
    return "\n".join(rows)


def block_table() -> str:
    """List every block of a message."""
    rows = ["| class | `type` | fields | says |", "|---|---|---|---|"]
    for kind in get_args(Content):
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        rows.append(f"| `{kind.__name__}` | `{_tag(kind)}` | {fields} | {_says(kind)} |")
    return "\n".join(rows)


def word_table() -> str:
    """List the words of the two small vocabularies."""
    rows = ["| vocabulary | words |", "|---|---|"]
    for name, words in (("StopReason", messages.StopReason), ("ErrorKind", messages.ErrorKind)):
        rows.append(f"| `{name}` | " + ", ".join(f"`{word}`" for word in get_args(words)) + " |")
    return "\n".join(rows)


def limit_table() -> str:
    """List every limit of the code that says what it is for."""
    rows = ["| limit | default | is for |", "|---|---|---|"]
    for file in sorted(SOURCE.rglob("*.py")):
        place = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for name, why in _LIMIT.findall(file.read_text()):
            default = getattr(import_module(f"penstock.{place}"), name)
            rows.append(f"| `{place}.{name}` | {default:,} | {' '.join(why.split())} |")
    return "\n".join(rows)


def format_list() -> str:
    """Show every format: the models that write it, and one call as it is written."""
    parts = []
    for format_ in BUILT_IN:
        models = f"Written by {', '.join(format_.models)}." if format_.models else ""
        parts += [f"### `{format_.name}`", models, _example_of(format_)]
    return "\n\n".join(part for part in parts if part)


def model_table() -> str:
    """List the models that are known by name, and what each writes."""
    rows = ["| name | format | reasoning | the prompt ends with |", "|---|---|---|---|"]
    for names, found in model_names.table():
        cells = [
            ", ".join(f"`{name}`" for name in names.split(", ")),
            f"`{found.format}`",
            f"`{found.reasoning}`" if found.reasoning else "its own",
            f"`{found.prompt_suffix.strip()}`".replace("|", "\\|") if found.prompt_suffix else "",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def stop_table() -> str:
    """List for each API the words that end an answer: those that are read, in bold the written."""
    rows = [
        f"| api | field | {' | '.join(f'`{end}`' for end in _ENDS)} |",
        "|---" * (len(_ENDS) + 2) + "|",
    ]
    for name, path in _STOP_FIELDS.items():
        api = apis.get(name)
        written = {end: _at(api.write_response(message), path) for end, message in _ENDS.items()}
        read = {word: _end_of(api, path, word) for word in _stop_words(name)}
        cells = [
            ", ".join(
                [f"**`{written[end]}`**"]
                + [f"`{word}`" for word in read if read[word] == end and word != written[end]]
            )
            for end in _ENDS
        ]
        rows.append(f"| `{name}` | `{'.'.join(map(str, path))}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _stop_words(name: str) -> list[str]:
    """Give every word for an end that the tables of an API know."""
    tables = import_module(f"penstock.apis.{name.replace('-', '_')}.tables")
    sets = [getattr(tables, group, ()) for group in ("STOP", "LENGTH", "TOOL_USE", "ENDINGS")]
    if name != "openai-responses":  # Its `FILTER` are words of another field.
        sets.append(getattr(tables, "FILTER", ()))
    return sorted(word for group in sets for word in group if word)


def _end_of(api: apis.Api, path: tuple[str | int, ...], word: str) -> str:
    """Tell what an answer that ends in *word* is read as."""
    end = "tool_use" if word.lower() in ("tool_calls", "function_call", "tool_use") else "stop"
    data = api.write_response(_ENDS[end])
    _at(data, path[:-1])[path[-1]] = word
    message = api.read_response(data)
    return message.error.kind if message.error else str(message.stop_reason)


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


_STOP_FIELDS: dict[str, tuple[str | int, ...]] = {
    "openai-chat": ("choices", 0, "finish_reason"),
    "openai-responses": ("status",),
    "anthropic": ("stop_reason",),
    "gemini": ("candidates", 0, "finishReason"),
    "ollama": ("done_reason",),
}
_ENDS = {
    "stop": AssistantMessage(content=[Text("Yes.")], stop_reason="stop"),
    "length": AssistantMessage(content=[Text("Yes.")], stop_reason="length"),
    "tool_use": AssistantMessage(content=[ToolCall("c", "f")], stop_reason="tool_use"),
    "filter": AssistantMessage(stop_reason="error", error=ErrorInfo("", "filter")),
    "refusal": AssistantMessage(stop_reason="error", error=ErrorInfo("", "refusal")),
}


def _example_of(format_: Format) -> str:
    for call in _EXAMPLES:
        with suppress(UsageError):
            written = format_.render_call(call)
            if ">>>" in written:  # In a block it would be taken for an example to run.
                return "\\\n".join(f"`{line}`" for line in written.splitlines())
            return f"````text\n{written}\n````"
    return "Has no calls."


_EXAMPLES = (
    ToolCall("call_1", "tide_at", {"port": "Leith", "hours": 6}),
    ToolCall("call_1", "write_file", {"path": "notes.md", "content": "High water at six.\n"}),
)

TABLES: dict[str, Callable[[], str]] = {
    "events": event_table,
    "blocks": block_table,
    "words": word_table,
    "limits": limit_table,
    "formats": format_list,
    "models": model_table,
    "stops": stop_table,
    "settings": config.reference,
    "flags": config.flag_reference,
}

_LIMIT = re.compile(r'^(MAX_\w+): Final = .*\n"""([^"]*)"""', re.MULTILINE)
_SLOT = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Give each page that has generated tables, with them as the code says they are."""
    found = {}
    for page in sorted(HERE.rglob("*.md")):
        text = page.read_text()
        filled = _SLOT.sub(lambda slot: f"{slot[1]}\n{TABLES[slot[2]]()}\n\n{slot[3]}", text)
        if _SLOT.search(text):
            found[page] = filled
    return found


def _tag(kind: type) -> str:
    tag: str = kind.__struct_config__.tag  # type: ignore[attr-defined]
    return tag


def _says(kind: type) -> str:
    return (kind.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
