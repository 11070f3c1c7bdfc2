"""The typed output of one run: asked for in every request, read while it arrives, and checked.

An output is accepted only if its meaning is certain: the response ended normally, exactly one
JSON object in it is meant as the output, and that fits the type. Anything else is sent back to the
model in words, or ends the run with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec import structs

from penstock.agent.events import OutputUpdated
from penstock.agent.output import Output, OutputFaultError
from penstock.agent.output.scanner import (
    MAX_FOUND,
    OutputScanner,
    list_bare_texts,
    read_object,
)
from penstock.agent.schemas import RESULT
from penstock.agent.tools.base import AgentTool, ToolContext
from penstock.errors import JSONParseError, ToolError
from penstock.events import Event, TextDelta, TextEnd, ToolCallDelta, ToolCallStart
from penstock.grammar.gbnf import write_piece
from penstock.grammar.outline import Arguments
from penstock.messages import AssistantMessage, ErrorInfo, ErrorKind, ToolCall
from penstock.models.base import Model, OutputMode
from penstock.request import Request, ToolChoice
from penstock.tools import Tool
from penstock.values import Change, IncrementalJSON, rjson

ACCEPTED: Final = "The result was accepted."
FAULT: Final = "output"
"""`ErrorInfo.type` of a run whose output has faults."""

# Statuses of servers that do not know a response format or a tool choice; llama.cpp sends 500.
_REFUSED_STATUS: Final = frozenset({400, 404, 405, 415, 422, 500, 501})

# APIs whose servers show the schema to the model; others may only constrain what it writes.
_CONSTRAINED: Final = frozenset({"openai-responses", "anthropic", "gemini"})

_CUT: Final = "Your response was cut off at the token limit. Write a shorter one."
_NOTHING: Final = "Your response contains no JSON object with the result."
_NO_RESULT: Final = f"Your response contains no JSON object with the key `{RESULT}`."
_SEVERAL: Final = (
    "Your response contains several different JSON objects that fit, so it is not certain which"
    " one is the result. Write exactly one."
)
_NOT_RUN: Final = "The call of `{name}` was not complete."
_TWICE: Final = "You called `{name}` several times with different results. Call it once."


class OutputTask:
    """Gets the *output* of one run from *model*; *has_tools* says whether it has other tools.

    *refused* are the modes that the server of the model refused in earlier runs.
    """

    def __init__(
        self,
        output: Output[Any],
        model: Model,
        *,
        has_tools: bool,
        refused: set[OutputMode] | None = None,
    ) -> None:
        self.has_value = False
        self.value: Any = None
        self.error: ErrorInfo | None = None
        """Why there is no output: the last one that was sent back had faults as well."""
        self._output = output
        self._has_tools = has_tools
        self._refused = set() if refused is None else refused
        self._failures = 0
        self._returned: dict[str, Any] = {}  # by the id of the call of the final tool
        self._faults: dict[str, str] = {}  # of the others
        self._live = _LiveOutput(output)
        self._choose_modes(model)

    def use_model(self, model: Model) -> None:
        """Continue with *model* after another one failed."""
        self._refused = set()
        self._choose_modes(model)

    def _choose_modes(self, model: Model) -> None:
        output, self._api = self._output, model.api_name
        found = model.output_modes(has_tools=self._has_tools) or ("prompt",)
        given = output.mode
        modes = [
            mode for mode in found if output.allows(mode, self._api) and mode not in self._refused
        ]
        self._modes: list[OutputMode] = (modes or ["prompt"]) if given == "auto" else [given]
        self._explains = self._api not in _CONSTRAINED

    @property
    def mode(self) -> OutputMode:
        """How the model is made to write the output now."""
        return self._modes[0]

    @property
    def tool(self) -> AgentTool:
        """The final tool, whose arguments are the output."""
        output = self._output
        about = output.description or "Return the final result. Call it once, at the end."
        described = Tool(output.name, about, output.schema)
        # Lenient, because `_take_arguments` checks the arguments as any other output.
        return AgentTool(described, self._take_arguments, needs_approval=False, lenient=True)

    # --- requests ---

    def prepare(self, request: Request) -> Request:
        """Return *request* so that its response has the output."""
        self._live = _LiveOutput(self._output)
        output, mode = self._output, self.mode
        system = request.system
        if mode in ("prompt", "grammar") or (mode == "native" and self._explains):
            instructions = output.render_instructions()
            system = f"{system}\n\n{instructions}" if system else instructions
        request = structs.replace(request, system=system)
        if mode == "native":
            format_ = output.response_format(self._api)
            return structs.replace(request, response_format=format_)
        if mode == "tool":
            tools = [*request.tools, self.tool.tool]
            only = ToolChoice("required" if self._has_tools else "tool", output.name)
            # Anthropic refuses to force a call while the model reasons.
            choice = only if request.reasoning is None else request.tool_choice
            return structs.replace(request, tools=tools, tool_choice=choice)
        if mode == "grammar":
            grammar = write_piece(Tool("output", "", output.schema), Arguments())
            own = request.extra if request.source in ("", self._api) else {}
            extra = {**own, "grammar": grammar}
            return structs.replace(request, source=self._api, extra=extra)
        return request

    def take_fallback(self, error: ErrorInfo) -> bool:
        """Return whether another mode may avoid *error*; the next request then uses it."""
        if len(self._modes) < 2 or self._live.has_begun or error.kind != "provider":  # noqa: PLR2004
            return False
        if error.status not in _REFUSED_STATUS:
            return False
        self._refused.add(self._modes.pop(0))
        return True

    # --- responses ---

    def add(self, event: Event) -> OutputUpdated | None:
        """Read *event*; return what it adds to the output."""
        return self._live.add(event)

    def check(self, response: AssistantMessage, *, is_last: bool) -> str:
        """Read the output of *response*; return what to send back, or the empty string.

        A response that is not the last one, because a message is queued, is never sent back.
        """
        self.has_value, fault = False, ""
        finals = [call for call in response.tool_calls if call.name == self._output.name]
        if finals:
            fault = self._check_calls(finals)
        elif response.tool_calls:
            return ""  # Their results come first.
        else:
            fault = self._check_text(response)
        if not fault:
            self._failures = 0
            return ""
        if not is_last:
            return ""
        self._failures += 1
        self._explains = True
        if self._failures > self._output.retries:
            is_cut = response.stop_reason == "length"
            kind: ErrorKind = "truncated" if is_cut else "malformed"
            self.error = ErrorInfo(f"the output is not usable: {fault}", kind, FAULT)
        # The results of calls without a value say what is wrong, so nothing more has to be sent.
        is_known = any(call.id in self._faults for call in finals)
        return "" if is_known else self._render_complaint(fault)

    def _check_calls(self, calls: list[ToolCall]) -> str:
        values = [self._returned[call.id] for call in calls if call.id in self._returned]
        if not values:
            faults = [self._faults[call.id] for call in calls if call.id in self._faults]
            return faults[-1] if faults else _NOT_RUN.format(name=self._output.name)
        if any(one != values[0] for one in values):
            return _TWICE.format(name=self._output.name)
        self._accept(values[0])
        return ""

    def _check_text(self, response: AssistantMessage) -> str:
        if response.stop_reason == "length":
            return _CUT
        try:
            self._accept(self._read_text(response.text))
        except OutputFaultError as exc:
            return str(exc)
        return ""

    def _accept(self, value: Any) -> None:
        self.value, self.has_value = value, True

    def _read_text(self, text: str) -> Any:
        """Return the output in *text*, or raise `OutputFaultError`."""
        scanner = OutputScanner()
        scanner.feed(text)
        scanner.finish()
        if len(scanner.found) > MAX_FOUND:
            raise OutputFaultError(_SEVERAL)
        objects: list[dict[str, Any]] = []
        for found in scanner.found:
            value, fault = read_object(text, found)
            if fault:
                where = text.count("\n", 0, found.end) + 1
                raise OutputFaultError(f"The JSON is malformed near line {where}: {fault}.")
            if self._output.is_candidate(value):
                objects.append(value)
            if found.fault:
                break  # It was repaired up to the end of the text.
        return self._choose(objects, self._read_object) if objects else self._read_bare(text)

    def _choose(self, values: list[Any], read: Callable[[Any], Any]) -> Any:
        """Return what *read* makes of the only one of *values* that fits; raise its fault."""
        fitting, faults = [], []
        for value in values:
            try:
                fitting.append((value, read(value)))
            except OutputFaultError as exc:
                faults.append(exc)
        if not fitting:
            raise faults[-1]
        if any(value != fitting[0][0] for value, _ in fitting):
            raise OutputFaultError(_SEVERAL)
        return fitting[0][1]

    def _read_object(self, value: Any) -> Any:
        try:
            return self._output.read(value)
        except OutputFaultError as exc:
            raise OutputFaultError(f"The JSON object does not fit:\n{exc}") from exc

    def _read_bare(self, text: str) -> Any:
        """Return the output if *text*, or one block of code in it, is nothing but a JSON value."""
        values = []
        for inner in list_bare_texts(text):
            with suppress(JSONParseError):
                value = rjson.loads(inner)
                # Relaxed JSON takes a bare word for text, and prose is not the output.
                if inner.startswith('"') or not isinstance(value, str):
                    values.append(value)
        if not values:
            raise OutputFaultError(_NO_RESULT if self._output.is_wrapped else _NOTHING)
        read = self._output.read_bare if self._output.is_wrapped else self._output.read
        return self._choose(values, read)

    def _render_complaint(self, fault: str) -> str:
        if self.mode == "tool":
            return f"{fault}\n\nCall `{self._output.name}` with the whole result."
        return f"{fault}\n\nWrite the whole JSON object again, with nothing after it."

    async def _take_arguments(self, arguments: dict[str, Any], context: ToolContext) -> str:
        try:
            value = self._output.read(arguments)
        except OutputFaultError as exc:
            self._faults[context.id] = f"The result does not fit:\n{exc}"
            raise ToolError(self._faults[context.id]) from exc
        self._returned[context.id] = value
        return ACCEPTED


class _LiveOutput:
    """The output of one response as far as it has arrived."""

    def __init__(self, output: Output[Any]) -> None:
        self.has_begun = False
        self._output = output
        self._scanner = OutputScanner()
        self._arguments: dict[int, IncrementalJSON] = {}
        self._reader: IncrementalJSON | None = None  # the one that `partial` shows
        self._shown: IncrementalJSON | None = None  # the last that has a property of the output
        self._unsent: list[Change] = []  # of an object that may not be the output
        self._texts: set[int] = set()

    def add(self, event: Event) -> OutputUpdated | None:
        """Read *event*; return what it adds."""
        changes: list[Change] = []
        before = self._reader
        if isinstance(event, TextDelta):
            self.has_begun = True
            self._texts.add(event.index)
            changes = self._scanner.feed(event.text)
            self._reader = self._scanner.reader
        elif isinstance(event, TextEnd) and event.index not in self._texts:
            changes = self._scanner.feed(event.text)
            self._reader = self._scanner.reader
        elif isinstance(event, ToolCallStart):
            self.has_begun = True
            if event.name == self._output.name:
                self._arguments[event.index] = IncrementalJSON(recover=True)
        elif isinstance(event, ToolCallDelta) and event.index in self._arguments:
            reader = self._reader = self._arguments[event.index]
            changes = reader.feed(event.arguments)
        if self._reader is not before:
            self._unsent = []
        self._unsent += changes
        # The changes are searched, not the value: reading that joins the string that is open.
        if any(change.path and self._output.has_property(change.path[0]) for change in changes):
            self._shown = self._reader
        if not changes or self._reader is not self._shown:
            return None
        sent = [self._clean(change) for change in self._unsent]
        self._unsent = []
        wanted = [change for change in sent if change is not None]
        return OutputUpdated(wanted, self) if wanted else None

    def _clean(self, change: Change) -> Change | None:
        """Return *change* as it is sent: without the wrapper, and without the value at its end."""
        path = change.path
        if self._output.is_wrapped:
            if path[:1] != (RESULT,):
                return None
            path = path[1:]
        # A container that ends has arrived in pieces before.
        value = None if change.kind == "end" else change.value
        return structs.replace(change, path=path, value=value)

    @property
    def partial(self) -> Any:
        """A copy of the output so far; None if nothing of it has arrived."""
        if self._reader is None or self._reader is not self._shown:
            return None
        value = self._reader.snapshot()
        return value.get(RESULT) if self._output.is_wrapped else value
