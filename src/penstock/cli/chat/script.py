"""One prompt without a terminal: for ``--print``, pipes and scripts."""

from __future__ import annotations

import sys
from typing import Any

from penstock import _json
from penstock.agent import events as agent_events
from penstock.cli.chat.models import advise_on
from penstock.cli.chat.render import EventRenderer, LineBuffer
from penstock.cli.chat.sessions import ChatSessions
from penstock.messages import AssistantMessage, sum_usage
from penstock.models.catalog import cost, find_facts
from penstock.request import UserMessage


async def print_response(
    sessions: ChatSessions, prompt: UserMessage, *, as_json: bool = False
) -> bool:
    """Run *prompt*: print the response to stdout and all other lines to stderr.

    With *as_json*, stdout gets one JSON object instead: see `describe_run`. Returns whether the run
    succeeded.
    """
    lines = LineBuffer()
    renderer = EventRenderer(lines, advise=lambda error: advise_on(sessions.agent.model, error))
    ended = agent_events.AgentEnded()
    async with sessions.current.run(prompt) as run:
        async for event in run:
            renderer.render(event)
            for line in lines.take_finished():
                _print(line.text, to_stderr=line.auxiliary or as_json)
            if isinstance(event, agent_events.AgentEnded):
                ended = event
    if as_json:
        _print(_json.encode(describe_run(sessions, ended)).decode(), to_stderr=False)
    return ended.error is None


def describe_run(sessions: ChatSessions, ended: agent_events.AgentEnded) -> dict[str, Any]:
    """Return what came of a run as the object that ``--json`` prints."""
    responses = [one for one in ended.messages if isinstance(one, AssistantMessage)]
    path = sessions.current.path
    usage = sum_usage(one.usage for one in responses)
    return {
        "text": responses[-1].text if responses else "",
        "model": responses[-1].model if responses else sessions.agent.model.name,
        "stop_reason": responses[-1].stop_reason if responses else "",
        "turns": len(responses),
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "reasoning": usage.reasoning,
        },
        "cost": _find_cost(responses),
        "session": None if path is None else str(path),
        "error": ended.error,
        "messages": ended.messages,
    }


def _find_cost(responses: list[AssistantMessage]) -> float | None:
    """Return what the responses cost in US dollars; None if a price is unknown."""
    total = 0.0
    for one in responses:
        prices = find_facts(one.model).prices
        if prices is None:
            return None
        total += cost(one.usage, prices).total
    return total if responses else None


def _print(text: str, *, to_stderr: bool) -> None:
    file = sys.stderr if to_stderr else sys.stdout
    encoding = file.encoding or "utf-8"
    file.write(f"{text.encode(encoding, 'replace').decode(encoding).rstrip()}\n")
    file.flush()
