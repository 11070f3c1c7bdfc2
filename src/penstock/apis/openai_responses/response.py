"""Whole responses, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.apis.encoding import whole_ending_of, writable
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.write_items import (
    REFUSAL,
    ItemIds,
    annotations_of,
    call_item,
    ended,
    filled,
    foreign_item,
    incomplete_reason,
    is_custom,
    message_item,
    reasoning_item,
    response_of,
    text_part,
)
from penstock.apis.surrogates import without_lone_surrogates
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall

_REPEATED: Final[dict[str, tuple[type, ...]]] = {
    "instructions": (str, list),
    "max_output_tokens": (int,),
    "metadata": (dict,),
    "parallel_tool_calls": (bool,),
    "reasoning": (dict,),
    "temperature": (int, float),
    "text": (dict,),
    "tool_choice": (str, dict),
    "tools": (list,),
    "top_p": (int, float),
    "user": (str,),
}
"""The fields of a request that its response has too, and what they can be."""

_COMPLETED: Final[dict[str, dict[str, Any]]] = {
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}},
}
"""What a response says in them where the request did not."""


def repeated(data: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the response to the request *data* repeats of it; what cannot be is left out."""
    given = {
        name: data[name] for name, kinds in _REPEATED.items() if isinstance(data.get(name), kinds)
    }
    return {
        name: {**_COMPLETED[name], **value} if name in _COMPLETED else value
        for name, value in given.items()
    }


def read_response(data: Mapping[str, Any]) -> AssistantMessage:
    """Read a whole answer, by the rules of the stream: its last event says it all."""
    from penstock.apis.openai_responses.decode import Decoder  # noqa: PLC0415 - it reads by us

    return Decoder().read_whole(data)


def write_response(
    message: AssistantMessage, *, created: int = 0, custom: Iterable[str] = ()
) -> dict[str, Any]:
    """Write a whole answer; `UsageError` for one that failed.

    One with a call that is not complete is a failed response with all the rest in it. A refusal is
    a message of its own, and an answer that the limit or a filter cut is incomplete.
    *custom* names the client's tools that take free text: calls of them are written as such.
    """
    ending, flaw = whole_ending_of(message)
    message = writable(message)
    id_ = message.id or "resp_1"
    ids = ItemIds(id_)
    output = write_output(message, ids, frozenset(custom))
    if flaw is not None:  # The SDK reads the arguments of every call that is listed.
        output = [item for item in output if item.get("status") != "incomplete"]
        fields = {**ended(output, message.usage), "error": tables.write_error(flaw)}
        return without_lone_surrogates(
            response_of(id_, message.model, created, "failed", **fields, store=False)
        )
    if ending == "refusal" and message.error is not None:
        part = {"type": "refusal", "refusal": message.error.message}
        output.append(message_item(ids.give(REFUSAL), [part]))
    reason = incomplete_reason(ending, output)
    status = "incomplete" if reason else "completed"
    fields = ended(output, message.usage, reason)
    return without_lone_surrogates(response_of(id_, message.model, created, status, **fields))


def write_output(
    message: AssistantMessage, ids: ItemIds, custom: frozenset[str]
) -> list[dict[str, Any]]:
    """Write the blocks of *message* as items; a call that is not complete says so."""
    output: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, Text):
            part = text_part(block.text, [])
            output.append(message_item(ids.give("msg"), [part], block.signature))
        elif isinstance(block, Thinking):
            output.append(reasoning_item(ids.give("rs"), block.text, block.signature))
        elif isinstance(block, ToolCall):
            is_free = is_custom(block.id, block.name, custom)
            item = call_item(ids, block.id, block.name, is_custom=is_free)
            output.append(filled(item, block))
        elif (item_ := foreign_item(block)) is not None:
            output.append(ids.keep(item_))
        elif output and output[-1]["type"] == "message":
            output[-1]["content"][0]["annotations"] += annotations_of(block)
    return output
