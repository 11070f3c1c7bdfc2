"""Where extensions take part in a run, by name; the run waits for them.

A hook is given a value and may give back another in its place; None leaves it, and `Cancel` ends
the matter: the prompt, the fork, the compaction shall not be. About a call hooks decide: `Deny` and
`Defer` are the last word, an `Edit` is shown to the hooks that follow. A hook that fails is told as
a complaint and passed over, but for `tool_call`: where nobody could say no, the answer is no.

| hook | is given |
|---|---|
| `input` | the `UserMessage` of a prompt; `Cancel` says that it has been dealt with |
| `before_agent_start` | the `Briefing` of a run: its system prompt and its first messages |
| `context` | the list of messages that the model is shown |
| `before_provider_request` | the `Request` as it goes to the model |
| `tool_call` | the `ToolCall` that is about to run |
| `tool_result` | the `ToolResult` that the model will see |
| `session_before_switch`, `session_before_fork`, `session_before_compact` | what is about to be |
| `session_start`, `session_switch`, `session_fork`, `session_compact`, `session_end` | what was |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final

from msgspec import Struct, structs

from penstock.agent.approval import Allow, Decision, Defer, Deny, Edit
from penstock.agent.cancellation import is_cancelled
from penstock.errors import UsageError
from penstock.messages import ToolCall
from penstock.request import Message

NAMES: Final = (
    "input",
    "before_agent_start",
    "context",
    "before_provider_request",
    "tool_call",
    "tool_result",
    "session_before_switch",
    "session_before_fork",
    "session_before_compact",
    "session_start",
    "session_switch",
    "session_fork",
    "session_compact",
    "session_end",
)
"""Every hook there is."""


class Cancel(Struct, frozen=True):
    """What was about to be shall not be."""

    reason: str = ""


class Briefing(Struct, frozen=True):
    """What a run begins with."""

    system: str
    messages: list[Message]


Hook = Callable[[Any], Awaitable[Any] | Any]
"""Is given a value; gives another, or None."""

Complain = Callable[[str, str], None]
"""Is told who failed, and how."""


class Hooks:
    """The hooks of one agent, each name's in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, tuple[tuple[object, Hook], ...]] = dict.fromkeys(NAMES, ())

    def add(self, name: str, hook: Hook) -> Callable[[], None]:
        """Add *hook*; return what takes it away again.

        Raises `UsageError` for a name that nobody asks for.
        """
        if name not in self._hooks:
            raise UsageError(f"there is no hook {name!r}; there are: {', '.join(NAMES)}")
        added = (object(), hook)
        self._hooks[name] = (*self._hooks[name], added)  # who is being asked is not disturbed

        def remove() -> None:
            self._hooks[name] = tuple(one for one in self._hooks[name] if one is not added)

        return remove

    async def ask(self, name: str, value: Any, complain: Complain | None = None) -> Any:
        """Return what the hooks of *name* make of *value*.

        Without *complain*, what a hook raises is raised.
        """
        for _, hook in self._hooks[name]:
            try:
                answer = await _answer(hook, value)
            except Exception as exc:
                if complain is None:
                    raise
                complain(f"hook {name}", f"{type(exc).__name__}: {exc}")
                continue
            if isinstance(answer, Cancel):
                return answer
            value = value if answer is None else answer
        return value

    async def decide(self, call: ToolCall, complain: Complain) -> Decision:
        """Return what the hooks of ``tool_call`` say to *call*.

        What is not a word about a call is a no: a check that answers in other words has not said
        yes.
        """
        decision: Decision = Allow()
        for _, hook in self._hooks["tool_call"]:
            try:
                answer = await _answer(hook, call)
            except Exception as exc:  # noqa: BLE001 - it is the hook's own
                complain("hook tool_call", f"{type(exc).__name__}: {exc}")
                return Deny(f"a check of this call failed: {exc}")
            match answer:
                case None | Allow() | True:
                    continue
                case Deny() | Defer():
                    return answer
                case False:
                    return Deny()
                case Cancel(reason):
                    return Deny(reason)
                case Edit(arguments) | ToolCall(arguments=arguments):
                    decision = Edit(arguments)
                    call = structs.replace(call, arguments=arguments)
                case _:
                    complain("hook tool_call", f"{answer!r} is no decision")
                    return Deny("a check of this call gave no clear answer")
        return decision


async def _answer(hook: Hook, value: Any) -> Any:
    try:
        answer = hook(value)
        return await answer if isawaitable(answer) else answer
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise RuntimeError("what the hook waited for was cancelled") from None
