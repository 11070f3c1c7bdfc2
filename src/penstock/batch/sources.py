"""The inputs of a batch job, cut into parts, and what a worker does with one part.

A part is a piece of the input that is the same in every run: a number of lines, of rows of a
Parquet file, or of requests of the gateway's log. The parent process cuts, which is cheap; workers
decode, parse and write. So a part that was finished before a job was killed need not be parsed
again.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, field, structs

from penstock import _json
from penstock.batch.rows import ParsedRow, RowParser, make_row
from penstock.errors import JSONParseError, UsageError

Kind = Literal["jsonl", "parquet", "log"]

PART_ROWS: Final = 5_000
"""How many rows a part has: about a second of work, so little is lost when a job is killed."""

PART_BYTES: Final = 16 << 20
"""How many bytes of lines a part has at most, unless a single line is longer."""

PART_REQUESTS: Final = 200
"""How many requests of the log a part has: each is a stream of many chunks."""

MAX_NAMES: Final = 20
"""How many fields an error names."""

_SUFFIXES: Final[dict[str, Kind]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson.gz": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class BatchOptions(Struct, frozen=True, kw_only=True):
    """How the rows of a job are parsed; the fields are those of `TableParser`.

    They are sent to worker processes and kept with unfinished output, so they are plain JSON.
    """

    format: str = "auto"
    tools: list[dict[str, Any]] = field(default_factory=list)
    column: str = "response"
    tools_column: str | None = None
    finish_column: str | None = None
    prefix: str = ""
    spans: bool = True
    unread: bool = True
    reasoning: str | None = None
    repair: bool = False
    trim: bool = False
    fenced: Literal["text", "calls"] = "text"

    def parser_options(self) -> dict[str, Any]:
        """Return the options of `RowParser`."""
        columns = ("column", "tools_column", "finish_column", "prefix")
        return {name: one for name, one in structs.asdict(self).items() if name not in columns}

    def log_changes(self) -> dict[str, Any]:
        """Return what replaces the options of a logged request: those that are not defaults."""
        names = ("format", "reasoning", "repair", "trim", "fenced")
        given, defaults = structs.asdict(self), structs.asdict(BatchOptions())
        return {name: given[name] for name in names if given[name] != defaults[name]}


class BatchPart(Struct, frozen=True):
    """A piece of the input: its number, its first row, its content, and how far the input is read.

    *content* are lines, a table in Arrow's IPC format, or the ids of requests as JSON.
    """

    number: int
    first: int
    rows: int
    content: bytes
    position: int


class BatchSource(Protocol):
    """An input that can be cut into parts."""

    kind: Kind
    size: int | None
    """What `BatchPart.position` counts up to, or None if that is not known."""

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the content, to notice that it changed between two runs."""

    def is_file(self, path: Path) -> bool:
        """Return whether *path* is the file that is read."""

    def parts(self) -> Iterator[BatchPart]:
        """Yield the parts, always the same ones."""


def kind_of_file(path: Path) -> Kind:
    """Return the kind of the file *path* by its name; raise `UsageError` for any other."""
    name = path.name.lower()
    for suffix, kind in _SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    known = ", ".join(_SUFFIXES)
    raise UsageError(
        f"Unknown kind of file {path.name!r}: its name has to end with one of {known}."
    )


