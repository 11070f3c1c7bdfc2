"""Whole responses, and the items that they consist of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import (
    Ending,
    IdMaker,
    find_whole_ending,
    parse_object,
    replace_lone_escapes,
    with_writable_calls,
)
from penstock.apis.fields import string_at
from penstock.apis.openai_chat.encode import signature_field
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.client_tools import NO_TOOLS, SEARCH_CALL, ClientTools
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, Usage

PHASES: Final = ("commentary", "final_answer")
"""The phases of a message; the signature of a text may contain one."""

ANNOTATIONS: Final = "annotations"
"""The type of the block with the annotations of the text before it."""

REFUSAL: Final = "msg_refusal"
"""The prefix of the id of a message that our encoder writes for a refusal.

The API has refusals inside responses but no response that ends in one, so our decoder recognises
one by its id.
"""

SEALED: Final = "penstock:"
"""The prefix of an `encrypted_content` that is the signature of any provider."""

_CALLS: Final = ("function_call", "custom_tool_call")
_OWN: Final = frozenset({"message", "reasoning", "function_call", "custom_tool_call", ANNOTATIONS})
# How many characters of the response's id are in the ids of its items: all of an id of the gateway,
# which finds an item by it, and far below the 64 characters that an id may have.
_MAX_NAME: Final = 32

_INVALID: Final = re.compile(r"[^A-Za-z0-9]+")


class ItemIds:
    """Makes ids of items that are unique within a response and across responses."""

    def __init__(self, response_id: str) -> None:
        name = _INVALID.sub("", response_id.removeprefix("resp_"))[:_MAX_NAME] or "0"
        self._name = name
        self._ids: dict[str, IdMaker] = {}
        self._taken: set[str] = set()  # the ids of all items
        self._calls = IdMaker()

    def make(self, prefix: str, wanted: str = "") -> str:
        """Return *wanted* if it is an unused id with *prefix*, otherwise a new id."""
        if prefix not in self._ids:
            allowed = re.compile(prefix + r"_[A-Za-z0-9_-]{1,61}")
            self._ids[prefix] = IdMaker(allowed, f"{prefix}_{self._name}_", taken=self._taken)
        return self._ids[prefix].make(wanted)

    def make_call_id(self, wanted: str) -> str:
        """Return the first half of *wanted* as a `call_id`, or a new one if it is in use."""
        return self._calls.make(wanted)

    def with_id(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a provider's *item* with an id that is not in use."""
        prefix = _INVALID.sub("", str(item["type"])) or "item"
        ids = self._ids.setdefault("", IdMaker(prefix=f"{prefix}_{self._name}_", taken=self._taken))
        return {**item, "id": ids.make(string_at(item, "id"))}


def text_part(text: str, annotations: list[Any]) -> dict[str, Any]:
    """Write a text part of a message."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def message_item(
    id: str,  # noqa: A002 - the field's name
    content: list[dict[str, Any]],
    signature: str = "",
    status: str = "completed",
) -> dict[str, Any]:
    """Write a message; the *signature* of its text may contain its phase."""
    item = {"id": id, "type": "message", "role": "assistant", "status": status, "content": content}
    phase = signature.rpartition("|")[2]
    return {**item, "phase": phase} if phase in PHASES else item


def reasoning_item(id: str, text: str, signature: str = "") -> dict[str, Any]:  # noqa: A002
    """Write reasoning as a summary, with its *signature* sealed for the way back.

    An empty signature is sealed too: otherwise the item itself would be read as the signature.
    """
    return {
        "id": id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}] if text else [],
        "encrypted_content": SEALED + signature,
    }


def call_item(
    ids: ItemIds,
    id: str,  # noqa: A002 - the field's name
    name: str,
    tools: ClientTools = NO_TOOLS,
) -> dict[str, Any]:
    """Write the call of *name* without its arguments; *id* is one of ours."""
    item_id = id.partition("|")[2]
    if tools.is_search(name):
        return {
            "id": ids.make("tsc", item_id),
            "type": SEARCH_CALL,
            "status": "in_progress",
            "call_id": ids.make_call_id(id),
            "execution": "client",
            "arguments": {},
        }
    is_custom = tools.is_custom(id, name)
    return {
        "id": ids.make("ctc" if is_custom else "fc", item_id),
        "type": "custom_tool_call" if is_custom else "function_call",
        "status": "in_progress",
        "call_id": ids.make_call_id(id),
        **tools.name_fields(name),
        "input" if is_custom else "arguments": "",
    }


def fill_call(item: dict[str, Any], call: ToolCall, sent: str = "") -> dict[str, Any]:
    """Return *item* with the arguments of *call*: as *sent*, unless they were repaired."""
    if call.complete and (
        parse_object(replace_lone_escapes(sent)) is None
        or (call.repairs and parse_object(sent) != call.arguments)
    ):
        sent = _json.encode_wire(call.arguments).decode()
    fields: dict[str, Any]
    if item["type"] == SEARCH_CALL:
        fields = {"arguments": call.arguments if call.complete else {}}
    elif item["type"] == "custom_tool_call":
        text = call.arguments.get("input")
        is_text = isinstance(text, str) and len(call.arguments) == 1
        fields = {"input": text if is_text else sent} if call.complete else {}
    else:
        fields = {"arguments": sent}
    if not call.complete:
        return {**item, **fields, "status": "incomplete"}
    return {**item, **fields, "status": "completed", **signature_field(call.signature)}


def foreign_item(part: Opaque) -> dict[str, Any] | None:
    """Return the item in *part*, if it is one of this API."""
    data = part.data
    if part.provider != tables.NAME or not isinstance(data, dict):
        return None
    type_ = data.get("type")
    return data if isinstance(type_, str) and type_ and type_ not in _OWN else None


def find_annotations(part: Opaque) -> list[Any]:
    """Return the annotations in *part*."""
    data = part.data
    if part.provider == tables.NAME and isinstance(data, dict) and data.get("type") == ANNOTATIONS:
        kept = data.get(ANNOTATIONS)
        return kept if isinstance(kept, list) else []
    return []


def make_response(id: str, model: str, created: int, status: str, **fields: Any) -> dict[str, Any]:  # noqa: A002
    """Write a response; *fields* override those of an empty one."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **fields,
    }


