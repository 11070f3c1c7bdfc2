"""A real client: the openai SDK sends requests to the gateway."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from openai import APIError, OpenAI

from e2e.inspector.corpus import TOOLS

QUESTION = "How will the weather be in Leith for 3 days?"


class Client:
    """A client of the gateway at *address*."""

    def __init__(self, address: str, key: str = "none") -> None:
        self._openai = OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)
        self._pool = ThreadPoolExecutor(8)

    def ask(self, model: str) -> int:
        """Send a request to *model*, read the response, and return the number of chunks."""
        try:
            stream = self._openai.chat.completions.create(
                model=model,
                stream=True,
                tools=TOOLS,  # type: ignore[arg-type]
                messages=[{"role": "user", "content": QUESTION}],
            )
            return sum(1 for _ in stream)
        except APIError:  # a response that was cut off
            return 0

    def begin(self, model: str) -> Future[int]:
        """Send a request to *model* in the background."""
        return self._pool.submit(self.ask, model)

    def close(self) -> None:
        """Wait for all requests, and close the connections."""
        self._pool.shutdown()
        self._openai.close()
