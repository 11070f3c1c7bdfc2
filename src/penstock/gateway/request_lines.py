"""What the gateway prints while it runs: one line per request, and log messages as text or JSON.

``2026-05-01 14:20:05 INFO POST /v1/messages claude-opus → qwen3:8b at default 200, 1 call:
write_file, 1.24 s``. A request that fails is logged with the URL of the upstream and with what to
do. Text of clients and models is printed with its control characters escaped.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from penstock import _json
from penstock.config.settings import ServerSettings
from penstock.debug import escape_controls
from penstock.errors import shorten
from penstock.events import Failed
from penstock.gateway.request_log import RequestLog
from penstock.gateway.response import ResponseWriter
from penstock.messages import AssistantMessage

_LOG: Final = logging.getLogger("penstock.requests")
_FIELDS: Final = "fields"  # the attribute of a log record with the parts of its line
_DISCONNECTED: Final = 499

MAX_NAMES: Final = 5
"""How many calls of a response a line names."""

MAX_WORD: Final = 200
"""How many characters of a path or a name of a model a line shows."""

MAX_REASON: Final = 1_000
"""How many characters of an error a line shows."""

# --- lines ---


class RequestLines:
    """Logs a line for each request; unless *has_all*, only for those that fail."""

    def __init__(self, *, has_all: bool = True) -> None:
        self._has_all = has_all

    def log_response(self, writer: ResponseWriter, log: RequestLog, method: str = "POST") -> None:
        """Log the end of a response."""
        end, started = writer.end, log.started
        error = end.error if isinstance(end, Failed) else None
        is_failure = error is not None and writer.status != _DISCONNECTED
        if not is_failure and not self._has_all:
            return
        level = logging.ERROR if is_failure else logging.INFO
        if not _LOG.isEnabledFor(level):
            return
        message = AssistantMessage() if end is None else end.message
        fields: dict[str, Any] = {
            "id": started.id,
            "method": method,
            "path": started.path,
            "model": started.model,
            "upstream": started.upstream,
            "upstream_model": started.upstream_model,
            "status": writer.status,
            "calls": [call.name for call in message.tool_calls],
            "seconds": round(log.elapsed(), 3),
        }
        target = "" if log.route is None or not is_failure else log.route.target
        if error is not None:
            fields["error"] = error.message
        if target:
            fields["url"] = target.removeprefix("POST ")
        served = started.upstream_model
        renamed = "" if served in ("", started.model) else f"{_shorten_word(served)} at "
        result = describe_content(message)
        if is_failure and error is not None:
            where = f" ({target})" if target and target not in error.message else ""
            result = f"{shorten(error.message, MAX_REASON)}{where}".removesuffix(".")
        elif error is not None:
            result = error.message
        line = (
            f"{method} {_shorten_word(started.path)} {_shorten_word(started.model)} → "
            f"{renamed}{started.upstream} {writer.status}, {result}, {fields['seconds']:.2f} s"
        )
        _LOG.log(level, "%s", line, extra={_FIELDS: fields})

    def log_rejection(self, method: str, path: str, status: int, reason: str) -> None:
        """Log a request that the gateway rejected."""
        fields = {"method": method, "path": path, "status": status, "error": reason}
        line = f"{method} {_shorten_word(path)} {status}, {shorten(reason, MAX_REASON)}"
        _LOG.warning("%s", line, extra={_FIELDS: fields})


def describe_content(message: AssistantMessage) -> str:
    """Return what a response contains: ``1 call: write_file``, ``text``."""
    calls = message.tool_calls
    if not calls:
        return "text" if message.text else "reasoning" if message.thinking else "empty"
    names = [call.name for call in calls[:MAX_NAMES]]
    rest = ["…"] if len(calls) > MAX_NAMES else []
    notes = []
    if any(call.repairs for call in calls):
        notes.append("repaired")
    if not all(call.complete for call in calls):
        notes.append("incomplete")
    number = f"{len(calls)} call{'s' if len(calls) > 1 else ''}"
    shown = ", ".join([*map(_shorten_word, names), *rest])
    note = f" ({', '.join(notes)})" if notes else ""
    return f"{number}: {shown}{note}"


def _shorten_word(text: str) -> str:
    return shorten(text, MAX_WORD)


# --- formats of the log ---


_RED, _YELLOW, _RESET = "\x1b[31m", "\x1b[33m", "\x1b[0m"


class TextFormatter(logging.Formatter):
    """Formats a record as a line that begins with its time and level; *colours* marks errors."""

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        when = datetime.fromtimestamp(record.created, UTC).astimezone()
        own = record.name.startswith("penstock")
        message = escape_controls(record.getMessage())
        line = f"{record.levelname} {'' if own else f'{record.name}: '}{message}"
        if self._colours and record.levelno >= logging.WARNING:
            colour = _RED if record.levelno >= logging.ERROR else _YELLOW
            line = f"{colour}{line}{_RESET}"
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{when:%Y-%m-%d %H:%M:%S} {line}{trace}"


class JSONFormatter(logging.Formatter):
    """Formats a record as a JSON object, with the parts of a request as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object in one line."""
        when = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **vars(record).get(_FIELDS, {}),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return _json.encode(fields).decode()


def has_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether *stream* is a terminal that shows colours; ``NO_COLOR`` switches them off."""
    is_dumb = environ.get("TERM") == "dumb"
    return stream.isatty() and not is_dumb and not environ.get("NO_COLOR")


def configure_log(settings: ServerSettings, environ: Mapping[str, str]) -> None:
    """Send all log messages of this process to stderr in the format of *settings*."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JSONFormatter())
    else:
        handler.setFormatter(TextFormatter(colours=has_colours(sys.stderr, environ)))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("penstock").setLevel(settings.log_level.upper())
