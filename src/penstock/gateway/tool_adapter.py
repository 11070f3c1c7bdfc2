"""How a model gets its tools and how its text is parsed, as its options say.

A server with native tools gets them natively, and its text is parsed all the same: many such
servers leave some calls in the text. A model without native tools gets them in its prompt. Either
way, calls in text become calls, reasoning in text becomes thinking, and native calls pass
unchanged. A model that parses its own text (`reads_calls`) is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from msgspec import structs

from penstock.apis.errors import is_unparsed_output
from penstock.config.routes import ModelOptions
from penstock.events import ENDS, Event, Failed, MessageStart, Part, TextDelta, ToolCallStart
from penstock.formats import EventReader, get, make_event_parser
from penstock.formats.heal import EventHealer
from penstock.messages import Content
from penstock.models import ToolMiddleware
from penstock.models.base import Batches, Model, Tap, join_deltas, new_call_id
from penstock.models.middleware import without_calls
from penstock.models.untrusted import untrusted_in
from penstock.parsing import OnError
from penstock.request import Request

OnRepair = Callable[[str], object]
"""Receives a repair that concerns a whole response, in words."""

FALLBACK: Final = (
    "requested again with the tools in the prompt: the upstream could not parse its model"
)


def stream(
    options: ModelOptions,
    model: Model,
    request: Request,
    tap: Tap,
    on_error: OnError,
    on_repair: OnRepair = lambda _: None,
) -> Batches:
    """Send *request* to *model* and return its events, with its text parsed."""
    if not options.parse or model.reads_calls:
        return model.batches(request, tap)
    if options.tools == "prompt":
        return _make_middleware(options, model, on_error).batches(request, tap)
    parser = _make_parser(options, request, on_error)
    batches = _parse(parser, model.batches(request, tap), on_repair)
    if not can_fall_back(options, model, request):
        return batches

    def ask_again() -> Batches:
        on_repair(FALLBACK)
        return _make_middleware(options, model, on_error).batches(request, tap)

    return _fall_back(batches, ask_again)


def can_fall_back(options: ModelOptions, model: Model, request: Request) -> bool:
    """Return whether a request that fails with native tools is sent again without them."""
    is_native = options.parse and not model.reads_calls and options.tools == "native"
    return is_native and options.heal and bool(request.tools)


def _make_middleware(options: ModelOptions, model: Model, on_error: OnError) -> ToolMiddleware:
    return ToolMiddleware(
        model,
        options.format,
        **options.parser_options(),
        **options.quote_options(),
        constrain=options.constrain,
        send_back=options.send_back,
        on_error=on_error,
    )


async def _parse(parser: EventReader, batches: Batches, on_repair: OnRepair) -> Batches:
    try:
        async for batch in batches:
            if len(batch) == 1:  # A model that writes slowly: nearly all batches.
                found = join_deltas(parser.add(batch[0]))
            else:
                found = [out for event in batch for out in join_deltas(parser.add(event))]
            if found and isinstance(found[-1], ENDS) and isinstance(parser, EventHealer):
                for repair in parser.repairs:
                    on_repair(repair)
            yield found
    finally:
        await batches.aclose()


# --- a server that cannot parse the output of its model ---
#
# llama.cpp, Ollama and vLLM parse their model's text themselves and respond with 500, or end the
# stream with an error, if they cannot. The same request without native tools gives them nothing to
# parse. It is sent once, and only while the client has received no text and no call. Reasoning that
# it has received stays: the blocks of the second response follow it.


async def _fall_back(batches: Batches, ask_again: Callable[[], Batches] | None) -> Batches:
    """Yield *batches*; those of *ask_again* after them if the server could not parse its output."""
    held: list[Event] = []  # the start of the message, until something follows it
    failed: Failed | None = None
    is_certain = False  # The response has text or a call: what follows is passed on.
    async with aclosing(batches):
        async for batch in batches:
            if not is_certain:
                last = batch[-1] if batch else None
                if any(isinstance(event, _ANSWERS) for event in batch):
                    is_certain, ask_again = True, None  # It holds the request, which is large.
                elif isinstance(last, Failed) and is_unparsed_output(last.error):
                    failed = last
                    rest = batch[:-1]
                    if any(not isinstance(event, MessageStart) for event in rest):
                        yield [*held, *rest]
                        held = []
                    break
                if all(isinstance(event, MessageStart) for event in batch):
                    held += batch
                    continue
                batch = [*held, *batch]  # noqa: PLW2901 - its start was held
                held = []
            yield batch
    if failed is None or ask_again is None:
        if held:
            yield held
        return
    kept = failed.message.content
    async with aclosing(ask_again()) as again:
        async for batch in again:
            yield [_follow(event, kept) for event in batch if _belongs(event, kept)]


_ANSWERS: Final = (TextDelta, ToolCallStart, Part)


def _belongs(event: Event, kept: list[Content]) -> bool:
    """Return whether *event* continues the response: after *kept* blocks it has begun already."""
    return not (kept and isinstance(event, MessageStart))


def _follow(event: Event, kept: list[Content]) -> Event:
    """Return *event* of the second response, whose blocks follow those that were *kept*."""
    if not kept or isinstance(event, MessageStart):
        return event
    if isinstance(event, ENDS):
        message = structs.replace(event.message, content=[*kept, *event.message.content])
        return structs.replace(event, message=message)
    return structs.replace(event, index=event.index + len(kept))


def _make_parser(options: ModelOptions, request: Request, on_error: OnError) -> EventReader:
    is_forbidden = request.tool_choice is not None and request.tool_choice.mode == "none"
    tools = [] if is_forbidden else request.tools
    format_, parsing = get(options.format), options.parser_options()
    if not tools:
        format_, parsing["reasoning"] = without_calls(format_, parsing["reasoning"])
    return make_event_parser(
        format_,
        tools,
        **parsing,
        on_error=on_error,
        ids=new_call_id,
        max_calls=1 if request.parallel_tool_calls is False else None,
        untrusted=untrusted_in(request, options.quoted, options.quoted_tools) if tools else None,
        heal=options.heal and bool(tools),
        max_tokens=request.max_tokens,
    )
