"""instructor with a client of ours: the printed call is the structured result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from integrations.printing_server import CITY, PrintingServer, anthropic_library, serve
from penstock.integrations.httpx import async_penstock_client, penstock_client

instructor: Any = pytest.importorskip("instructor", reason="`make sdks` installs it")

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]


class weather(BaseModel):  # noqa: N801 - the name of the tool that the model calls
    """The weather."""

    city: str


@pytest.fixture
def server() -> Iterator[PrintingServer]:
    with serve() as found:
        yield found


ASK: Any = {
    "model": "m",
    "response_model": weather,
    "messages": [{"role": "user", "content": "Weather?"}],
    "max_retries": 0,
}


def test_chat_completions(server: PrintingServer) -> None:
    plain = openai.OpenAI(base_url=server.url, api_key="x", http_client=penstock_client())
    client = instructor.from_openai(plain, mode=instructor.Mode.TOOLS)
    assert client.create(**ASK).city == CITY
    *_, last = client.create_partial(**ASK)
    assert last.city == CITY


async def test_chat_completions_asynchronously(server: PrintingServer) -> None:
    plain = openai.AsyncOpenAI(
        base_url=server.url, api_key="x", http_client=async_penstock_client()
    )
    client = instructor.from_openai(plain, mode=instructor.Mode.TOOLS)
    assert (await client.create(**ASK)).city == CITY


def test_messages(server: PrintingServer) -> None:
    http = penstock_client(library=anthropic_library())
    plain = anthropic.Anthropic(base_url=server.root, api_key="x", http_client=http)
    client = instructor.from_anthropic(plain, mode=instructor.Mode.ANTHROPIC_TOOLS)
    assert client.create(**ASK, max_tokens=100).city == CITY
