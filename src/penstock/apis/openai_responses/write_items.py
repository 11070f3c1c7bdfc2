"""The items and the response that our answers are written as, streamed and whole."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock import _json
from penstock.apis.arguments import strict_object, with_whole_pairs
from penstock.apis.encoding import Ending
from penstock.apis.ids import Ids
from penstock.apis.openai_responses import tables
from penstock.messages import Opaque, ToolCall, Usage

PHASES: Final = ("commentary", "final_answer")
"""What a message can be for; a text's signature may say it."""

ANNOTATIONS: Final = "annotations"
"""The type of the part that keeps a text's annotations; it comes right behind the text."""

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
        self._ids: dict[str, Ids] = {}
        self._given: set[str] = set()  # the ids of all items, of whatever kind
        self._calls = Ids()

    def give(self, prefix: str, wanted: str = "") -> str:
        """Give *wanted*, if it is an id with *prefix* that nobody has, else one of our own."""
        if prefix not in self._ids:
            allowed = re.compile(prefix + r"_[A-Za-z0-9_-]{1,61}")
            self._ids[prefix] = Ids(allowed, f"{prefix}_{self._name}_", given=self._given)
        return self._ids[prefix].give(wanted)

    def give_call(self, wanted: str) -> str:
        """Give the first half of *wanted* as a `call_id`, if it is nobody else's."""
        return self._calls.give(wanted)

    def keep(self, item: dict[str, Any]) -> dict[str, Any]:
        """Give a provider's own *item* with an id that is not another's."""
        prefix = _UNLAWFUL.sub("", str(item["type"])) or "item"
        id_ = item.get("id")
        id_ = id_ if isinstance(id_, str) else ""
        ids = self._ids.setdefault("", Ids(prefix=f"{prefix}_{self._name}_", given=self._given))
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
    """Write thoughts as a summary, and seal their *signature* for the way back.

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
    """Give the item of *call* with its arguments: as they were *said*, unless they were mended."""
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
    """Tell whether a call takes free text: its id says so, or its tool is one of *custom*."""
    return name in custom or id.partition("|")[2].startswith("ctc_")


def signed(signature: str) -> dict[str, Any]:
    """Write a call's signature where Gemini's own OpenAI endpoint has it."""
    if not signature:
        return {}
    return {"extra_content": {"google": {"thought_signature": signature}}}


def foreign_item(part: Opaque) -> dict[str, Any] | None:
    """Give *part* as the item that it was, if it was one of this API."""
    data = part.data
    if part.provider != tables.NAME or not isinstance(data, dict):
        return None
    type_ = data.get("type")
    return data if isinstance(type_, str) and type_ and type_ not in _OWN else None


def annotations_of(part: Opaque) -> list[Any]:
    """Give the annotations that *part* keeps."""
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
    """Give the API's reason why an answer with *output* and *ending* is not complete, if it is not.

    A refusal is a complete answer, but not with calls: they would be run.
    """
    if ending == "length":
        return "max_output_tokens"
    has_calls = any(item["type"] in _CALLS for item in output)
    is_cut = ending == "filter" or (ending == "refusal" and has_calls)
    return "content_filter" if is_cut else ""
