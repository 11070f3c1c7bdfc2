"""A logged stream run through today's parser: what it would be read as now.

The bytes that the upstream sent are decoded again, in the pieces in which they came, and their text
is read again, with the options that held then or with others. So a user's bug is looked at as it
happened, and a new version or another format is tried on what models really wrote.

The path is that of the gateway itself (`tool_adapter.stream`); only the model is replaced, by one
that returns the responses of the log, one for each request.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct, ValidationError, field, structs

from penstock import _json, apis
from penstock.errors import JSONParseError, UsageError
from penstock.events import Event
from penstock.formats import get
from penstock.gateway import tool_adapter
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.config.types import parse_reasoning, parse_tool_mode
from penstock.gateway.differences import Difference, differences
from penstock.gateway.logged_model import LoggedModel
from penstock.messages import AssistantMessage
from penstock.models.base import Batches, Tap, ensure_end, iter_events
from penstock.models.middleware.presets import qwen_tools
from penstock.parsing import OnError
from penstock.request import Request
from penstock.store import RequestDetail
from penstock.streams.pump import Record

_QWEN: Final = ("qwen_web", "prompt")  # the format of its model, and how it shows tools


class Replayed(Struct):
    """What came of it: the *events* of today, the messages of then and *now*, what is different.

    *complaints* say which calls could not be read now.
    """

    events: list[Event]
    then: AssistantMessage
    now: AssistantMessage
    differences: list[Difference] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


async def replay(detail: RequestDetail, **changes: str | bool | None) -> Replayed:
    """Read the stream of *detail* again; *changes* are options that hold in place of the logged.

    Raises `UsageError` for a request whose stream cannot be read again, and for an option that
    cannot be.
    """
    check_replayable(detail)
    options = changed(options_of(detail), changes)
    complaints: list[str] = []
    then, is_whole = logged_message(detail)
    model = LoggedModel(detail, _status_of(then))
    asked = _asked(model, request_of(detail), options, lambda why, _: complaints.append(why))
    # Whatever a parser of today falls over is a difference like any other: a failed answer.
    events = [event async for event in iter_events(ensure_end(asked))]
    now = folded(events)
    found = differences(then, now, is_whole=is_whole)
    return Replayed(events, then, now, found, complaints)


def check_replayable(detail: RequestDetail) -> None:
    """Raise `UsageError`, which says why, for a request whose stream cannot be read again."""
    row = detail.row
    if row.upstream_api not in apis.names():
        raise UsageError(
            f"request {row.id} was answered by {row.upstream_api or 'nobody'!r}: "
            "a model in the process sends no bytes that could be read again"
        )
    if row.state == "started":
        raise UsageError(f"request {row.id} has not ended yet")
    if row.state == "interrupted":
        raise UsageError(f"request {row.id} was interrupted: what had come of it is lost")
    if not detail.raw and not detail.request:
        raise UsageError(f"the bodies of request {row.id} were not kept (store.bodies is off)")
    if not detail.raw:
        raise UsageError(f"request {row.id} got no answer: {row.error_message or row.state}")
    if detail.notes.get("cut"):
        raise UsageError(f"the stream of request {row.id} was too long to be kept whole")


def _asked(
    model: LoggedModel, request: Request, options: ModelOptions, on_error: OnError
) -> Batches:
    """Ask the log as the gateway asked the upstream."""
    if model.api.name == "qwen" and options.parse and (options.format, options.tools) == _QWEN:
        # Its model reads calls by itself, in its own way.
        tools = qwen_tools(
            model,
            arguments=options.arguments,
            trim=options.trim,
            repair=options.repair,
            quoted=options.quoted,
            quoted_tools=options.quoted_tools,
            fenced=options.fenced,
            on_error=on_error,
        )
        return tools.batches(request)
    return tool_adapter.stream(options, model, request, Tap(), on_error)


# --- how it was asked ---


def options_of(detail: RequestDetail) -> ModelOptions:
    """Give the options that a request was read with, as far as the log knows them."""
    row, known = detail.row, ModelOptions.__struct_fields__
    noted = detail.notes.get("options")
    fields = {name: value for name, value in (noted or {}).items() if name in known}
    told: dict[str, Any] = {"format": row.format, "tools": row.mode}
    if row.mode == "none":  # the log's name for `parse = false`
        fields |= {"tools": "native", "parse": False}
    if row.upstream_api == "qwen":  # whose calls are mended by nobody, whatever is set
        fields["repair"] = False
    return changed(ModelOptions(), {**{name: one for name, one in told.items() if one}, **fields})


def changed(options: ModelOptions, changes: dict[str, Any]) -> ModelOptions:
    """Give *options* with *changes*; raise `UsageError` for one that cannot be."""
    try:
        parse_tool_mode(str(changes.get("tools")))
        found = msgspec.convert({**structs.asdict(options), **changes}, ModelOptions)
        if found.reasoning is not None:
            parse_reasoning(found.reasoning)
    except (ValidationError, ValueError) as exc:
        raise UsageError(str(exc)) from exc
    get(found.format)
    return found


def request_of(detail: RequestDetail) -> Request:
    """Give what the client asked; what was not kept of it is left out."""
    row = detail.row
    try:
        data = _json.decode(detail.request)
        request = apis.get(row.client_api).read_request(data)
    except (JSONParseError, UsageError):  # the older endpoint has no messages, and no tools
        request = Request()
    return structs.replace(request, model=row.upstream_model, n=None, stream=row.stream)


# --- what the client was told ---


def logged_message(detail: RequestDetail) -> tuple[AssistantMessage, bool]:
    """Give the message that the client was told then, and whether it was told its end."""
    try:
        lines = detail.events.splitlines()
        events: list[Event] = [_json.decode_as(line, Event) for line in lines if line]
        record = _recorded(events)
    except (JSONParseError, ValidationError, UsageError):
        return AssistantMessage(), False
    return record.message, record.ended


def _status_of(then: AssistantMessage) -> int | None:
    """Give the status that the upstream refused with, if that is all that it said."""
    return None if then.error is None or then.content else then.error.status


def folded(events: list[Event]) -> AssistantMessage:
    """Give the message that *events* make."""
    return _recorded(events).message


def _recorded(events: list[Event]) -> Record:
    record = Record()
    for event in events:
        record.add(event)
    return record
