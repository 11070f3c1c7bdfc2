"""The record of a session: a header, and entries that form a tree.

A record is a list of lines, each a JSON object with a `type`. The first is the header. Every other
line has an `id` and the id of its `parent`, the entry that it follows. So a record is a tree:
continuing from an earlier entry adds a branch, and nothing is ever rewritten.

Records outlive versions in both directions. A line that this version does not understand is a
`Foreign` entry: it keeps its place in the tree and its bytes, and is skipped. A line of an older
version is upgraded by `STEPS` as it is read. A repeated header says that the lines after it are of
its version, so that a newer penstock can continue an older file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from penstock import _json
from penstock.errors import JSONParseError
from penstock.messages import ToolResult
from penstock.request import Message

VERSION: Final = 1
"""The version of the records that are written."""

MAX_FAULTS: Final = 100
"""How many unreadable lines are reported one by one: a file that is not a record has only those."""

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts a line of one version to the next."""

STEPS: Final[Mapping[int, Upgrade]] = {}
"""The upgrades by version; there are no older versions yet."""


class Header(Struct, frozen=True, omit_defaults=True, tag="session", tag_field="type"):
    """The first line of a record; *parent* is the id of the session that it was forked from."""

    version: int
    id: str
    created: float = 0.0
    cwd: str = ""
    title: str = ""
    parent: str = ""