class _FileSource:
    """What the inputs that are files have in common."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fingerprint(self) -> dict[str, Any]:
        """Return name, size and time of the file."""
        stat = self._path.stat()
        return {"file": self._path.name, "size": stat.st_size, "modified": stat.st_mtime_ns}

    def is_file(self, path: Path) -> bool:
        """Return whether *path* is the file that is read."""
        return path.exists() and path.samefile(self._path)


class LinesSource(_FileSource):
    """A file with a JSON object on each line; it may be compressed with gzip."""

    kind: Kind = "jsonl"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.size: int | None = path.stat().st_size

    def check_fields(self, options: BatchOptions) -> None:
        """Raise `UsageError` if no row of the first part has a field that *options* name."""
        missing = {options.column, options.tools_column, options.finish_column} - {None}
        found: dict[str, None] = {}  # in the order of the file
        part = next(self.parts(), None)
        for line in part.content.split(b"\n") if part is not None else ():
            with suppress(JSONParseError):
                fields = _json.decode(line)
                if isinstance(fields, dict):
                    found |= dict.fromkeys(fields)
                    missing -= fields.keys()
            if not missing:
                return
        for name in (options.column, options.tools_column, options.finish_column):
            if name in missing and found:
                raise UsageError(
                    f"No row has the field {name!r}; the fields of the first rows are: "
                    f"{', '.join(list(found)[:MAX_NAMES])}."
                )

    def parts(self) -> Iterator[BatchPart]:
        """Yield parts of lines; a part ends after `PART_ROWS` lines or `PART_BYTES` bytes."""
        with self._path.open("rb") as file:
            is_compressed = self._path.name.lower().endswith(".gz")
            stream: Iterable[bytes] = gzip.GzipFile(fileobj=file) if is_compressed else file
            number = first = 0
            lines: list[bytes] = []
            length = 0
            for line in _read_lines(stream, self._path):
                lines.append(line)
                length += len(line)
                if len(lines) >= PART_ROWS or length >= PART_BYTES:
                    yield BatchPart(number, first, len(lines), b"".join(lines), file.tell())
                    number, first = number + 1, first + len(lines)
                    lines, length = [], 0
            if lines:
                yield BatchPart(number, first, len(lines), b"".join(lines), file.tell())


def _read_lines(stream: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of *stream*; raise `UsageError` where a compressed file is damaged."""
    try:
        yield from stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
        raise UsageError(f"{path} is not a whole gzip file: {exc}") from exc


class ParquetSource(_FileSource):
    """A Parquet file."""

    kind: Kind = "parquet"

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - it is an extra

        super().__init__(path)
        try:
            self._file = pq.ParquetFile(path)
        except ValueError as exc:  # pyarrow's `ArrowInvalid` is one
            raise UsageError(f"{path} is not a Parquet file: {exc}") from exc
        self.schema = self._file.schema_arrow
        self.size: int | None = self._file.metadata.num_rows

    def parts(self) -> Iterator[BatchPart]:
        """Yield parts of `PART_ROWS` rows."""
        first = 0
        batches = self._file.iter_batches(batch_size=PART_ROWS)
        for number, batch in enumerate(batches):
            content = _write_ipc(batch)
            yield BatchPart(number, first, batch.num_rows, content, first + batch.num_rows)
            first += batch.num_rows


class LogSource:
    """The requests *ids* of the log at *url*, oldest first."""

    kind: Kind = "log"

    def __init__(self, url: str, ids: list[str]) -> None:
        self.url = url
        self._ids = ids
        self.size: int | None = len(ids)

    def fingerprint(self) -> dict[str, Any]:
        """Return the number of requests and the first and the last of them."""
        return {"requests": len(self._ids), "first": self._ids[:1], "last": self._ids[-1:]}

    def restrict(self, earlier: dict[str, Any]) -> None:
        """Keep only the requests of the fingerprint *earlier*: a log grows between two runs.

        If some of them are missing, all requests are kept, and the fingerprint is another one.
        """
        ends = [*(earlier.get("first") or ()), *(earlier.get("last") or ())]
        if len(ends) == 2 and all(one in self._ids for one in ends):  # noqa: PLR2004 - both ends
            kept = self._ids[self._ids.index(ends[0]) : self._ids.index(ends[1]) + 1]
            if len(kept) == earlier.get("requests"):
                self._ids, self.size = kept, len(kept)

    def is_file(self, path: Path) -> bool:
        """Return False: the database is not a file of results."""
        del path
        return False

    def parts(self) -> Iterator[BatchPart]:
        """Yield parts of `PART_REQUESTS` requests."""
        for number, first in enumerate(range(0, len(self._ids), PART_REQUESTS)):
            ids = self._ids[first : first + PART_REQUESTS]
            yield BatchPart(number, first, len(ids), _json.encode(ids), first + len(ids))


# --- work on one part -----------------------------------------------------------------------------


