"""`LocalModel`: a small model that answers, and calls tools, in the process of its user.

The model itself only writes (`writer`), in a thread of its own (`line`, `engine`). Tools go the way
that they go for every model without any: into the prompt as words, and out of the text again. One
thing is better here than elsewhere: a demanded call is not begged for. The grammar of the format
lets the model write nothing but one lawful call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import structs

from penstock.debug import DebugSettings, Summary
from penstock.errors import UsageError
from penstock.formats import Format, FormatLike, get
from penstock.models.base import Batches, Closing, Tap
from penstock.models.local.engine import Engine, LlamaEngine, packaged_model
from penstock.models.local.writer import Writer, left_out
from penstock.models.middleware import ToolMiddleware
from penstock.request import Request, RequestLike, make_request
from penstock.streams import EventStream

CONTEXT: Final = 4096
"""How many tokens a conversation may have, with the answer: 90 MB of memory, half of what the model
was made for."""


class LocalModel(ToolMiddleware, Closing):
    """A model in the process, which needs no network and no key.

    By itself it runs SmolLM2 with 135M parameters, from the extra ``local``; *path* is the file
    (GGUF) of another model that reads ChatML. *format* is how it is told to call tools, and how its
    calls are read; with *repair* broken ones are mended where that is safe. *context* is how many
    tokens a conversation may have, *threads* how many threads compute, by default half as many as
    there are processors. *engine* takes the place of llama.cpp; *debug*, *write* and *on_summary*
    are those of `ToolMiddleware`.

    The model is loaded with the first answer, and writes one answer at a time; others wait in line.
    Raises `UsageError` where the extra is not installed, or *path* is no file.
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, and has a default
        self,
        format: FormatLike = "hermes",  # noqa: A002 - the word of the whole interface
        path: str | os.PathLike[str] | None = None,
        *,
        context: int = CONTEXT,
        threads: int | None = None,
        repair: bool = True,
        engine: Engine | None = None,
        debug: str | DebugSettings | None = None,
        write: Callable[[str], object] | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        if context < 1 or (threads is not None and threads < 1):
            raise UsageError("a model needs one or more threads, and room for a conversation")
        name = "local"
        if engine is None:
            file = packaged_model() if path is None else Path(path)
            engine = LlamaEngine(file, context=context, threads=threads or _half_of_processors())
            name = file.stem
        # Where the grammar sees to it, there is nothing to ask for again; and while an answer may
        # be asked for again, a call of it would have to wait until it is whole.
        has_grammar = isinstance(get(format), Format)
        super().__init__(
            Writer(engine, name),
            format,
            arguments="live",
            repair=repair,
            constrain="grammar",
            retries=0 if has_grammar else 1,
            debug=debug,
            write=write,
            on_summary=on_summary,
        )

    reads_calls = True
    """Calls are read out of the text already: nobody needs to look again."""

    def stream(self, request: RequestLike) -> EventStream:
        """Begin to answer *request*; every failure is in the stream.

        Raises `UsageError` for what is no request. A call that is demanded is one call: a small
        model that may write several writes the same one until it is stopped.
        """
        return super().stream(_with_one_call(make_request(request)))

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Give the events of the answer as they come; there is no wire that *tap* could see."""
        return super().batches(_with_one_call(make_request(request)), tap)

    def left_out(self, request: Request) -> list[str]:
        """Name what of *request* the model takes no notice of; pictures count as ``images``."""
        return left_out(request)


def _with_one_call(request: Request) -> Request:
    choice = request.tool_choice
    if choice is None or choice.mode not in ("required", "tool"):
        return request
    return structs.replace(request, parallel_tool_calls=False)


def _half_of_processors() -> int:
    """Leave room for others: threads that compute together wait for each other in a loop."""
    return max(1, (os.cpu_count() or 1) // 2)
