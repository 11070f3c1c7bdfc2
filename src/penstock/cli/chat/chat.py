"""The interactive chat: input goes to the agent, its events go to the terminal.

One thing runs at a time, a response or a slash command, and input is accepted meanwhile. Ctrl-C
*pauses* a response: no tool starts and nothing more is shown until the user enters a new
instruction, which replaces the response, or Enter, which resumes it, or Ctrl-C, which stops it.
Text that is entered without Ctrl-C steers the agent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock import formats
from penstock.agent import AgentRun
from penstock.agent.events import (
    AgentEnded,
    AgentEvent,
    ApprovalRequested,
    MessageEnded,
    ToolEnded,
)
from penstock.cli.chat.approval import (
    ALL_ARGUMENTS,
    ApprovalQuestion,
    ApprovalQueue,
    Approver,
    InterruptedCalls,
    describe_interrupted,
    is_always,
    is_answer,
    is_edit,
    parse_decision,
)
from penstock.cli.chat.completion import InputCompleter
from penstock.cli.chat.markdown import MarkdownWriter
from penstock.cli.chat.mentions import describe_files, prompt_text, read_mentions
from penstock.cli.chat.models import (
    AUTO,
    EFFORTS,
    NATIVE,
    ModelChoice,
    advise_on,
    list_names,
    make_model,
)
from penstock.cli.chat.render import (
    MAX_RESULT,
    CallRenderer,
    EventRenderer,
    LineBuffer,
    StyledText,
    escape_text,
    shorten_lines,
)
from penstock.cli.chat.servers import FormQuestion, ServerQuestions
from penstock.cli.chat.sessions import ChatSessions
from penstock.cli.chat.slash_commands import COMMANDS, find_command, run_command
from penstock.cli.chat.status import FRAME_SECONDS, Activity, ChatStatus
from penstock.cli.chat.terminal import Terminal
from penstock.errors import PenstockError, ToolError, UsageError
from penstock.messages import AssistantMessage, ToolCall
from penstock.models.base import Model
from penstock.request import UserMessage
from penstock.workspace.apply_patch import PatchApplier
from penstock.workspace.files import Files
from penstock.workspace.sandbox import Folder

DEFER_SECONDS: Final = 2.0
"""How long a chat that ends waits for a run whose questions are left open: tools may still run."""

HISTORY_PROMPTS: Final = 2
"""The prompts of a continued session that are shown again, with the responses to them."""

FOLLOW_UP: Final = "+"
"""The beginning of an input that is sent when the agent has finished."""

# The text before the input, and the hint in an empty one.
IDLE: Final = (StyledText("> ", "bold"), "type a request; /help lists the commands")
QUITTING: Final = (StyledText("> ", "bold"), "press Ctrl-C again to quit")
BUSY: Final = (
    StyledText("> ", "dim"),
    "working: Enter steers, + waits until the end, Ctrl-C pauses",
)
PAUSED: Final = (
    StyledText("instead > ", "yellow"),
    "type a new instruction; Enter resumes, Ctrl-C stops",
)
APPROVAL: Final = (
    StyledText("? ", "yellow"),
    "y yes, n no, e edit, a always; or type a new instruction",
)
INTERRUPTED: Final = (
    StyledText("? ", "yellow"),
    "r runs it again, d RESULT sets its result, u leaves it unknown",
)


class ChatTasks:
    """The current task of a chat, and short tasks beside it; *on_end* is called after each.

    The first exception of a task is kept in `error`: it is a bug, and ends the chat.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._current: asyncio.Task[None] | None = None
        self._can_stop = False
        self._others: set[asyncio.Task[None]] = set()
        self.error: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the current task is running."""
        return self._current is not None and not self._current.done()

    def start(self, work: Coroutine[None, None, None], *, can_stop: bool = False) -> None:
        """Start the current task; there must not be one that runs."""
        self._current = asyncio.create_task(work)
        self._can_stop = can_stop
        self._current.add_done_callback(self._end)

    def start_other(self, work: Coroutine[None, None, None]) -> None:
        """Start a task beside the current one."""
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        task.add_done_callback(self._end)

    def stop(self) -> None:
        """Cancel the current task, if it can be stopped."""
        if self._current is not None and self._can_stop:
            self._current.cancel()

    async def wait_for_current(self, seconds: float | None = None) -> None:
        """Wait for the end of the current task, at most *seconds*."""
        if self._current is not None:
            await asyncio.wait([self._current], timeout=seconds)

    async def finish(self) -> None:
        """Wait for the end of all tasks."""
        self.stop()
        while left := [task for task in (self._current, *self._others) if task and not task.done()]:
            await asyncio.wait(left)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.error = self.error or task.exception()
        self._on_end()


class TerminalChat:
    """A conversation at a terminal, recorded by *sessions*.

    *approver* asks its questions here, and so do MCP servers by *questions*.
    """

    def __init__(
        self,
        sessions: ChatSessions,
        approver: Approver,
        choice: ModelChoice,
        questions: ServerQuestions | None = None,
        *,
        colours: bool = True,
    ) -> None:
        self.lines = LineBuffer()
        self.renderer = EventRenderer(
            self.lines,
            lambda lines: MarkdownWriter(lines, lambda: self._terminal.columns),
            self._preview_call,
            lambda error: advise_on(sessions.agent.model, error),
        )
        self.sessions = sessions
        self.choice = choice
        self._agent = sessions.agent
        self._folder = Path(sessions.cwd)
        self._files = Files(Folder(self._folder))
        self._patches = PatchApplier(Folder(self._folder))
        self._status = ChatStatus(self._agent, _shorten_path(self._folder), choice.effort)
        self._activity = Activity(time.monotonic)
        self._approver = approver
        approver.ask, approver.withdraw = self._ask, self._withdraw
        self._forms = questions or ServerQuestions()
        self._forms.on_change = self._change_form
        self._form: FormQuestion | None = None
        self._terminal = Terminal(
            self.lines,
            on_input=self._handle_input,
            on_interrupt=self._handle_interrupt,
            on_quit=self.quit,
            completer=InputCompleter(
                self._folder,
                {name: command.help for name, command in COMMANDS.items()},
                {"model": self._list_models, "format": _list_formats, "effort": _list_efforts},
            ),
            status=self._status.render,
            activity=self._draw_activity,
            colours=colours,
        )
        self._quit = asyncio.Event()
        self._resumed = asyncio.Event()  # cleared while the response is paused
        self._resumed.set()
        self._tasks = ChatTasks(self._handle_task_end)
        self._run: AgentRun | None = None
        self._replacing = asyncio.Lock()
        self._questions = ApprovalQueue()
        self._interrupted = InterruptedCalls()
        self._quits_next = False
        self._former_models: list[Model] = []
        self._agent.hooks.add("tool_call", self._wait_while_paused)

    async def run(self, prompt: str = "") -> None:
        """Chat until the user quits."""
        async with self._terminal.run():
            if prompt and (self._interrupted_call() is not None or self._agent.deferred):
                self._terminal.set_text(prompt)  # the calls are asked about first
            elif prompt:
                self._start_run(prompt)
            self._resume_deferred()
            self._update_prompt()
            await self._quit.wait()
            self._resumed.set()
            self._approver.is_closing = True
            if self._questions.defer_all():  # the run ends, unless a tool runs
                await self._tasks.wait_for_current(DEFER_SECONDS)
            await self._agent.abort()
            await self._tasks.finish()
            session = self.sessions.current
            if session.path is not None and session.entries:
                self.lines.note(f"--resume continues this session: {session.path}", "dim")
        for model in self._former_models:
            await model.close()
        if self._tasks.error is not None:
            raise self._tasks.error

    # --- for slash commands ---

    def change_model(self, choice: ModelChoice) -> None:
        """Use another model; raise `UsageError` for an invalid choice."""
        model = make_model(choice, os.environ)
        # Closed at the end only: a run of the old model may still be reading its connection.
        self._former_models.append(self._agent.model)
        self._agent.model = model
        self.choice = choice
        self._status.effort = choice.effort
        self._status.update()

    def show_history(self) -> None:
        """Print the last messages of the conversation, and the calls that wait."""
        messages = self._agent.messages
        self.lines.note(f"{len(messages)} messages so far", "dim", "  ")
        prompts = [
            at
            for at, message in enumerate(messages)
            if isinstance(message, UserMessage) and not message.source
        ]
        start = prompts[-HISTORY_PROMPTS] if len(prompts) >= HISTORY_PROMPTS else 0
        for message in messages[start:]:
            if isinstance(message, UserMessage) and message.source:  # from a rule or a guard
                self.lines.note(_shorten_text(message.text), "dim", f"  ({message.source}) ")
            elif isinstance(message, UserMessage):
                typed = prompt_text(message)
                self.lines.note(_shorten_text(typed), "bold", "> ")
                for file in describe_files(message):
                    self.lines.note(file, "dim", "  + ")
                self._terminal.remember(typed)
            elif isinstance(message, AssistantMessage) and message.text.strip():
                writer = MarkdownWriter(self.lines, lambda: self._terminal.columns)
                writer.add(_shorten_text(message.text))
                writer.end()
        self._interrupted.begin(self._agent.interrupted)
        for call in self._agent.interrupted:
            self.lines.warn(describe_interrupted(call))
        for call in self._agent.deferred:
            CallRenderer(self.lines, call.name, self._preview_call).close(call)
        if self._agent.deferred:
            self.lines.warn("the last chat ended before these calls were approved")
        self._status.update()

    def clear_screen(self) -> None:
        """Drop the lines that were not shown yet, and clear the screen."""
        self.lines.take_finished()
        self._status.update()
        self._terminal.clear()

    def quit(self) -> None:
        """End the chat."""
        self._quit.set()

    # --- input ---

    def _handle_input(self, text: str) -> None:
        self._quits_next = False
        question = self._questions.current
        try:
            if not self._resumed.is_set():
                self._replace_or_resume(text)
            elif (form := self._forms.current) is not None:
                self._fill_in(form, text)
            elif question is not None and question.edited:
                self._finish_edit(question, text)
            elif question is not None:
                self._answer(question, text)
            elif text.strip() and self._interrupted_call() is not None:
                self._decide_interrupted(text)
            elif text.strip():
                self._send(text)
        except PenstockError as exc:
            self.lines.warn(str(exc))
        self._update_prompt()

    def _send(self, text: str) -> None:
        """Send *text* to the agent, or run the command that it is."""
        self._terminal.remember(text)
        if self._tasks.is_busy and self._run is None:
            # The user typed it before the command had ended, so it is not lost.
            self._tasks.start_other(self._handle_later(text))
        elif text.startswith("/"):
            self.lines.note(text, "bold", "> ")
            if self._tasks.is_busy:
                self._tasks.start_other(self._run_command(text, busy=True))
            else:
                command = find_command(text)
                can_stop = command is not None and command.can_stop
                self._tasks.start(self._run_command(text, busy=False), can_stop=can_stop)
        elif not self._tasks.is_busy:
            self._start_run(text)
        elif is_answer(text):  # it was meant for a question that is gone
            self.lines.warn("there is no question to answer")
        elif text.startswith(FOLLOW_UP):
            message = text.removeprefix(FOLLOW_UP).strip()
            self._agent.follow_up(self._read_prompt(message))
            self.lines.note(f"later: {message}", "dim", "  ")
        else:
            self._agent.steer(self._read_prompt(text))
            self.lines.note(f"steering: {text}", "dim", "  ")

    async def _handle_later(self, text: str) -> None:
        """Handle *text* when the current slash command has ended."""
        await self._tasks.wait_for_current()
        self._handle_input(text)

    async def _run_command(self, line: str, *, busy: bool) -> None:
        try:
            await run_command(self, line, busy=busy)
        except PenstockError as exc:
            self.lines.warn(str(exc))
        self._terminal.refresh()

    # --- Ctrl-C ---

    def _handle_interrupt(self) -> None:
        question = self._questions.current
        if self._run is None and self._tasks.is_busy:
            self._tasks.stop()
        elif self._run is None and self._quits_next and not self._terminal.text:
            self.quit()
        elif self._run is None:
            self._quits_next = not self._terminal.take_text()
        elif (form := self._forms.current) is not None and self._resumed.is_set():
            self._terminal.take_text()
            form.decline()
        elif question is not None and question.edited:
            question.edited = ""
            self._terminal.take_text()
        elif self._resumed.is_set():
            self._resumed.clear()
        else:
            self._resumed.set()
            self._tasks.start_other(self._stop_run())
        self._update_prompt()

    async def _wait_while_paused(self, _call: object) -> None:
        """Delay a tool that is about to start."""
        await self._resumed.wait()

    def _replace_or_resume(self, text: str) -> None:
        self._resumed.set()
        if text.strip() and self._run is not None:
            self._tasks.start_other(self._replace_run(text))
        elif text.strip():  # the run has ended meanwhile
            self._send(text)

    async def _stop_run(self) -> None:
        """Stop the run; messages that were not sent yet can be edited."""
        await self._agent.abort()
        waiting = "\n".join(prompt_text(message) for message in self._agent.clear_queues())
        if waiting and not self._terminal.text:
            self._terminal.set_text(waiting)
        self._update_prompt()

    async def _replace_run(self, text: str) -> None:
        """Stop the run, and send *text*."""
        # Of two instructions that are entered quickly, the second replaces the run of the first.
        async with self._replacing:
            await self._agent.abort()
            await self._tasks.wait_for_current()
            self._handle_input(text)

    # --- calls that the last process did not finish ---

    def _interrupted_call(self) -> ToolCall | None:
        """Return the call to ask about; not one of a session that was closed."""
        call = self._interrupted.current
        return call if call in self._agent.interrupted else None

    def _decide_interrupted(self, text: str) -> None:
        """Apply a decision about a call; a message to the model leaves all of them unknown."""
        if text.startswith("/"):
            self._send(text)
        elif not self._interrupted.decide(text):
            if is_answer(text):
                self.lines.warn(INTERRUPTED[1])
                return
            self._interrupted.begin([])
            self._send(text)
        elif self._interrupted.current is None:
            self._run = self.sessions.current.resume(self._interrupted.decisions)
            self._tasks.start(self._follow_run(self._run))

    def _resume_deferred(self) -> None:
        """Ask about the calls that wait for approval: the run continues where it ended."""
        if self._agent.deferred and self._interrupted_call() is None and not self._tasks.is_busy:
            self._run = self.sessions.current.resume()
            self._tasks.start(self._follow_run(self._run))

    # --- approval ---

    def _ask(self, question: ApprovalQuestion) -> None:
        self._questions.add(question)
        self._update_prompt()

    def _withdraw(self, question: ApprovalQuestion) -> None:
        self._questions.remove(question)
        if question.edited:
            self._terminal.take_text()
        self._update_prompt()

    def _answer(self, question: ApprovalQuestion, text: str) -> None:
        if decision := parse_decision(text):
            if is_always(text):
                self._approver.allow_always(question.call.name)
            question.decide(decision)
        elif is_edit(text):
            self._terminal.set_text(question.begin_edit())
        elif text.strip():
            self._send(text)

    def _finish_edit(self, question: ApprovalQuestion, text: str) -> None:
        try:
            decision = question.parse_edit(text)
        except UsageError as exc:
            self.lines.warn(str(exc))
            self._terminal.set_text(text)
            return
        question.edited = ""
        self.lines.note(_shorten_text(text), "dim", "  ~ ")
        question.decide(decision)

    # --- questions of MCP servers ---

    def _change_form(self) -> None:
        """Print the question that is to be answered now."""
        form = self._forms.current
        if form is not None and form is not self._form:
            self.lines.note(form.asked.message, "yellow", f"? {escape_text(form.asked.server)}: ")
        self._form = form
        self._update_prompt()

    def _fill_in(self, form: FormQuestion, text: str) -> None:
        name = form.field
        form.enter(text)
        if name:
            self.lines.note(_shorten_text(text), "dim", f"  {escape_text(name)}: ")

    # --- runs ---

    def _start_run(self, text: str) -> None:
        if not self._quit.is_set():
            self._run = self.sessions.current.run(self._read_prompt(text))
            self._tasks.start(self._follow_run(self._run))

    def _read_prompt(self, text: str) -> UserMessage:
        """Return *text* with the files that it names."""
        mentions = read_mentions(text, self._folder)
        for warning in mentions.warnings:
            self.lines.warn(warning)
        return mentions.message

    async def _follow_run(self, run: AgentRun) -> None:
        """Render *run*, and the runs for messages that were sent too late for it."""
        self._activity.start("Waiting for the model")
        ticks = asyncio.create_task(self._tick())
        try:
            while await self._show_run(run) and self._agent.queued:
                self._run = run = self._agent.resume()
        finally:
            ticks.cancel()
            self._activity.stop()
            self._status.update()
            self._run = None
            self._forms.decline_all()
            self._resumed.set()

    async def _tick(self) -> None:
        """Redraw the spinner."""
        while True:
            await asyncio.sleep(FRAME_SECONDS)
            self._terminal.refresh()

    async def _show_run(self, run: AgentRun) -> bool:
        """Render *run* to its end; return whether it succeeded."""
        succeeded = False
        async for event in run:
            # While paused, events wait in the queue of the run, which never slows the agent down.
            await self._resumed.wait()
            self._show_event(event)
            succeeded = isinstance(event, AgentEnded) and event.error is None
        return succeeded

    def _show_event(self, event: AgentEvent) -> None:
        self.renderer.render(event)
        self._activity.follow(event)
        if isinstance(event, MessageEnded):
            self._status.update()
        if isinstance(event, ApprovalRequested):
            self._questions.mark_shown(event.id)
            self._update_prompt()
        elif isinstance(event, ToolEnded):
            self._questions.mark_ended(event.id)
        self._terminal.refresh()

    def _draw_activity(self) -> list[StyledText]:
        """Return the activity, unless the chat waits for the user."""
        waits = self._questions.current is not None or not self._resumed.is_set()
        return [] if waits else self._activity.render()

    def _preview_call(self, call: ToolCall) -> str:
        """Return the diff of a call that edits a file; empty if it cannot be made."""
        with suppress(ToolError, TypeError, OSError):
            if call.name == "edit_file":
                return self._files.preview_edit(**call.arguments)
            if call.name == "apply_patch":
                return self._patches.preview_patch(**call.arguments)
        return ""

    async def _list_models(self) -> Sequence[str]:
        return await list_names(self._agent.model)

    def _handle_task_end(self) -> None:
        if self._tasks.error is not None:
            self.quit()
        self._update_prompt()

    def _update_prompt(self) -> None:
        """Set the prompt to the state of the chat."""
        terminal, question = self._terminal, self._questions.current
        terminal.question = ""
        if not self._resumed.is_set():
            terminal.lead, terminal.hint = PAUSED
        elif (form := self._forms.current) is not None:
            terminal.lead = StyledText(f"{escape_text(form.field) or '?'} > ", "yellow")
            terminal.hint = form.hint
            terminal.question = form.title
        elif question is not None and question.edited:
            edited = "arguments" if question.edited == ALL_ARGUMENTS else question.edited
            terminal.lead = StyledText(f"{edited} > ", "yellow")
            terminal.hint = "Enter runs it, Ctrl-C cancels the edit"
        elif question is not None:
            terminal.lead, terminal.hint = APPROVAL
            terminal.question = f"Run {escape_text(question.call.name)}?"
        elif self._tasks.is_busy:
            terminal.lead, terminal.hint = BUSY
        elif (call := self._interrupted_call()) is not None:
            terminal.lead, terminal.hint = INTERRUPTED
            terminal.question = f"{escape_text(call.name)} may have run. What is its outcome?"
        else:
            terminal.lead, terminal.hint = QUITTING if self._quits_next else IDLE
        terminal.refresh()


async def _list_formats() -> Sequence[str]:
    return [AUTO, NATIVE, *formats.names()]


async def _list_efforts() -> Sequence[str]:
    return EFFORTS


def _shorten_path(path: Path) -> str:
    """Return *path* with ``~`` for the home folder."""
    with suppress(ValueError, RuntimeError):
        return str(Path("~", path.relative_to(Path.home())))
    return str(path)


def _shorten_text(text: str) -> str:
    return "\n".join(shorten_lines(text.split("\n"), MAX_RESULT))
