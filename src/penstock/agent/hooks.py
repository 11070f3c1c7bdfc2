"""Where extensions take part in a run, by name; the run waits for them.

A hook is given a value and may give back another in its place; None leaves it. Some words end the
matter there: `Cancel` (of a prompt, a fork, a compaction), and what can be said to a call (`Deny`,
`Edit`, `Defer`). A hook that fails is told as a complaint and passed over, but for `tool_call`:
where nobody could say no, the answer is no.

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

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final

from msgspec import Struct

from penstock.agent.approval import Defer, Deny, Edit
from penstock.errors import UsageError
from penstock.requests import Message

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


_FINAL: Final = (Cancel, Deny, Edit, Defer)

Hook = Callable[[Any], Awaitable[Any] | Any]
"""Is given a value; gives another, or None."""

Complain = Callable[[str, str], None]
"""Is told who failed, and how."""


class Hooks:
    """The hooks of one agent, each name's in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in NAMES}

    def add(self, name: str, hook: Hook) -> Callable[[], None]:
        """Add *hook*; give what takes it away again.

        Raises `UsageError` for a name that nobody asks for.
        """
        if name not in self._hooks:
            raise UsageError(f"there is no hook {name!r}; there are: {', '.join(NAMES)}")
        self._hooks[name] = [*self._hooks[name], hook]  # who is being asked is not disturbed

        def remove() -> None:
            self._hooks[name] = [other for other in self._hooks[name] if other is not hook]

        return remove

    async def ask(self, name: str, value: Any, complain: Complain | None = None) -> Any:
        """Give what the hooks of *name* make of *value*.

        Without *complain*, what a hook raises is raised.
        """
        for hook in self._hooks[name]:
            try:
                answer = hook(value)
                if isawaitable(answer):
                    answer = await answer
            except Exception as exc:
                if complain is None:
                    raise
                complain(f"hook {name}", f"{type(exc).__name__}: {exc}")
                if name == "tool_call":
                    return Deny(f"a check of this call failed: {exc}")
                continue
            if isinstance(answer, _FINAL):
                return answer
            value = value if answer is None else answer
        return value
