"""Whole responses, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import (
    Ending,
    IdMaker,
    strict_object,
    whole_ending_of,
    with_whole_pairs,
    writable,
)
from penstock.apis.openai_responses import tables
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, Usage

# The items and the response that our answers are written as, streamed and whole.


PHASES: Final = ("commentary", "final_answer")
"""What a message can be for; a text's signature may say it."""

ANNOTATIONS: Final = "annotations"
"""The type of the part that keeps a text's annotations; it comes right after the text."""

REFUSAL: Final = "msg_refusal"
"""What begins the id of the message that says why an answer of ours was refused.

The API has refusals inside answers, and no answer that ends in one: so a decoder of ours tells one
from the other.
"""

SEALED: Final = "penstock:"
"""What begins an `encrypted_content` that is a signature of ours, whoever's it was before."""

_CALLS: Final = ("function_call", "custom_tool_call")
_OWN: Final = frozenset({"message", "reasoning", "function_call", "custom_tool_call", ANNOTATIONS})
_MAX_NAME: Final = 32
"""How many characters of the response's id are in those of its items: all of one of the gateway's,
which finds an item that a client refers to by them, and far from the 64 that an id may have."""

_UNLAWFUL: Final = re.compile(r"[^A-Za-z0-9]+")


class ItemIds:
    """Gives the items of one response ids that no other item has, here and in other responses."""

    def __init__(self, response_id: str) -> None:
        name = _UNLAWFUL.sub("", response_id.removeprefix("resp_"))[:_MAX_NAME] or "0"
        self._name = name
        self._ids: dict[str, IdMaker] = {}
        self._given: set[str] = set()  # the ids of all items, of whatever kind
        self._calls = IdMaker()

    def give(self, prefix: str, wanted: str = "") -> str:
        """Return *wanted*, if it is an id with *prefix* that nobody has, else one of our own."""
        if prefix not in self._ids:
            allowed = re.compile(prefix + r"_[A-Za-z0-9_-]{1,61}")
            self._ids[prefix] = IdMaker(allowed, f"{prefix}_{self._name}_", given=self._given)
        return self._ids[prefix].give(wanted)

    def give_call(self, wanted: str) -> str:
        """Return the first half of *wanted* as a `call_id`, if it is nobody else's."""
        return self._calls.give(wanted)

    def keep(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a provider's own *item* with an id that is not another's."""
        prefix = _UNLAWFUL.sub("", str(item["type"])) or "item"
        id_ = item.get("id")
        id_ = id_ if isinstance(id_, str) else ""
        ids = self._ids.setdefault("", IdMaker(prefix=f"{prefix}_{self._name}_", given=self._given))
        return {**item, "id": ids.give(id_)}


def text_part(text: str, annotations: list[Any]) -> dict[str, Any]:
    """Write the content of a message."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def message_item(
    id: str,  # noqa: A002 - the field's name
    content: list[dict[str, Any]],
    signature: str = "",
    status: str = "completed",
) -> dict[str, Any]:
    """Write a message; *signature*, the text's, may say what phase it is of."""
    item = {"id": id, "type": "message", "role": "assistant", "status": status, "content": content}
    phase = signature.rpartition("|")[2]
    return {**item, "phase": phase} if phase in PHASES else item


def reasoning_item(id: str, text: str, signature: str = "") -> dict[str, Any]:  # noqa: A002
    """Write reasoning as a summary, and seal their *signature* for the way back.

    Thoughts without one are sealed too: else the item itself would pass for a signature.
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
    *,
    is_custom: bool,
) -> dict[str, Any]:
    """Write the call of *name*, whose id is ours, without its arguments."""
    prefix, field = ("ctc", "input") if is_custom else ("fc", "arguments")
    return {
        "id": ids.give(prefix, id.partition("|")[2]),
        "type": "custom_tool_call" if is_custom else "function_call",
        "status": "in_progress",
        "call_id": ids.give_call(id),
        "name": name,
        field: "",
    }


def filled(item: dict[str, Any], call: ToolCall, said: str = "") -> dict[str, Any]:
    """Return the item of *call* with its arguments.

    As they were *said*, unless they were repaired.
    """
    if call.complete and (
        strict_object(with_whole_pairs(said)) is None
        or (call.repairs and strict_object(said) != call.arguments)
    ):
        said = _json.encode_wire(call.arguments).decode()
    if item["type"] == "custom_tool_call":
        text = call.arguments.get("input")
        is_text = isinstance(text, str) and len(call.arguments) == 1
        fields = {"input": text if is_text else said} if call.complete else {}
    else:
        fields = {"arguments": said}
    if not call.complete:
        return {**item, **fields, "status": "incomplete"}
    return {**item, **fields, "status": "completed", **signed(call.signature)}


def is_custom(id: str, name: str, custom: frozenset[str]) -> bool:  # noqa: A002
    """Return whether a call takes free text: its id says so, or its tool is one of *custom*."""
    return name in custom or id.partition("|")[2].startswith("ctc_")


def signed(signature: str) -> dict[str, Any]:
    """Write a call's signature where Gemini's own OpenAI endpoint has it."""
    if not signature:
        return {}
    return {"extra_content": {"google": {"thought_signature": signature}}}


def foreign_item(part: Opaque) -> dict[str, Any] | None:
    """Return *part* as the item that it was, if it was one of this API."""
    data = part.data
    if part.provider != tables.NAME or not isinstance(data, dict):
        return None
    type_ = data.get("type")
    return data if isinstance(type_, str) and type_ and type_ not in _OWN else None


def annotations_of(part: Opaque) -> list[Any]:
    """Return the annotations that *part* keeps."""
    data = part.data
    if part.provider == tables.NAME and isinstance(data, dict) and data.get("type") == ANNOTATIONS:
        kept = data.get(ANNOTATIONS)
        return kept if isinstance(kept, list) else []
    return []


def response_of(id: str, model: str, created: int, status: str, **fields: Any) -> dict[str, Any]:  # noqa: A002
    """Write a response; *fields* are what differs from one that has not said anything."""
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


def ended(output: list[dict[str, Any]], usage: Usage, reason: str = "") -> dict[str, Any]:
    """Write how a response ended: as it should, or for the *reason* that it is incomplete."""
    details = {"reason": reason} if reason else None
    return {
        "output": output,
        "usage": tables.write_usage(usage),
        "incomplete_details": details,
    }


def incomplete_reason(ending: Ending, output: list[dict[str, Any]]) -> str:
    """Return the API's reason why a response with *output* and *ending* is incomplete, if it is.

    A refusal is a complete answer, but not with calls: they would be run.
    """
    if ending == "length":
        return "max_output_tokens"
    has_calls = any(item["type"] in _CALLS for item in output)
    is_cut = ending == "filter" or (ending == "refusal" and has_calls)
    return "content_filter" if is_cut else ""


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
    """Return what the response to the request *data* repeats of it; what cannot be is omitted."""
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