def ending_fields(output: list[dict[str, Any]], usage: Usage, reason: str = "") -> dict[str, Any]:
    """Return the fields of a response that ended; *reason* is why it is incomplete."""
    details = {"reason": reason} if reason else None
    return {
        "output": output,
        "usage": tables.write_usage(usage),
        "incomplete_details": details,
    }


def incomplete_reason(ending: Ending, output: list[dict[str, Any]]) -> str:
    """Return the reason why a response with *output* and *ending* is incomplete, or ``""``.

    A refusal is a complete response, but not with calls: a client would run them.
    """
    if ending == "length":
        return "max_output_tokens"
    has_calls = any(item["type"] in _CALLS for item in output)
    is_cut = ending == "filter" or (ending == "refusal" and has_calls)
    return "content_filter" if is_cut else ""


# The fields of a request that its response repeats, and their types.
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

# The defaults inside these fields.
_COMPLETED: Final[dict[str, dict[str, Any]]] = {
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}},
}


def echo_request(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the valid fields of the request *data* that its response repeats."""
    given = {
        name: data[name] for name, kinds in _REPEATED.items() if isinstance(data.get(name), kinds)
    }
    return {
        name: {**_COMPLETED[name], **value} if name in _COMPLETED else value
        for name, value in given.items()
    }


def write_response(
    message: AssistantMessage, *, created: int = 0, tools: ClientTools = NO_TOOLS
) -> dict[str, Any]:
    """Write a whole response; raise `UsageError` for a failed one.

    A response with an incomplete call is written as failed, with the rest of its output. A refusal
    is a message of its own, and a response that the limit or a filter cut is incomplete.
    *tools* has the client's names of its tools.
    """
    ending, flaw = find_whole_ending(message)
    message = with_writable_calls(message)
    id_ = message.id or "resp_1"
    ids = ItemIds(id_)
    output = write_output(message, ids, tools)
    if flaw is not None:  # OpenAI's SDK parses the arguments of every call in the output.
        output = [item for item in output if item.get("status") != "incomplete"]
        fields = {**ending_fields(output, message.usage), "error": tables.write_error(flaw)}
        return without_lone_surrogates(
            make_response(id_, message.model, created, "failed", **fields, store=False)
        )
    if ending == "refusal" and message.error is not None:
        part = {"type": "refusal", "refusal": message.error.message}
        output.append(message_item(ids.make(REFUSAL), [part]))
    reason = incomplete_reason(ending, output)
    status = "incomplete" if reason else "completed"
    fields = ending_fields(output, message.usage, reason)
    return without_lone_surrogates(make_response(id_, message.model, created, status, **fields))


def write_output(
    message: AssistantMessage, ids: ItemIds, tools: ClientTools
) -> list[dict[str, Any]]:
    """Write the blocks of *message* as items; an incomplete call has that status."""
    output: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, Text):
            part = text_part(block.text, [])
            output.append(message_item(ids.make("msg"), [part], block.signature))
        elif isinstance(block, Thinking):
            output.append(reasoning_item(ids.make("rs"), block.text, block.signature))
        elif isinstance(block, ToolCall):
            item = call_item(ids, block.id, block.name, tools)
            output.append(fill_call(item, block))
        elif (item_ := foreign_item(block)) is not None:
            output.append(ids.with_id(item_))
        elif output and output[-1]["type"] == "message":
            output[-1]["content"][0]["annotations"] += find_annotations(block)
    return output
