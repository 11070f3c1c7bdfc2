"""How one request is answered: what goes upstream, and how what comes back is read."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock.formats import AnyFormat, Format, for_model, get
from penstock.models.middleware import choice
from penstock.models.middleware.prompting import Prompting
from penstock.parsing import Reasoning
from penstock.request import Request

UNKNOWN_MODEL: Final = "hermes"
"""What a model is told to write that nobody knows: most models have seen it."""

CHAT: Final = "openai-chat"
"""What an upstream speaks that does not say: servers that can be held to a grammar speak chat."""


class Plan(Struct, frozen=True):
    """What is *asked* and how the answer is read: as text of *reads*, or *whole* as one call."""

    demand: choice.Demand
    prompting: Prompting
    asked: Request
    reads: AnyFormat
    reasoning: str | Reasoning | None
    whole: bool = False


class Planner(Struct, frozen=True):
    """Makes plans; *telling* are the options of `Prompting`."""

    format: AnyFormat
    telling: dict[str, Any]
    reasoning: str | Reasoning | None = None
    constrain: choice.Constraint | None = None

    def plan(self, request: Request, model: str, api: object) -> Plan:
        """Plan the answer to *request* by *model* behind *api*.

        Raises `UsageError` for a choice of tools that cannot be made.
        """
        demand = choice.demand_of(request)
        prompting = Prompting(self._told(model, request.model), **self.telling)
        whole = self.constrain == "json_schema" and demand.forced
        prompt = choice.json_prompt(demand.tools) if whole else None
        asked = prompting.request(request, demand.tools, rule=demand.rule, prompt=prompt)
        reads, reasoning = self.format, self.reasoning
        if whole:
            asked = choice.json_choice(asked, demand)
        elif self.constrain is not None:
            told = prompting.format
            held = choice.constrained(asked, demand, told, self.constrain, _name_of(api))
            if held is not None:
                asked, reads = held, told
        if not demand.tools:
            reads, reasoning = without_calls(reads, reasoning)
        return Plan(demand, prompting, asked, reads, reasoning, whole)

    def _told(self, *models: str) -> AnyFormat:
        """Give the format that the model is told to write: by its name, where none is given."""
        if self.format.name != "auto":
            return self.format
        found = [for_model(model).format for model in models]
        return get(next((name for name in found if name != "auto"), UNKNOWN_MODEL))


def _name_of(api: object) -> str:
    name = api if isinstance(api, str) else getattr(api, "name", None)
    return name if isinstance(name, str) else CHAT


def without_calls(
    format: AnyFormat,  # noqa: A002
    reasoning: str | Reasoning | None,
) -> tuple[AnyFormat, str | Reasoning | None]:
    """Give what reads thoughts and no calls: what looks like a call stays text.

    A format that tells thoughts from calls only as it reads them has to read both.
    """
    if not isinstance(format, Format) or format.usual_reasoning is None:
        return format, reasoning
    return get("none"), reasoning or format.usual_reasoning
