"""A scripted worker for dynamo's Rust front end, which says what its prompt asks for.

``dynamo_worker.py MODEL`` registers the model in the folder MODEL in dynamo's store of files
(``DYN_FILE_KV``). It responds as `engine` does, with the same tokens at the same pace. It runs in
the environment of dynamo, and takes our modules from the source.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway import scenarios
from peers.engine import make_tokenizer, read_model, tokens_of

engines: Any = import_module("dynamo.common.backend.engine")


class ScriptedEngine(engines.LLMEngine):  # type: ignore[misc]
    """Responds with the tokens of the scenario that the prompt names."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._tokenizer = make_tokenizer()

    @classmethod
    async def from_args(cls, argv: list[str] | None = None) -> tuple[ScriptedEngine, Any]:
        """Return the engine, and how it is registered."""
        (model,) = argv or sys.argv[1:]
        config = import_module("dynamo.common.backend.worker").WorkerConfig(
            namespace="dynamo",
            model_name=model,
            served_model_name="m",
            endpoint_types="chat",
            discovery_backend="file",
            tool_call_parser="hermes",
            enable_kv_routing=False,
        )
        return cls(model), config

    async def start(self, worker_id: int) -> Any:
        """Return what the front end has to know."""
        del worker_id
        limits = engines.LlmRegistration(context_length=1 << 20, max_num_seqs=1 << 10)
        return engines.EngineConfig(model=self._model, served_model_name="m", llm=limits)

    async def generate(self, request: Any, context: Any) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the tokens of a response, each in a message of its own."""
        del context
        scenario = scenarios.read(read_model(self._tokenizer, request["token_ids"]))
        for tokens in tokens_of(self._tokenizer, scenario):
            yield {"token_ids": tokens, "index": 0}
            if scenario.pause:
                await asyncio.sleep(scenario.pause)
        yield {"token_ids": [self._tokenizer.end], "index": 0, "finish_reason": "stop"}

    async def cleanup(self) -> None:
        """Do nothing: there is nothing to release."""


if __name__ == "__main__":
    import_module("dynamo.common.backend.run").run(ScriptedEngine)
