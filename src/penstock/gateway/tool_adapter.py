"""How a model is asked and how its text is read: the choices that are made for each model.

A server that knows tools is given them as they are, and its text is read all the same: many servers
know tools and leave half of the calls in the text. One that knows none is told of them in words. In
both ways text calls become calls, reasoning become thinking, and calls of the server's own pass.
A model that reads its own text (`reads_calls`) is left alone.
"""

from __future__ import annotations

import secrets
from typing import cast

from penstock.formats import EventParser, get
from penstock.gateway.config.routes import ModelOptions
from penstock.models import ToolMiddleware
from penstock.models.base import Batches, Model, Tap
from penstock.models.middleware.model import without_calls
from penstock.models.untrusted import untrusted_in
from penstock.parsing import OnError, Reasoning
from penstock.request import Request


def stream(
    options: ModelOptions, model: Model, request: Request, tap: Tap, on_error: OnError
) -> Batches:
    """Send the request to *model* and return its events, with its text read as *options* say."""
    if not options.parse or model.reads_calls:
        return model.batches(request, tap)
    if options.tools == "prompt":
        return _told_in_words(options, model, on_error).batches(request, tap)
    return _read(_parser(options, request, on_error), model.batches(request, tap))


def _told_in_words(options: ModelOptions, model: Model, on_error: OnError) -> ToolMiddleware:
    return ToolMiddleware(
        model,
        options.format,
        arguments=options.arguments,
        repair=options.repair,
        trim=options.trim,
        reasoning=options.reasoning,
        prompt_suffix=options.prompt_suffix,
        quoted=options.quoted,
        quoted_tools=options.quoted_tools,
        fenced=options.fenced,
        constrain=options.constrain,
        send_back=options.send_back,
        on_error=on_error,
    )


async def _read(parser: EventParser, asked: Batches) -> Batches:
    """Read the text of what comes."""
    try:
        async for batch in asked:
            yield [out for event in batch for out in parser.add(event)]
    finally:
        await asked.aclose()


def _parser(options: ModelOptions, request: Request, on_error: OnError) -> EventParser:
    forbids = request.tool_choice is not None and request.tool_choice.mode == "none"
    tools = [] if forbids else request.tools
    reads, style = get(options.format), cast("str | Reasoning | None", options.reasoning)
    if not tools:
        reads, style = without_calls(reads, style)
    return EventParser(
        reads,
        tools,
        reasoning=style,
        arguments=options.arguments,
        trim=options.trim,
        repair=options.repair,
        prompt_suffix=options.prompt_suffix,
        on_error=on_error,
        ids=new_call_id,
        max_calls=1 if request.parallel_tool_calls is False else None,
        untrusted=untrusted_in(request, options.quoted, options.quoted_tools) if tools else None,
        fenced=options.fenced,
    )


def new_call_id() -> str:
    """Make an id for a call: no two of any conversation are alike."""
    return f"call_{secrets.token_hex(8)}"
