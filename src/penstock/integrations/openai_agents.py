"""A model for openai-agents that acts on printed calls, around any other model.

    from penstock.integrations.openai_agents import PenstockModel

    agent = Agent(name="a", model=PenstockModel(LitellmModel(model="…")), tools=[…])

Use it for models that do not send their requests with httpx, such as ``LitellmModel``. For those of
the OpenAI SDK, the HTTP client of `penstock.integrations.httpx` is enough.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from agents import (  # type: ignore[attr-defined, unused-ignore] # docs/agents has the same name
    FunctionTool,
    Model,
    ModelResponse,
)
from openai._models import construct_type  # how the SDK reads events: without checks
from openai.types.responses import Response, ResponseStreamEvent

from penstock import _json
from penstock.framing import sse
from penstock.integrations import Exchange, RewriteOptions, prepare

__all__ = ["PenstockModel"]

_OUTPUT: Final = Response.model_fields["output"].annotation


class PenstockModel(Model):  # type: ignore[misc]
    """Rewrites the responses of *model*; the options are those of `RewriteOptions`.

    With ``tools="prompt"``, tools and handoffs are described in the instructions.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self._options = RewriteOptions(**options)

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **options: Any,
    ) -> ModelResponse:
        """Return a whole response."""
        exchange, sent = self._prepare(
            system_instructions, input, model_settings, tools, output_schema, handoffs
        )
        found = await self.model.get_response(*sent, tracing, **options)
        if exchange is None:
            return found
        output = [item.model_dump(mode="json", exclude_none=True) for item in found.output]
        body = {"id": "r", "object": "response", "status": "completed", "output": output}
        written: Any = _json.decode(exchange.rewrite(_json.encode_wire(body)))
        if written["output"] == output:
            return found
        return replace(found, output=construct_type(type_=_OUTPUT, value=written["output"]))

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Yield the events of a response."""
        exchange, sent = self._prepare(
            system_instructions, input, model_settings, tools, output_schema, handoffs
        )
        frames = sse.Decoder()
        async with aclosing(self.model.stream_response(*sent, tracing, **options)) as events:
            async for event in events:
                if exchange is None:
                    yield event
                    continue
                data = _json.encode_wire(event.model_dump(mode="json", exclude_none=True))
                for frame in frames.feed(exchange.feed(sse.encode(data, event=event.type))):
                    yield _read_event(frame.data)
        if exchange is not None:
            for frame in frames.feed(exchange.finish()):
                yield _read_event(frame.data)

    def _prepare(
        self,
        instructions: str | None,
        items: Any,
        settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
    ) -> tuple[Exchange | None, tuple[Any, ...]]:
        """Return the exchange, and the arguments to send: with the tools in the prompt or as given.

        There is no exchange for a request without tools.
        """
        given = (instructions, items, settings, tools, output_schema, handoffs)
        written = [
            _write_function(one.name, one.description, one.params_json_schema)
            for one in tools
            if isinstance(one, FunctionTool)
        ]
        written += [
            _write_function(one.tool_name, one.tool_description, one.input_json_schema)
            for one in handoffs
        ]
        if not written:
            return None, given
        body: dict[str, Any] = {"model": "model", "input": items, "tools": written}
        if instructions:
            body["instructions"] = instructions
        if settings.tool_choice in ("auto", "none", "required"):
            body["tool_choice"] = settings.tool_choice
        if settings.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = settings.parallel_tool_calls
        exchange = prepare("openai-responses", _json.encode_wire(body), self._options)
        if exchange is None or self._options.tools != "prompt":
            return exchange, given
        changed: Any = _json.decode(exchange.body)
        settings = replace(settings, tool_choice=None, parallel_tool_calls=None)
        items = changed["input"]
        for item in items if isinstance(items, list) else ():
            # The Chat model of openai-agents takes parts of an assistant's message only with an id.
            if item.get("role") == "assistant" and isinstance(item["content"], list):
                item["content"] = "".join(part.get("text", "") for part in item["content"])
        return exchange, (changed.get("instructions"), items, settings, [], output_schema, [])


def _write_function(name: str, description: str, parameters: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
    }


def _read_event(data: str) -> Any:
    return construct_type(type_=ResponseStreamEvent, value=_json.decode(data))
