"""The terminal of a chat: the prompt, and above it the lines of the conversation.

prompt_toolkit reads the keyboard, edits the input and draws the prompt. This is the only file that
imports it, and it is imported when a chat starts at a terminal: that takes 0.1 s, which the other
commands do not spend.

Finished lines are printed above the prompt and scroll away; they are never drawn again. The open
line, the draft, the preview, the activity and the question are drawn together with the prompt, and
the status line below it.

All drawing happens in prompt_toolkit's own redraw (`Terminal._print_finished` runs before each),
not in its `run_in_terminal` or `patch_stdout`: those switch the terminal to its line mode for a
moment, in which keys are echoed and Ctrl-C kills the process, and a model that streams would cause
that fifty times a second.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
from bisect import bisect_right
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples, fragment_list_to_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.completion import generate_completions
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import (
    AfterInput,
    ConditionalProcessor,
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from penstock.cli.chat.completion import InputCompleter
from penstock.cli.chat.render import LineBuffer, OutputLine, StyledText, escape_text

REDRAW_SECONDS: Final = 0.02
"""The shortest time between two redraws, however fast a model writes."""

ESCAPE_SECONDS: Final = 0.05
"""The time after which an escape character is the key Escape, which does nothing."""

READ_BYTES: Final = 1 << 16
"""The bytes that are read from the keyboard at once: a paste can be long."""

MAX_PASTE: Final = 1_000_000
"""The characters that are kept of a paste: more than a model can read."""

MAX_HISTORY: Final = 1_000
"""The inputs that the arrow keys bring back."""

MENU_ROWS: Final = 8
"""The rows of the menu of completions."""

MIN_COLUMNS: Final = 10
"""The smallest width that lines are wrapped to."""

RULE_ROWS: Final = 12
"""The rows of a terminal that has room for a rule above the input."""

STATUS_ROWS: Final = 6
"""The rows of a terminal that has room for the status line."""

# The terminal's own colours: prompt_toolkit's ``red`` is a fixed RGB value.
_STYLES: Final = {
    "red": "ansired",
    "green": "ansigreen",
    "yellow": "ansiyellow",
    "cyan": "ansicyan",
    "blue": "ansiblue",
    "magenta": "ansimagenta",
    "brightred": "ansibrightred",
    "brightgreen": "ansibrightgreen",
    "brightyellow": "ansibrightyellow",
    "brightblue": "ansibrightblue",
    "brightmagenta": "ansibrightmagenta",
    "brightcyan": "ansibrightcyan",
}

# Shift-Enter in terminals with the kitty keyboard protocol: the same as Alt-Enter. prompt_toolkit
# does not know the sequence and would insert it as text.
ANSI_SEQUENCES["\x1b[13;2u"] = (Keys.Escape, Keys.ControlM)


class Terminal:
    """Shows *lines* above a prompt, and passes what the user enters to the callbacks.

    *status* returns the line below the input for a number of columns, *activity* the line above it.
    """

    def __init__(  # noqa: PLR0913 - each is a callback of the chat
        self,
        lines: LineBuffer,
        *,
        on_input: Callable[[str], None],
        on_interrupt: Callable[[], None],
        on_quit: Callable[[], None],
        completer: InputCompleter,
        status: Callable[[int], list[StyledText]],
        activity: Callable[[], list[StyledText]],
        colours: bool = True,
    ) -> None:
        self.lead = StyledText("> ", "bold")
        """The text before the input."""
        self.hint = ""
        """The text in an empty input."""
        self.question = ""
        """A line above the input."""
        self._lines = lines
        self._on_input = on_input
        self._on_interrupt = on_interrupt
        self._on_quit = on_quit
        self._colours = colours
        self._history: list[str] = []
        self._above: list[Row] = []  # the rows that are drawn above the input
        self._completer = completer
        self._status = status
        self._activity = activity
        self._buffer = Buffer(multiline=True, completer=_TabCompleter(completer))
        self._keyboard = Vt100Input(sys.stdin)
        self._keyboard.stdin_reader = _KeyboardReader()
        self._output = _Output()
        self._app = self._make_application()

    # --- for the chat ---

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Use the terminal; at the end every line has been printed, and the prompt is gone."""
        loop = asyncio.get_running_loop()
        started = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # The terminal is left as it was found, and the session is complete: both need an
            # orderly end.
            loop.add_signal_handler(number, self._on_quit)
        running = self._app.run_async(pre_run=started.set, set_exception_handler=False)
        task = asyncio.create_task(running)
        task.add_done_callback(lambda _: started.set())
        task.add_done_callback(lambda _: self._on_quit())
        try:
            await started.wait()
            yield
        finally:
            self._lines.end()
            self._lines.preview = []
            if self._app.is_running and not self._app.is_done:
                self._app.exit()
            with suppress(EOFError):  # the terminal was closed
                await task
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def refresh(self) -> None:
        """Redraw soon."""
        self._app.invalidate()

    def clear(self) -> None:
        """Clear the screen."""
        self._app.renderer.clear()
        self.refresh()

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self._output.get_size().columns

    @property
    def text(self) -> str:
        """The text that is being edited."""
        return self._buffer.text

    def set_text(self, text: str) -> None:
        """Edit *text*."""
        self._buffer.reset(Document(text))
        self.refresh()

    def take_text(self) -> str:
        """Empty the input, and return its text."""
        text = self._buffer.text
        self.set_text("")
        return text

    def remember(self, text: str) -> None:
        """Add *text* to the history of the arrow keys."""
        if text.strip() and self._history[-1:] != [text]:
            self._history = [*self._history, text][-MAX_HISTORY:]
            self._buffer.history = InMemoryHistory(self._history)
            self._buffer.reset(self._buffer.document)  # which reads the history again

    # --- keys ---

    def _make_key_bindings(self) -> KeyBindings:
        """Return the keys that differ from prompt_toolkit's, which are those of Emacs."""
        bindings = KeyBindings()
        for keys, handler in (
            (["enter"], self._press_enter),
            (["escape", "enter"], lambda _: self._buffer.insert_text("\n")),
            (["escape", "c-j"], lambda _: self._buffer.insert_text("\n")),
            (["c-c"], lambda _: self._on_interrupt()),
            (["<sigint>"], lambda _: self._on_interrupt()),
            # As in a shell: it deletes a character, and ends the input if there is none.
            (["c-d"], lambda _: self._buffer.delete() if self.text else self._on_quit()),
            (["c-z"], lambda event: event.app.suspend_to_background()),
            (["tab"], self._press_tab),
            ([Keys.BracketedPaste], self._paste),
        ):
            bindings.add(*keys)(handler)
        return bindings

    def _press_enter(self, _event: KeyPressEvent) -> None:
        # Terminals without the kitty protocol send the same for Enter and Shift-Enter.
        if self._buffer.document.text_before_cursor.endswith("\\"):
            self._buffer.delete_before_cursor()
            self._buffer.insert_text("\n")
        else:
            self._on_input(self.take_text())

    def _press_tab(self, event: KeyPressEvent) -> None:
        if self._completer.is_possible(self._buffer.document.text_before_cursor):
            generate_completions(event)
        else:
            self._buffer.insert_text("\t")

    def _paste(self, event: KeyPressEvent) -> None:
        # Terminals send a carriage return for each line end of a paste.
        pasted = event.data[:MAX_PASTE].replace("\r\n", "\n").replace("\r", "\n")
        kept = (one for one in pasted if one in "\n\t" or (one >= " " and one != "\x7f"))
        self._buffer.insert_text("".join(kept))

    # --- drawing ---

    def _make_application(self) -> Application[None]:
        empty = Condition(lambda: not self._buffer.text)
        self._input = Window(
            BufferControl(
                self._buffer,
                input_processors=[
                    _EscapeControls(),
                    ConditionalProcessor(AfterInput(self._draw_hint), empty),
                ],
            ),
            # At most half of the screen: the rest is for the conversation.
            height=lambda: Dimension(max=max(1, self._output.get_size().rows // 2)),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._draw_prefix,
        )
        above = Window(
            FormattedTextControl(lambda: self._draw_rows(self._above)), dont_extend_height=True
        )
        root = HSplit(
            [
                ConditionalContainer(above, Condition(lambda: bool(self._above))),
                self._input,
                CompletionsMenu(max_height=MENU_ROWS),
                ConditionalContainer(
                    Window(FormattedTextControl(self._draw_status), height=1),
                    Condition(lambda: self._output.get_size().rows >= STATUS_ROWS),
                ),
            ]
        )
        application: Application[None] = Application(
            Layout(root, self._input),
            key_bindings=self._make_key_bindings(),
            input=self._keyboard,
            output=self._output,
            color_depth=None if self._colours else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            erase_when_done=True,
            min_redraw_interval=REDRAW_SECONDS,
            before_render=self._print_finished,
        )
        application.ttimeoutlen = application.timeoutlen = ESCAPE_SECONDS
        return application

    def _print_finished(self, app: Application[None]) -> None:
        """Print the finished lines, and prepare the rows above the input."""
        size = self._output.get_size()
        finished, self._above = take_rows(self._lines, size.columns)
        if activity := self._activity():
            self._above += wrap(OutputLine(StyledText(""), activity), size.columns)
        if self.question:
            question = [StyledText(self.question, "yellow")]
            self._above += wrap(OutputLine(StyledText(""), question), size.columns)
        below = self._input.preferred_height(size.columns, size.rows).preferred
        below += MENU_ROWS if self._buffer.complete_state else 0
        below += size.rows >= STATUS_ROWS
        if size.rows >= RULE_ROWS:
            self._above.append([StyledText("─" * (size.columns - 1), "dim")])
        room = size.rows - 1 - below
        self._above = self._above[-room:] if room > 0 else []
        # prompt_toolkit does not make a prompt smaller: the rows below it would stay blank.
        last = app.renderer.last_rendered_screen
        if finished or (last is not None and len(self._above) + below < last.height):
            with self._output.hold():
                app.renderer.erase()
                if finished:
                    app.print_text([*self._draw_rows(finished), ("", "\n")])

    def _draw_rows(self, rows: Iterable[Row]) -> StyleAndTextTuples:
        drawn: StyleAndTextTuples = []
        for row in rows:
            drawn += [("", "\n")] if drawn else []
            drawn += [self._draw(span) for span in row]
        return drawn

    def _draw(self, span: StyledText) -> tuple[str, str]:
        words = span.style.split() if self._colours else ()
        return " ".join(_STYLES.get(word, word) for word in words), span.text

    def _draw_prefix(self, number: int, wraps: int) -> StyleAndTextTuples:
        if number or wraps:
            indent = min(len(self.lead.text), self._output.get_size().columns // 2)
            return [("", " " * indent)]
        return [self._draw(self.lead)]

    def _draw_status(self) -> StyleAndTextTuples:
        return [self._draw(span) for span in self._status(self.columns - 1)]

    def _draw_hint(self) -> StyleAndTextTuples:
        room = self.columns - len(self.lead.text) - 1
        fits = len(self.hint) <= room
        hint = self.hint if fits else f"{self.hint[: max(0, room - 1)]}…"
        return [self._draw(StyledText(hint, "dim"))]


Row = list[StyledText]
"""The text of one row of the terminal."""


def take_rows(lines: LineBuffer, columns: int) -> tuple[list[Row], list[Row]]:
    """Take the rows that cannot change any more; return them, and the rows that can.

    The rows of the open line cannot change, except for the last, which the draft may continue.
    """
    finished = [row for line in lines.take_finished() for row in wrap(line, columns)]
    unfinished: list[Row] = []
    if lines.open is not None:
        *full, last = wrap(lines.open, columns)
        if full:
            finished += full
            lines.open = OutputLine(last[0], last[1:], lines.open.auxiliary)
        drafted = lines.draft[0].spans if lines.draft else []
        unfinished += wrap(OutputLine(last[0], [*last[1:], *drafted]), columns)
    rest = lines.draft if lines.open is None else lines.draft[1:]
    return finished, unfinished + [
        row for line in (*rest, *lines.preview) for row in wrap(line, columns)
    ]


def wrap(line: OutputLine, columns: int) -> list[Row]:
    """Return *line* as rows of less than *columns* columns, broken between words if possible.

    The first element of each row is the lead. More text at the end of the line changes nothing but
    the last row: the others can be printed while the line grows. (The `wrap` of rich is not used
    because that does not hold there for a blank after a word of exactly one row.)
    """
    # The last column stays empty: terminals differ in where the cursor is after it is written.
    room = max(MIN_COLUMNS, columns) - 1 - len(line.lead.text)
    text = "".join(span.text for span in line.spans)
    breaks: list[tuple[int, int]] = []
    start = used = 0
    if get_cwidth(text) > room:
        for at, character in enumerate(text):
            size = get_cwidth(character)
            if used + size > room:
                end = at if character == " " else text.rfind(" ", start, at)
                if text[start : max(end, start)].isspace() or end <= start:
                    end = at  # the row is one long word, perhaps indented
                breaks.append((start, end))
                start = end + (text[end] == " ")  # the blank between two words is not shown
                used = get_cwidth(text[start:at])
                if character == " ":
                    continue
            used += size
    breaks.append((start, len(text)))
    leads = [line.lead, *([line.continuation] * (len(breaks) - 1))]
    return [
        [lead, *_cut_spans(line.spans, start, end)]
        for lead, (start, end) in zip(leads, breaks, strict=True)
    ]


def _cut_spans(spans: list[StyledText], start: int, end: int) -> Iterator[StyledText]:
    """Yield the parts of *spans* between two offsets in their text."""
    at = 0
    for span in spans:
        if text := span.text[max(0, start - at) : max(0, end - at)]:
            yield StyledText(text, span.style)
        at += len(span.text)


class _KeyboardReader(PosixStdinReader):
    """Reads stdin, and differs from prompt_toolkit's reader in four details."""

    def __init__(self) -> None:
        super().__init__(sys.stdin.fileno())
        # Bytes that are not UTF-8 become U+FFFD; lone surrogates could not be sent to a model.
        self._decoder = getincrementaldecoder("utf-8")("replace")

    # More than prompt_toolkit's 1 KiB: its search for the end of a paste costs a time that grows
    # with the square of the number of reads, 20 s for 4 MB.
    def read(self, count: int = READ_BYTES) -> str:
        """Return what was typed; set `closed` at the end of the input."""
        data = b""
        # A terminal that was closed raises EIO, which prompt_toolkit ignores: without SIGHUP (as
        # under nohup) it would read forever.
        with suppress(OSError):
            if not select.select([self.stdin_fd], [], [], 0)[0]:
                return ""
            data = os.read(self.stdin_fd, count)
        self.closed = not data
        # Keys that prompt_toolkit does not know, and reports of the terminal, are not text.
        return _SEQUENCE.sub(
            lambda found: found[0] if found[0] in _KNOWN else "", self._decoder.decode(data)
        )


_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_KNOWN: Final = frozenset({*ANSI_SEQUENCES, "\x1b[201~"})  # the last one ends a paste


class _Output(Vt100_Output):
    """The terminal that stdout is."""

    def __init__(self) -> None:
        # The prompt is drawn where the cursor is. prompt_toolkit need not ask for its position
        # (CPR): the response would arrive between the keys of the user.
        super().__init__(sys.stdout, _get_size, term=os.environ.get("TERM"), enable_cpr=False)
        self._held = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Collect output until the next flush after the block: the prompt does not flicker."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def flush(self) -> None:
        """Write the collected output.

        A terminal that was closed is noticed by the end of the input, not here.
        """
        if not self._held:
            with suppress(OSError):
                super().flush()


def _get_size() -> Size:
    """Return the size of the terminal; some report 0 columns and rows."""
    size = os.terminal_size((0, 0))
    with suppress(OSError):
        size = os.get_terminal_size(sys.stdout.fileno())
    return Size(rows=size.lines or 24, columns=max(MIN_COLUMNS, size.columns or 80))


class _TabCompleter(Completer):
    """Completes with *completer*, for prompt_toolkit."""

    def __init__(self, completer: InputCompleter) -> None:
        self._completer = completer

    def get_completions(self, _document: Document, _event: CompleteEvent) -> Iterator[Completion]:
        yield from ()  # a running application uses the other method

    async def get_completions_async(
        self, document: Document, _event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for one in await self._completer.complete(document.text_before_cursor):
            yield Completion(one.text, -one.length, display_meta=one.about)


class _EscapeControls(Processor):
    """Shows control characters in the input as `escape_text` does.

    The input may hold text of a model: the arguments of a call that is edited before it runs.
    """

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        if fragment_list_to_text(fragments).isprintable():  # also the fast path for long lines
            return Transformation(fragments)
        shown: StyleAndTextTuples = []
        starts = [0]
        for style, text, *_ in explode_text_fragments(fragments):
            shown.append((style, escape_text(text)))
            starts.append(starts[-1] + len(shown[-1][1]))
        return Transformation(
            shown,
            source_to_display=lambda at: starts[min(at, len(starts) - 1)],
            display_to_source=lambda at: bisect_right(starts, at) - 1,
        )
