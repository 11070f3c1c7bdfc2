"""The edit guard: an edit that is not about what is in the file is stopped as soon as that shows.

A model that edits a file from memory writes hundreds of lines before a tool can tell it that the
first one is wrong. The guard looks on while the arguments arrive: a line that a diff removes, or
the text that is to be replaced, has to be in the file. If it is not, the answer is stopped, and the
model is told which line is wrong and which one is nearest.

The guard would rather be silent than wrong. It looks at no file outside of its root, none that is
large or no text, and none that an earlier call of the same answer may change before this one runs.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from penstock.agent.guards.files import MISSING, Files
from penstock.agent.guards.judging import Judge, OldText, RemovedLines
from penstock.agent.rules.arguments import ArgumentReader
from penstock.agent.watch import Finding
from penstock.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from penstock.messages import ToolResult
from penstock.values.incremental_state import Change

WRITING: Final = ("write_file",)
"""Tools that change the file at their `path` and no other, beside those that edit."""

READING: Final = ("read_file", "list_files")
"""Tools that change nothing. Any other, a shell or a stranger's, may change every file."""

_PATHS: Final = ("path", "file_path")
_JUDGES: Final[dict[str, type[RemovedLines | OldText]]] = {
    "diff": RemovedLines,
    "patch": RemovedLines,
    "old": OldText,
    "old_text": OldText,
    "old_string": OldText,
}
_EVENTS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)


class EditGuard:
    """Stops edits of files under *root* that cannot succeed, once in a turn at most.

    *tools* are the names of those that edit, by `path` and `diff` or by `path` and `old`;
    *writing* are others that change the file at their `path` alone, *reading* those that change
    none: behind a call of any other tool nothing is judged. Only whole lines that are new are
    judged, so a delta costs the same however long the edit is.
    """

    def __init__(
        self,
        root: str | Path,
        tools: tuple[str, ...] = ("edit_file",),
        *,
        writing: tuple[str, ...] = WRITING,
        reading: tuple[str, ...] = READING,
    ) -> None:
        self._files = Files(root)
        self._tools = tools
        self._writing = {*tools, *writing}
        self._reading = set(reading) - self._writing
        self._calls: dict[int, _Call] = {}
        self._is_spent = False

    def prompt_started(self) -> None:
        """Begin a prompt."""

    def turn_started(self) -> None:
        """Begin a turn: the guard may speak again, and files may have changed."""
        self._is_spent = False
        self._files.forget()
        self._calls.clear()

    def answer_started(self) -> None:
        """Begin an answer: nothing of it was seen yet."""
        self._calls.clear()

    def see(self, event: Event) -> Finding | None:
        """Look at *event*; stop an edit that cannot succeed."""
        if self._is_spent or not isinstance(event, _EVENTS):
            return None
        if isinstance(event, ToolCallStart):
            if event.name not in self._reading:
                self._calls[event.index] = _Call(
                    judged=event.name in self._tools, confined=event.name in self._writing
                )
            return None
        call = self._calls.get(event.index)
        if call is None or not call.confined:
            return None
        if isinstance(event, ToolCallDelta):
            call.add(event)
        else:
            call.close(event)
        return self._judge(event.index, call)

    def tool_ended(self, result: ToolResult) -> None:  # noqa: ARG002 - whatever it was
        """See that a tool ended: any may have changed files."""
        self._files.forget()

    def turn_ended(self) -> None:
        """End the turn."""

    def _judge(self, index: int, call: _Call) -> Finding | None:
        if call.path is None:
            return None
        if call.place is None:
            call.place = self._files.locate(call.path)
            call.judged = call.judged and call.place is not None
        if not call.judged or not call.replaces() or self._may_change_before(index, call):
            return None
        problem = self._problem(call)
        if problem is None:
            return None
        self._is_spent = True
        text = _told(call.path, problem)
        return Finding(source="guard", names=["edit"], text=text)

    def _problem(self, call: _Call) -> str | None:
        content = self._files.look(call.place) if call.place is not None else None
        if content is None:
            return None
        if content is MISSING:
            return "there is no such file."
        problems = (judge.problem(content) for judge in call.judges.values())
        return next((problem for problem in problems if problem is not None), None)

    def _may_change_before(self, index: int, call: _Call) -> bool:
        earlier = (other for at, other in self._calls.items() if at < index)
        return any(not each.confined or each.place in (None, call.place) for each in earlier)


class _Call:
    """What has arrived of a call that may change files: if *confined*, only that at its path."""

    def __init__(self, *, judged: bool, confined: bool) -> None:
        self.judged = judged
        self.confined = confined
        self.path: str | None = None
        self.place: Path | None = None
        self.judges: dict[str, Judge] = {}
        self._reader = ArgumentReader()

    def add(self, event: ToolCallDelta) -> None:
        """Read on."""
        for change in self._reader.add(event):
            self._take(change)

    def close(self, event: ToolCallEnd) -> None:
        """Read what was not told before the call was whole."""
        changes = self._reader.close(event)
        if changes is not None:
            self.judges.clear()
            for change in changes:
                self._take(change)

    def replaces(self) -> bool:
        """Tell whether anything is replaced, so far."""
        return any(judge.replaces() for judge in self.judges.values())

    def _take(self, change: Change) -> None:
        if len(change.path) != 1:
            return
        key = str(change.path[0])
        if key in _PATHS and change.kind == "value" and isinstance(change.value, str):
            self.path, self.place = change.value, None
        elif self.judged and key in _JUDGES:
            self._take_edit(key, change)

    def _take_edit(self, key: str, change: Change) -> None:
        if change.kind == "string":
            if key not in self.judges:
                self.judges[key] = _JUDGES[key]()
            self.judges[key].add(change.text)
        elif change.kind == "value" and key in self.judges:
            self.judges[key].end()


def _told(path: str, problem: str) -> str:
    return (
        f'<edit_guard path="{escape(path)}">\nYour edit was stopped: {problem}\n'
        "Nothing was changed. Look at the file, then edit what is there.\n</edit_guard>"
    )
