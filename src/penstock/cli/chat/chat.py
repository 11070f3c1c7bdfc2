"""The chat: what is typed goes to the agent, what the agent tells goes to the page.

One thing is done at a time, a run or a command, as a task of its own; what is typed meanwhile is
heard at once. Ctrl-C *holds* a run: no tool begins, nothing more is shown, and the prompt asks what
to do instead. What is said then ends the answer and takes its place; Enter alone goes on; Ctrl-C
again stops. What is typed without it steers the run, as the agent understands that.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from penstock.agent import Agent, AgentRun
from penstock.agent.events import AgentEnded, AgentEvent, ApprovalRequested, ToolEnded
from penstock.cli.chat import prompts
from penstock.cli.chat.approving import Approver
from penstock.cli.chat.commands import is_long, obey
from penstock.cli.chat.keeping import Keeper
from penstock.cli.chat.models import Choice, model_for
from penstock.cli.chat.page import Page
from penstock.cli.chat.questions import (
    Interruptions,
    Question,
    Questions,
    decision_of,
    is_answer,
    is_lasting,
    wants_edit,
)
from penstock.cli.chat.screen import Screen
from penstock.cli.chat.telling import MAX_RESULT, Teller, shortened
from penstock.cli.chat.work import Work
from penstock.errors import PenstockError, UsageError
from penstock.messages import AssistantMessage, ToolCall
from penstock.models.base import Model
from penstock.request import Message, UserMessage

RECALLED: Final = 2
"""How many prompts of a conversation, and what was said to them, are shown again."""

FOLLOW: Final = "+"
"""What a line begins with that waits until the run would end."""


class Chat:
    """A conversation at a terminal, kept by *keeper*; *approver* asks here what it leaves open."""

    def __init__(
        self, keeper: Keeper, approver: Approver, choice: Choice, *, colours: bool = True
    ) -> None:
        self.page = Page()
        self.teller = Teller(self.page)
        self.keeper = keeper
        self.choice = choice
        self._agent: Agent = keeper.agent
        self._approver = approver
        approver.ask, approver.withdraw = self._ask, self._withdraw
        self._screen = Screen(self.page, self._entered, self._pressed, colours=colours)
        self._left = asyncio.Event()
        self._free = asyncio.Event()  # not held
        self._free.set()
        self._work = Work(self._ended)
        self._run: AgentRun | None = None
        self._replacing = asyncio.Lock()
        self._questions = Questions()
        self._interruptions = Interruptions()
        self._leaving = False
        self._former: list[Model] = []
        self._agent.hooks.add("tool_call", self._hold)

    async def run(self, prompt: str = "") -> None:
        """Talk until the person leaves."""
        with self._screen.shown():
            if prompt and self._unknown_call() is not None:
                self._screen.editor.set(prompt)  # what became of the call comes first
            elif prompt:
                self._begin(prompt)
            self._prepare()
            await self._left.wait()
            self._free.set()
            await self._agent.abort()
            await self._work.finish()
            self._tell_where()
        for model in self._former:
            await model.close()
        if self._work.fault is not None:
            raise self._work.fault

    def _tell_where(self) -> None:
        path = self.keeper.session.path
        if path is not None and self.keeper.session.entries:
            self.page.note(f"--resume goes on with this: {path}", "dim")

    # --- what commands may do ---

    def change_model(self, choice: Choice) -> Model:
        """Let another model answer; raise `UsageError` if there is none such."""
        model = model_for(choice, os.environ)
        self._former.append(self._agent.model)
        self._agent.model = model
        self.choice = choice
        return model

    def recall(self) -> None:
        """Show how far the conversation is."""
        messages = self._agent.messages
        self.page.note(f"{len(messages)} messages so far", "dim", "  ")
        asked = [at for at, one in enumerate(messages) if _is_prompt(one)]
        for message in messages[asked[-RECALLED] if len(asked) >= RECALLED else 0 :]:
            if isinstance(message, UserMessage):
                self._recall_said(message)
            elif isinstance(message, AssistantMessage) and message.text.strip():
                self.page.note(_briefly(message.text))
        self._interruptions.begin(self._agent.interrupted)
        for call in self._agent.interrupted:
            self._warn(prompts.unknown(call))

    def _recall_said(self, message: UserMessage) -> None:
        """Show what was said; what a rule or a guard reminded of was not said by the person."""
        if message.source:
            self.page.note(_briefly(message.text), "dim", f"  ({message.source}) ")
            return
        self.page.note(_briefly(message.text), "bold", "> ")
        self._screen.editor.remember(message.text)

    def clear(self) -> None:
        """Empty the screen."""
        self.page.take()
        self._screen.clear()

    def leave(self) -> None:
        """End the chat."""
        self._left.set()

    # --- what is typed ---

    def _entered(self, text: str) -> None:
        self._leaving = False
        try:
            self._hear(text)
        except PenstockError as exc:
            self._warn(str(exc))
        self._prepare()

    def _hear(self, text: str) -> None:
        question = self._questions.current
        if not self._free.is_set():
            self._instead(text)
        elif question is not None and question.edits:
            self._edit(question, text)
        elif question is not None:
            self._answer(question, text)
        elif text.strip() and self._unknown_call() is not None:
            self._resolve(text)
        elif text.strip():
            self._say(text)

    def _say(self, text: str) -> None:
        self._screen.editor.remember(text)
        if self._work.is_busy and self._run is None:
            self._work.do_beside(self._say_later(text))
        elif text.startswith("/"):
            self._command(text)
        elif not self._work.is_busy:
            self._begin(text)
        elif is_answer(text):
            self._warn("nothing is being asked")
        elif text.startswith(FOLLOW):
            self._agent.follow_up(text.removeprefix(FOLLOW).strip())
            self.page.note(f"later: {text.removeprefix(FOLLOW).strip()}", "dim", "  ")
        else:
            self._agent.steer(text)
            self.page.note(f"steering: {text}", "dim", "  ")

    async def _say_later(self, text: str) -> None:
        """Say *text* when the command that is being obeyed is done."""
        await self._work.over()
        self._entered(text)

    def _begin(self, text: str) -> None:
        if not self._left.is_set():
            self._run = self.keeper.session.run(text)
            self._work.start(self._follow(self._run))

    def _command(self, line: str) -> None:
        self.page.note(line, "bold", "> ")
        if self._work.is_busy:
            self._work.do_beside(self._obey(line, busy=True))
        else:
            self._work.start(self._obey(line, busy=False), may_stop=is_long(line))

    # --- the keys that mean the chat ---

    def _pressed(self, name: str) -> None:
        if name != "interrupt":
            self._left.set()
        elif self._run is not None:
            self._interrupt()
        elif self._work.is_busy:
            self._work.stop()
        elif self._screen.editor.text or not self._leaving:
            self._leaving = not self._screen.editor.take()
        else:
            self._left.set()
        self._prepare()

    def _interrupt(self) -> None:
        """Hold the run at first; stop it if it is held."""
        question = self._questions.current
        if question is not None and question.edits:
            question.edits = ""
            self._screen.editor.take()
        elif self._free.is_set():
            self._free.clear()
        else:
            self._free.set()
            self._work.do_beside(self._stop())

    async def _hold(self, _call: object) -> None:
        """Let no tool begin while the person thinks."""
        await self._free.wait()

    def _instead(self, text: str) -> None:
        self._free.set()
        if text.strip() and self._run is not None:
            self._work.do_beside(self._replace(text))
        elif text.strip():  # the run has ended meanwhile
            self._say(text)

    async def _stop(self) -> None:
        """End the run; what waited to be said is there to be edited."""
        await self._agent.abort()
        waiting = "\n".join(message.text for message in self._agent.clear_queues())
        if waiting and not self._screen.editor.text:
            self._screen.editor.set(waiting)
        self._prepare()

    async def _replace(self, text: str) -> None:
        """Say *text* in place of what the run was doing."""
        async with self._replacing:
            await self._agent.abort()
            await self._work.over()
            self._entered(text)
        self._prepare()

    # --- calls that were interrupted ---

    def _unknown_call(self) -> ToolCall | None:
        """Give the call that the person is asked about; another session may have none."""
        call = self._interruptions.current
        return call if call in self._agent.interrupted else None

    def _resolve(self, text: str) -> None:
        """Take a decision about a call; words to the model leave all of them unknown."""
        if text.startswith("/"):
            self._say(text)
        elif not self._interruptions.decide(text):
            if is_answer(text):
                self._warn(prompts.INTERRUPTED[1])
                return
            self._interruptions.begin([])
            self._say(text)
        elif self._interruptions.current is None:
            self._run = self.keeper.session.proceed(self._interruptions.decisions)
            self._work.start(self._follow(self._run))

    # --- questions ---

    def _ask(self, question: Question) -> None:
        self._questions.add(question)
        self._prepare()

    def _withdraw(self, question: Question) -> None:
        self._questions.remove(question)
        if question.edits:
            self._screen.editor.take()
        self._prepare()

    def _answer(self, question: Question, text: str) -> None:
        if decision := decision_of(text):
            if is_lasting(text):
                self._approver.allow_always(question.call.name)
            question.decide(decision)
        elif wants_edit(text):
            self._screen.editor.set(question.editable())
        elif text.strip():
            self._say(text)

    def _edit(self, question: Question, text: str) -> None:
        try:
            decision = question.edited(text)
        except UsageError as exc:
            self._warn(str(exc))
            self._screen.editor.set(text)
            return
        question.edits = ""
        self.page.note(_briefly(text), "dim", "  ~ ")
        question.decide(decision)

    # --- work ---

    def _ended(self) -> None:
        """See that some work is done; a fault of ours ends the chat, and is not hidden."""
        if self._work.fault is not None:
            self._left.set()
        self._prepare()

    async def _follow(self, run: AgentRun) -> None:
        """Tell *run*, and what was said too late for it."""
        try:
            while await self._told(run) and self._agent.queued:
                self._run = run = self._agent.proceed()
        finally:
            self._run = None
            self._free.set()

    async def _told(self, run: AgentRun) -> bool:
        """Tell *run* to its end; say whether it ended well."""
        went_well = False
        async for event in run:
            await self._free.wait()
            self._tell(event)
            went_well = isinstance(event, AgentEnded) and event.error is None
        return went_well

    def _tell(self, event: AgentEvent) -> None:
        self.teller.tell(event)
        if isinstance(event, ApprovalRequested):
            self._questions.reach(event.id)
            self._prepare()
        elif isinstance(event, ToolEnded):
            self._questions.pass_by(event.id)
        self._screen.refresh()

    async def _obey(self, line: str, *, busy: bool) -> None:
        try:
            await obey(self, line, busy=busy)
        except PenstockError as exc:
            self._warn(str(exc))
        self._screen.refresh()

    def _warn(self, text: str) -> None:
        self.page.note(text, "yellow", "! ")

    def _prepare(self) -> None:
        """Let the prompt say where things stand."""
        screen, question = self._screen, self._questions.current
        screen.question = []
        if not self._free.is_set():
            screen.lead, screen.hint = prompts.HELD
        elif question is not None and question.edits:
            screen.lead, screen.hint = prompts.editing(question)
        elif question is not None:
            screen.lead, screen.hint = prompts.ASKED
            screen.question = [prompts.asking(question)]
        elif self._work.is_busy:
            screen.lead, screen.hint = prompts.BUSY
        elif (call := self._unknown_call()) is not None:
            screen.lead, screen.hint = prompts.INTERRUPTED
            screen.question = [prompts.asking_again(call)]
        else:
            screen.lead, screen.hint = prompts.LEAVING if self._leaving else prompts.IDLE
        screen.refresh()


def _is_prompt(message: Message) -> bool:
    return isinstance(message, UserMessage) and not message.source


def _briefly(text: str) -> str:
    return "\n".join(shortened(text.split("\n"), MAX_RESULT))