class Entry(Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """An event of a session, after the entry *parent*, at *time* in seconds since 1970."""

    id: str
    parent: str = ""
    time: float = 0.0

    @property
    def type(self) -> str:
        """The wire name, such as ``message``."""
        return str(self.__struct_config__.tag)


class MessageEntry(Entry, frozen=True, tag="message", kw_only=True):
    """A message; one that is not *kept* is not part of the context.

    *number* counts the messages of the record up to this one: a list of sessions reads only the
    ends of files.
    """

    message: Message
    kept: bool = True
    number: int = 0


class ToolStartEntry(Entry, frozen=True, tag="tool_start", kw_only=True):
    """A call is about to run with these arguments; written before its tool is called.

    *approval* is ``approved``, ``edited``, ``retried``, or empty if none was needed.
    """

    call: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    approval: str = ""


class ToolEndEntry(Entry, frozen=True, tag="tool_end", kw_only=True):
    """The result of a call whose message has to wait for other calls or for the response."""

    result: ToolResult


class CompactionEntry(Entry, frozen=True, tag="compaction", kw_only=True):
    """The messages before the entry *first_kept* are replaced by *summary*.

    *tokens* is the length of the context before. Without *first_kept*, no message is kept.
    """

    summary: str
    first_kept: str = ""
    tokens: int = 0


class FindingEntry(Entry, frozen=True, tag="finding", kw_only=True):
    """Rules or guards of these *names* have fired."""

    source: str
    names: list[str] = field(default_factory=list)


class ModelEntry(Entry, frozen=True, tag="model_change", kw_only=True):
    """The following responses are from this model."""

    model: str


class LabelEntry(Entry, frozen=True, tag="label", kw_only=True):
    """The label of the entry *target*; an empty *label* removes it."""

    target: str
    label: str = ""


class TitleEntry(Entry, frozen=True, tag="title", kw_only=True):
    """The title of the session."""

    title: str


class CustomEntry(Entry, frozen=True, tag="custom", kw_only=True):
    """Data of an extension; not sent to the model."""

    name: str
    data: Any = None


class Foreign(Entry, frozen=True, tag="foreign", kw_only=True):
    """An entry of a kind that this version does not know; *line* is the original line."""

    kind: str
    line: bytes


Known = (
    MessageEntry
    | ToolStartEntry
    | ToolEndEntry
    | CompactionEntry
    | FindingEntry
    | ModelEntry
    | LabelEntry
    | TitleEntry
    | CustomEntry
)
"""Any entry that this version understands."""


class Fault(Struct, frozen=True):
    """A line that is not an entry; it stays in the record."""

    line: int
    reason: str


class Contents(Struct):
    """The contents of a record; *unread* counts all unreadable lines, *faults* lists the first."""

    header: Header | None = None
    entries: list[Entry] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unread: int = 0


class EntryLine(Struct, frozen=True):
    """An item of a record, and its line."""

    item: Header | Entry
    data: bytes


def write_line(item: Header | Entry) -> EntryLine:
    """Write *item*; raise `UsageError` if something in it has no JSON form."""
    # An older version that opens and forks a newer record keeps what it does not understand, byte
    # for byte.
    data = item.line if isinstance(item, Foreign) else _json.encode(item)
    return EntryLine(item, data)


def read_lines(lines: Iterable[bytes], steps: Mapping[int, Upgrade] = STEPS) -> Contents:
    """Read a record; never raises."""
    contents = Contents()
    version = VERSION
    for number, line in enumerate(lines, 1):
        data = line.strip()
        # An editor may have added an empty line.
        if not data:
            continue
        try:
            item = read_line(data, version, steps)
        except JSONParseError as exc:
            contents.unread += 1
            if len(contents.faults) < MAX_FAULTS:
                contents.faults.append(Fault(number, str(exc)))
        else:
            if isinstance(item, Entry):
                contents.entries.append(item)
            else:
                version = item.version
                contents.header = contents.header or item
    return contents


def read_line(
    data: bytes, version: int = VERSION, steps: Mapping[int, Upgrade] = STEPS
) -> Header | Entry:
    """Read one line; raise `JSONParseError` if it is not a JSON object with an id."""
    # Lines of a newer version have no step: they are read as they are, or become `Foreign`.
    if version in steps:
        return _read_older(data, version, steps)
    try:
        item: Header | Entry = _json.decode_as(data, Header | Known)
    except JSONParseError:
        item = _read_foreign(data)
    return item


def _read_older(data: bytes, version: int, steps: Mapping[int, Upgrade]) -> Header | Entry:
    """Upgrade a line step by step; a header is the same in all versions."""
    value = _read_object(data)
    if value.get("type") == "session":
        return read_line(data, steps={})
    try:
        while version in steps:
            value = steps[version](value)
            version += 1
    except (LookupError, TypeError, ValueError, AttributeError):  # not what a step expects
        return _read_foreign(data)
    return read_line(_json.encode(value), steps={})


def _read_foreign(data: bytes) -> Foreign:
    value = _read_object(data)
    kind, id_, parent, time = map(value.get, ("type", "id", "parent", "time"))
    if not isinstance(kind, str) or not isinstance(id_, str) or not id_ or kind == "session":
        raise JSONParseError("the line has no type or no id")
    return Foreign(
        id=id_,
        parent=parent if isinstance(parent, str) else "",
        time=time if isinstance(time, float) else 0.0,
        kind=kind,
        line=data,
    )


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        value = _json.decode(data)
    except (JSONParseError, msgspec.MsgspecError, UnicodeError) as exc:
        raise JSONParseError(f"not JSON: {type(exc).__name__}") from exc
    if not isinstance(value, dict):
        raise JSONParseError("not a JSON object")
    return value


# --- huge entries ---


MAX_STRING: Final = 500_000
"""How many characters of a string in a huge entry are kept: more than most models can read.

A tool may return a gigabyte, and then the record could not be opened any more."""

E = TypeVar("E", bound=Entry)


def cut_long_strings(entry: E) -> E:
    """Return *entry* with every long string cut; signatures are dropped instead."""
    value = _cut(msgspec.to_builtins(entry))
    return msgspec.convert(value, type(entry))


def _cut(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    if not isinstance(value, str) or len(value) <= MAX_STRING:
        return value
    # A signature is opaque, so a cut one is invalid.
    if name == "signature":
        return ""
    return f"{value[:MAX_STRING]}\n[{len(value) - MAX_STRING} characters were not recorded]"