class PartSummary(Struct):
    """The counts of a part: rows by outcome, calls, and rows with a repaired call."""

    outcomes: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    repaired: int = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.outcomes.values())

    def add(self, other: PartSummary) -> None:
        """Add the counts of *other*."""
        for outcome, number in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + number
        self.calls += other.calls
        self.repaired += other.repaired


class PartWorker:
    """Parses parts of one job; each worker process has one.

    *source* is the kind of the input, *target* that of the output, and *url* the database of a log.
    """

    def __init__(self, options: BatchOptions, source: Kind, target: Kind, url: str = "") -> None:
        self.setup = (options, source, target, url)
        self._options = options
        self._source = source
        self._target = target
        self._url = url
        self._parser = RowParser(**options.parser_options())

    def run(self, part: BatchPart, path: Path) -> PartSummary:
        """Parse *part* and write the results to *path*, which exists only when they are whole."""
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        is_arrow = self._source == self._target == "parquet"
        summary = self._parse_arrow(part, draft) if is_arrow else self._parse_rows(part, draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        path.with_suffix(".json").write_bytes(_json.encode(summary))
        draft.replace(path)
        return summary

    def check_schema(self, schema: Any) -> None:
        """Raise `UsageError` if a Parquet file of *schema* cannot be parsed with the options."""
        from penstock.batch.table import TableParser  # noqa: PLC0415 - it needs an extra

        TableParser(**structs.asdict(self._options)).schema_for(schema)

    def make_empty_table(self, source: BatchSource) -> Any:
        """Return a table without rows that has the columns of the output."""
        if not isinstance(source, ParquetSource):
            return _make_table([], self._options.prefix)
        from penstock.batch.table import TableParser  # noqa: PLC0415 - it needs an extra

        return TableParser(**structs.asdict(self._options))(source.schema.empty_table())

    def _parse_rows(self, part: BatchPart, draft: Path) -> PartSummary:
        readers = {"jsonl": self._read_lines, "parquet": self._read_ipc, "log": self._read_log}
        pairs = readers[self._source](part)
        rows = [row for _, row in pairs]
        if self._target == "parquet":
            _write_parquet(_make_table(pairs, self._options.prefix), draft)
        else:
            prefix = self._options.prefix
            lines = [_json.encode_wire(kept | _as_fields(row, prefix)) for kept, row in pairs]
            draft.write_bytes(b"".join(line + b"\n" for line in lines))
        outcomes = Counter[str](row.outcome for row in rows)
        repaired = sum(1 for row in rows if row.repairs)
        return PartSummary(dict(outcomes), sum(len(row.calls) for row in rows), repaired)

    def _parse_arrow(self, part: BatchPart, draft: Path) -> PartSummary:
        from penstock.batch.table import TableParser  # noqa: PLC0415 - it needs an extra

        table = TableParser(**structs.asdict(self._options))(_read_ipc(part.content))
        _write_parquet(table, draft)
        column = {name: table.column(self._options.prefix + name) for name in ("outcome", "calls")}
        repairs = table.column(self._options.prefix + "repairs")
        outcomes = Counter(column["outcome"].to_pylist())
        calls = sum(len(one) for one in column["calls"].to_pylist())
        return PartSummary(dict(outcomes), calls, sum(1 for one in repairs.to_pylist() if one))

    def _read_lines(self, part: BatchPart) -> list[tuple[dict[str, Any], ParsedRow]]:
        pairs: list[tuple[dict[str, Any], ParsedRow]] = []
        for at, line in enumerate(part.content.split(b"\n")):
            if line.strip():
                pairs.append(self._read_line(line, part.first + at + 1))
        return pairs

    def _read_line(self, line: bytes, number: int) -> tuple[dict[str, Any], ParsedRow]:
        try:
            fields = _json.decode(line)
        except JSONParseError as exc:
            fields, why = None, f"line {number} is not JSON: {exc}"
        else:
            why = f"line {number} is not a JSON object"
        if not isinstance(fields, dict):
            text = line.decode("utf-8", "replace")
            return {}, ParsedRow(text=text, outcome="invalid", error=why)
        return self._parse_fields(fields, f"line {number}")

    def _read_ipc(self, part: BatchPart) -> list[tuple[dict[str, Any], ParsedRow]]:
        rows = _read_ipc(part.content).to_pylist()
        return [
            self._parse_fields(fields, f"row {part.first + at + 1}")
            for at, fields in enumerate(rows)
        ]

    def _parse_fields(self, fields: dict[str, Any], place: str) -> tuple[dict[str, Any], ParsedRow]:
        options = self._options
        if options.column not in fields:
            error = f"{place} has no field {options.column!r}"
            return self._check_names(fields, place), ParsedRow(outcome="invalid", error=error)
        tools = fields.get(options.tools_column) if options.tools_column else None
        finish = fields.get(options.finish_column) if options.finish_column else None
        row = self._parser.parse(fields.pop(options.column), tools=tools, finish=finish)
        return self._check_names(fields, place), row

    def _check_names(self, fields: dict[str, Any], place: str) -> dict[str, Any]:
        """Return *fields*; raise `UsageError` if one has the name of a result."""
        for name in RESULT_NAMES:
            if self._options.prefix + name in fields:
                raise UsageError(
                    f"The field {self._options.prefix + name!r} of {place} exists already: pass a "
                    "prefix for the results, for example --prefix parsed_."
                )
        return fields

    def _read_log(self, part: BatchPart) -> list[tuple[dict[str, Any], ParsedRow]]:
        from penstock.gateway.replay import replay  # noqa: PLC0415 - it needs an extra
        from penstock.store import Store  # noqa: PLC0415

        async def read() -> list[tuple[dict[str, Any], ParsedRow]]:
            store = Store(self._url, create=False)
            pairs: list[tuple[dict[str, Any], ParsedRow]] = []
            changes = self._options.log_changes()
            try:
                for id_ in _json.decode(part.content):
                    detail = await store.request(id_)
                    if detail is None:
                        row = ParsedRow(outcome="invalid", error="the request was deleted")
                        pairs.append(({"id": id_}, row))
                        continue
                    kept = {"id": id_, "model": detail.row.model, "created": detail.row.created}
                    try:
                        replayed = await replay(detail, **changes)
                    except UsageError as exc:
                        pairs.append((kept, ParsedRow(outcome="invalid", error=str(exc))))
                        continue
                    row = make_row(replayed.now)
                    if row.outcome == "text" and replayed.complaints:
                        row.outcome, row.error = "unread", replayed.complaints[0]
                    pairs.append((kept, row))
            finally:
                await store.close()
            return pairs

        return asyncio.run(read())


RESULT_NAMES: Final = ("text", "reasoning", "calls", "repairs", "spans", "outcome", "error")
"""The names of the results, as `penstock.batch.table.RESULT_SCHEMA` has them."""


def _as_fields(row: ParsedRow, prefix: str) -> dict[str, Any]:
    """Return the results as the fields of a JSON object."""
    calls = [
        {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "complete": call.complete,
            "repairs": call.repairs,
        }
        for call in row.calls
    ]
    spans = [span._asdict() for span in row.spans]
    values = (row.text, row.reasoning, calls, row.repairs, spans, row.outcome, row.error)
    return {prefix + name: value for name, value in zip(RESULT_NAMES, values, strict=True)}


def _make_table(pairs: list[tuple[dict[str, Any], ParsedRow]], prefix: str) -> Any:
    """Return rows whose fields are not known in advance as a table: the fields are one JSON text.

    The columns of a Parquet file are fixed, and a field of a later line may have any type.
    """
    import pyarrow as pa  # noqa: PLC0415 - it is an extra

    from penstock.batch.table import RESULT_SCHEMA, make_arrays  # noqa: PLC0415

    kept = pa.array([_json.encode_wire(fields).decode() for fields, _ in pairs], pa.string())
    names = ["input", *(prefix + one.name for one in RESULT_SCHEMA)]
    return pa.Table.from_arrays([kept, *make_arrays([row for _, row in pairs])], names=names)


def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - it is an extra

    pq.write_table(table, path, compression="zstd")


def _write_ipc(batch: Any) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - it is an extra

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_ipc(content: bytes) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - it is an extra

    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
