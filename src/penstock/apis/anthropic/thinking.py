"""How much to think before the answer, both ways.

The API has two ways to say it. Newer models are told to think as they see fit (``adaptive``) and
how much effort to make, older ones get a budget of tokens; each kind refuses the other's way. A
client of this API knows which its model takes and is taken at its word; for all others the name of
the model decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.anthropic import tables
from penstock.apis.fields import integer, object_at, text_at, the_rest
from penstock.request import ReasoningOptions, Request

EFFORTS: Final = {"minimal": "low"}
"""Words for an effort that the API has another for."""

BUDGETS: Final = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""How many tokens an effort stands for, to models that take a budget."""

MIN_BUDGET: Final = 1_024
"""The least that the API takes for a budget."""

_ADAPTIVE: Final = re.compile(
    r"claude-(?:mythos|[a-z]+-(?:4[-.](?:[6-9]|\d\d)|[5-9]|\d\d)(?!\d))", re.IGNORECASE
)
_FORCED: Final = ("required", "tool")
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_FIELDS: Final = {
    "enabled": frozenset({"type", "budget_tokens"}),
    "adaptive": frozenset({"type"}),
    "disabled": frozenset({"type"}),
}
"""The ways to think that have a place in a request, and their fields that have."""


def read_reasoning(data: Mapping[str, Any]) -> ReasoningOptions | None:
    """Read how much to think: a budget, an effort, none, or, with no word, as the model likes."""
    thinking = object_at(data, "thinking")
    effort = text_at(object_at(data, "output_config"), "effort")
    match thinking.get("type"):
        case "disabled":
            return ReasoningOptions("none")
        case "enabled":
            return ReasoningOptions(effort, integer(thinking, "budget_tokens"))
        case "adaptive":
            return ReasoningOptions(effort)
    return ReasoningOptions(effort) if effort else None


def thinking_aside(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `read_reasoning` leaves of the field `thinking`."""
    thinking = object_at(data, "thinking")
    return the_rest(thinking, _FIELDS.get(str(thinking.get("type")), frozenset()))


def write_effort(request: Request) -> str:
    """Return the effort to ask for, where the model is one that takes it."""
    effort = request.reasoning.effort if request.reasoning else ""
    if effort == "none" or not (_is_own(request) or _is_adaptive(request)):
        return ""
    return EFFORTS.get(effort, effort)


def write_thinking(request: Request, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Write how much to think, unless the API would refuse to think in this place.

    It does so beside a forced call, and where *messages* end in results of calls that were made
    without thinking.
    """
    wanted, choice = request.reasoning, request.tool_choice
    aside = request.extra.get("thinking", {}) if _is_own(request) else {}
    if wanted is None:
        return dict(aside)
    if wanted.effort == "none" or wanted.budget == 0:
        return {"type": "disabled", **aside} if _is_own(request) or _is_adaptive(request) else {}
    if choice is not None and choice.mode in _FORCED:
        return {}
    if _thinks_as_it_likes(request):
        return {"type": "adaptive", **aside} if _asks_for_thoughts(request) else {}
    budget = _budget(wanted, None if _is_own(request) else request.max_tokens)
    if budget is None or _goes_on_without_thinking(messages):
        return {}
    return {"type": "enabled", "budget_tokens": budget, **aside}


def _is_own(request: Request) -> bool:
    return request.source == tables.NAME


def _is_adaptive(request: Request) -> bool:
    return _ADAPTIVE.search(request.model) is not None


def _thinks_as_it_likes(request: Request) -> bool:
    if _is_own(request):
        return request.reasoning is not None and request.reasoning.budget is None
    return _is_adaptive(request)


def _asks_for_thoughts(request: Request) -> bool:
    """Return whether thinking was asked for: to this API, an effort alone is for the answer."""
    return not _is_own(request) or request.raw is None or "thinking" in request.raw


def _budget(wanted: ReasoningOptions, limit: int | None) -> int | None:
    """Return the budget asked for, or what the effort stands for; *limit* is the whole answer's."""
    budget = wanted.budget or 0
    if budget < 0 or wanted.budget is None:
        budget = BUDGETS.get(wanted.effort, BUDGETS["medium"])
    if limit is not None:
        budget = min(budget, limit // 2)
        return budget if budget >= MIN_BUDGET else None
    return max(budget, MIN_BUDGET)


def _goes_on_without_thinking(messages: list[dict[str, Any]]) -> bool:
    if len(messages) < 2:  # noqa: PLR2004 - calls and results
        return False
    (*_, calls, results) = messages
    is_answer = _first_type(results) == "tool_result"
    return is_answer and _first_type(calls) not in _THOUGHTS


def _first_type(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return str(content[0]["type"]) if isinstance(content, list) else "text"
