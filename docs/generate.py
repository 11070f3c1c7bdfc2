"""Write the tables of the documentation that are made from the code: ``python docs/generate.py``.

A page has such tables between two comments; everything else in it is written by hand. A test fails
if a page is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import reference_tables

from penstock import apis, config, messages
from penstock.errors import UsageError
from penstock.events import Event
from penstock.formats import Format, get, model_names
from penstock.formats.reasoning import ALIASES as REASONING_ALIASES
from penstock.formats.reasoning import USUAL
from penstock.formats.registry import ALIASES as FORMAT_ALIASES
from penstock.formats.registry import BUILT_IN
from penstock.messages import AssistantMessage, Content, ErrorInfo, Text, ToolCall

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "penstock"


def event_table() -> str:
    """List every event: its class, its wire name, its fields."""
    rows = ["| class | `type` | fields | meaning |", "|---|---|---|---|"]
    for kind in get_args(Event):
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        rows.append(f"| `{kind.__name__}` | `{_tag(kind)}` | {fields} | {_summary(kind)} |")
    return "\n".join(rows)


def block_table() -> str:
    """List every block of a message."""
    rows = ["| class | `type` | fields | meaning |", "|---|---|---|---|"]
    for kind in get_args(Content):
        fields = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        rows.append(f"| `{kind.__name__}` | `{_tag(kind)}` | {fields} | {_summary(kind)} |")
    return "\n".join(rows)


def word_table() -> str:
    """List the values of the two small vocabularies."""
    rows = ["| type | values |", "|---|---|"]
    for name, words in (("StopReason", messages.StopReason), ("ErrorKind", messages.ErrorKind)):
        rows.append(f"| `{name}` | " + ", ".join(f"`{word}`" for word in get_args(words)) + " |")
    return "\n".join(rows)


def limit_table() -> str:
    """List every limit of the code that has a docstring, by package."""
    packages: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        place = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for name, why in _LIMIT.findall(file.read_text()):
            default = getattr(import_module(f"penstock.{place}"), name)
            rows = packages.setdefault(place.partition(".")[0], [])
            rows.append(f"| `{place}.{name}` | {default:,} | {' '.join(why.split())} |")
    head = ["| limit | default | meaning |", "|---|---|---|"]
    return "\n\n".join(
        "\n".join([f"### `{package}`", "", *head, *rows]) for package, rows in packages.items()
    )


def format_list() -> str:
    """Show every format: the models that write it, and a call in it."""
    parts = []
    for format_ in BUILT_IN:
        models = f"Written by {', '.join(format_.models)}." if format_.models else ""
        parts += [f"## `{format_.name}`", models, _example_of(format_)]
    return "\n\n".join(part for part in parts if part)


def model_table() -> str:
    """List the models that are known by name, and the format of each."""
    rows = {}
    for names, found in model_names.table():
        reasoning = f"`{found.reasoning}`" if found.reasoning else "the format's"
        if found.prompt_suffix:
            suffix = found.prompt_suffix.strip().replace("|", "\\|")
            reasoning += f", {'open' if found.opens_in_reasoning else 'after'}: `{suffix}`"
        link = f"[`{found.format}`](formats.md#{found.format})"
        for name in names.split(", "):
            template = "yes" if _has_template(found.format) else "no"
            rows[name] = f"| `{name}` | {link} | {reasoning} | {template} |"
    head = ["| model | format | reasoning | template |", "|---|---|---|---|"]
    return "\n".join([*head, *(row for _, row in sorted(rows.items()))])


def _has_template(name: str | Format) -> bool:
    """Return whether a format can be written as a response template."""
    format_ = get(name)
    try:
        return isinstance(format_, Format) and bool(format_.response_template(start_anchor="\n"))
    except UsageError:
        return False


def alias_table() -> str:
    """List the names that inference engines have for formats and for styles of reasoning."""
    rows = ["| name | kind | in penstock |", "|---|---|---|"]
    for kind, aliases in (("format", FORMAT_ALIASES), ("reasoning", REASONING_ALIASES)):
        for alias, own in sorted(aliases.items()):
            meant = "the usual style of the format" if own == USUAL else f"`{own}`"
            rows.append(f"| `{alias}` | {kind} | {meant} |")
    return "\n".join(rows)


def stop_table() -> str:
    """List the values that end a response in each API; the value that is written is bold."""
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
    """Return every value for the end of a response that an API knows."""
    module = import_module(f"penstock.apis.{name.replace('-', '_')}")
    tables = getattr(module, "tables", module)  # Ollama is one module.
    sets = [getattr(tables, group, ()) for group in ("STOP", "LENGTH", "TOOL_USE", "ENDINGS")]
    if name != "openai-responses":  # Its `FILTER` are words of another field.
        sets.append(getattr(tables, "FILTER", ()))
    return sorted(word for group in sets for word in group if word)


def _end_of(api: apis.Api, path: tuple[str | int, ...], word: str) -> str:
    """Return what a response that ends with *word* is read as."""
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
            if ">>>" in written:  # A block with it would be run as an example.
                return "\\\n".join(f"`{line}`" for line in written.splitlines())
            return f"````text\n{written}\n````"
    return "This format has no calls."


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
    "aliases": alias_table,
    "stops": stop_table,
    "settings": config.reference,
    "flags": config.flag_reference,
    **reference_tables.TABLES,
    **{
        f"python_{page}": partial(reference_tables.module_list, page)
        for page in reference_tables.PUBLIC
    },
}

_LIMIT = re.compile(r'^(MAX_\w+): Final = .*\n"""([^"]*)"""', re.MULTILINE)
_SLOT = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Return each page that has generated tables, with its tables up to date."""
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


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
