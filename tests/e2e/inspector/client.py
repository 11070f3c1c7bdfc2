"""A real client: the openai SDK sends requests to the gateway."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from openai import APIError, OpenAI

from e2e.inspector.corpus import TOOLS

QUESTION = "How will the weather be in Leith for 3 days?"


class Client:
    """A client of the gateway at *address*."""

    def __init__(self, address: str, key: str = "none") -> None:
        self._openai = OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)
        self._pool = ThreadPoolExecutor(8)

    def ask(self, model: str, messages: Any = (), **options: Any) -> int:
        """Send a request to *model*, read the response, and return the number of chunks."""
        try:
            stream = self._openai.chat.completions.create(
                model=model,
                stream=True,
                tools=TOOLS,  # type: ignore[arg-type]
                messages=messages or [{"role": "user", "content": QUESTION}],
                **options,
            )
            return sum(1 for _ in stream)
        except APIError:  # a response that was cut off
            return 0

    def run_agent(self, model: str, turns: int) -> int:
        """Run an agent that sends the results of all calls back; return the number of requests."""
        messages: list[Any] = [{"role": "user", "content": "Look at the weather again and again."}]
        for turn in range(turns):
            answer = self._openai.chat.completions.create(
                model=model,
                tools=TOOLS,  # type: ignore[arg-type]
                messages=messages,
            )
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": f"{turn} degrees <b>"}
                for call in message.tool_calls or []
            ]
        return turns

    def begin(self, model: str) -> Future[int]:
        """Send a request to *model* in the background."""
        return self._pool.submit(self.ask, model)

    def close(self) -> None:
        """Wait for all requests, and close the connections."""
        self._pool.shutdown()
        self._openai.close()
