"""How extensions take part in a run: hooks, which the run waits for, and guards.

A hook receives a value and may return another one in its place. None keeps the value, and `Cancel`
cancels what is about to happen: the prompt, the fork, the compaction. The hooks of ``tool_call``
decide about a call: `Deny` and `Defer` are final, and an `Edit` is passed to the hooks that follow.
A hook that raises is reported as an `extension_error` and skipped. A hook of ``tool_call`` that
raises denies the call, because it may have been about to.

| hook | receives |
|---|---|
| `input` | the `UserMessage` of a prompt; `Cancel` drops it |
| `before_agent_start` | the `Briefing` of a run: its system prompt and its first messages |
| `context` | the list of messages that is sent to the model |
| `before_provider_request` | the `Request` that is sent to the model |
| `tool_call` | the `ToolCall` that is about to run |
| `tool_result` | the `ToolResult` that is sent to the model |
| `session_before_switch`, `session_before_fork` | the id of the entry to continue from |
| `session_before_compact` | the reason of the compaction |
| `session_start`, `session_switch`, `session_fork`, `session_end` | the session |
| `session_compact` | the event that reports the compaction |

A `Guard` reads the events of each response while it arrives, and may stop it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any, Final, Literal, TypeVar, get_args

from msgspec import Struct, structs

from penstock.agent.approval import Allow, Decision, Defer, Deny, Edit
from penstock.agent.cancellation import is_cancelled
from penstock.errors import UsageError, describe_exception
from penstock.events import Event
from penstock.messages import ToolCall, ToolResult
from penstock.request import Message

HookName = Literal[
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
]
NAMES: Final[tuple[HookName, ...]] = get_args(HookName)
"""The names of all hooks."""

T = TypeVar("T")

Hook = Callable[[Any], Awaitable[Any] | Any]
"""Receives a value; returns another one, or None to keep it."""

ReportError = Callable[[str, str], None]
"""Receives the name of an extension that failed, and its error message."""


class Cancel(Struct, frozen=True):
    """Returned by a hook to cancel what is about to happen."""

    reason: str = ""


class Briefing(Struct, frozen=True):
    """The system prompt and the messages that a run starts with."""

    system: str
    messages: list[Message]


class Hooks:
    """The hooks of one agent; those of one name are called in the order of `add`."""

    def __init__(self) -> None:
        self._hooks: dict[HookName, tuple[tuple[object, Hook], ...]] = dict.fromkeys(NAMES, ())

    def add(self, name: HookName, hook: Hook) -> Callable[[], None]:
        """Add *hook*; return a function that removes it.

        Raises `UsageError` for an unknown name.
        """
        if name not in self._hooks:
            raise UsageError(f"unknown hook {name!r}; expected one of {', '.join(NAMES)}")
        added = (object(), hook)
        self._hooks[name] = (*self._hooks[name], added)  # a call in progress keeps the old tuple

        def remove() -> None:
            self._hooks[name] = tuple(one for one in self._hooks[name] if one is not added)

        return remove

    async def run(self, name: HookName, value: Any, report: ReportError | None = None) -> Any:
        """Pass *value* through the hooks of *name*; return the result, or a `Cancel`.

        Exceptions go to *report*; without it they are raised.
        """
        for _, hook in self._hooks[name]:
            try:
                result = await _call(hook, value)
            except Exception as exc:
                # Hooks before a branch or a fork: the caller gets the exception.
                if report is None:
                    raise
                report(f"hook {name}", describe_exception(exc))
                continue
            if isinstance(result, Cancel):
                return result
            value = value if result is None else result
        return value

    async def decide(self, call: ToolCall, report: ReportError) -> Decision:
        """Return the decision of the ``tool_call`` hooks about *call*.

        Any return value that is not a decision denies the call.
        """
        decision: Decision = Allow()
        for _, hook in self._hooks["tool_call"]:
            try:
                result = await _call(hook, call)
            except Exception as exc:  # noqa: BLE001 - a hook may raise anything
                report("hook tool_call", describe_exception(exc))
                return Deny(f"a check of this call failed: {exc}")
            match result:
                # True is accepted like `Allow`; it does not replace approval.
                case None | Allow() | True:
                    continue
                case Deny() | Defer():
                    return result
                case False:
                    return Deny()
                case Cancel(reason):
                    return Deny(reason)
                case Edit(arguments) | ToolCall(arguments=arguments):
                    decision = Edit(arguments)
                    call = structs.replace(call, arguments=arguments)
                case _:
                    report("hook tool_call", f"{result!r} is not a decision")
                    return Deny("a check of this call returned no valid decision")
        return decision


async def _call(hook: Hook, value: Any) -> Any:
    try:
        result = hook(value)
        return await result if isawaitable(result) else result
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        # A foreign CancelledError would otherwise end the run as if it had been aborted.
        raise RuntimeError("a task that the hook awaited was cancelled") from None


# --- guards ---


class Finding(Struct, frozen=True):
    """What a guard found in a response; *text* is sent to the model.

    A finding that *interrupts* stops the response at once; any other is sent after the turn. With
    *keep*, the stopped response stays in the conversation. Raises `UsageError` for an invalid
    *source*.
    """

    source: Literal["rule", "guard"]
    names: list[str]
    text: str
    interrupts: bool = True
    keep: bool = False

    def __post_init__(self) -> None:
        if self.source not in ("rule", "guard"):
            raise UsageError(f"source must be 'rule' or 'guard', got {self.source!r}")


class Guard:
    """Reads each response while it arrives, and may stop it; override the methods you need.

    The methods are called between two events of a stream, so they must be fast and must not block.
    Their exceptions are reported as `extension_error`.
    """

    def prompt_started(self) -> None:
        """Start a prompt: budgets are full again."""

    def turn_started(self) -> None:
        """Start a turn."""

    def response_started(self) -> None:
        """Start a response; a turn has several if one is retried or stopped."""

    def check(self, event: Event) -> Finding | None:
        """Check *event* before it is emitted; return a finding to stop the response."""

    def tool_ended(self, result: ToolResult) -> None:
        """Handle the *result* of a tool, which may have changed files."""

    def turn_ended(self) -> None:
        """End the turn."""

    def restore(self, names: Iterable[str]) -> None:
        """Mark the rules called *names* as fired, and no others: a stored session was opened."""


class GuardSet:
    """The guards of an agent; an exception of one is reported and does not affect the others."""

    def __init__(self, guards: Iterable[Guard], report: ReportError) -> None:
        self._guards = tuple(guards)
        self._report = report

    def call(self, method: Callable[[Guard], T]) -> list[T]:
        """Call *method* with each guard; return the results of those that did not raise."""
        results = []
        for guard in self._guards:
            try:
                results.append(method(guard))
            except Exception as exc:  # noqa: BLE001 - a guard may raise anything
                self._report(type(guard).__name__, describe_exception(exc))
        return results

    def check(self, event: Event) -> list[Finding]:
        """Return what the guards find in *event*."""
        return [found for found in self.call(lambda guard: guard.check(event)) if found is not None]
