"""What a server gives is shown where models can see it, and named where they cannot."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import pytest
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
)

from agent.tools.contexts import Heard
from agent.tools.watching import until
from penstock.agent.tools.mcp import MAX_NAME, ProgressUpdates, make_valid_names, read_output
from penstock.agent.tools.results import MAX_IMAGE_BYTES
from penstock.messages import Text
from penstock.request import Image

PNG = b"\x89PNG\r\n\x1a\n"


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


def shown(data: str, kind: str) -> Any:
    """Read a picture that is told as such, and as a resource; give both."""
    resource = BlobResourceContents(uri="file:///p", mime_type=kind, blob=data)
    blocks: list[ContentBlock] = [
        ImageContent(data=data, mime_type=kind),
        EmbeddedResource(resource=resource),
    ]
    return [read_output(CallToolResult(content=[block])).content for block in blocks]


def test_a_picture_is_of_the_kind_that_it_begins_as() -> None:
    picture = [Image("image/png", encoded(PNG))]
    assert shown(encoded(PNG), "image/jpeg") == [picture, picture]


@pytest.mark.parametrize(
    ("data", "kind", "why"),
    [
        pytest.param(encoded(b"<svg/>"), "image/svg+xml", "cannot be shown", id="a drawing"),
        pytest.param("not base64!", "image/png", "cannot be shown", id="no base64"),
        pytest.param(encoded(PNG)[:-1], "image/png", "cannot be shown", id="cut"),
        pytest.param("", "image/png", "cannot be shown", id="empty"),
        pytest.param(
            encoded(PNG + bytes(MAX_IMAGE_BYTES)),
            "image/png", "4,666,680 characters, too large to be shown", id="too large",
        ),
    ],
)  # fmt: skip
def test_what_is_no_picture_for_models_is_named(data: str, kind: str, why: str) -> None:
    assert shown(data, kind) == [f"({kind}, {why})", f"(file:///p, {kind}, {why})"]


def test_pictures_beside_text_stay_in_order() -> None:
    blocks = [ImageContent(data=data, mime_type="image/png") for data in ("?", encoded(PNG))]
    content = read_output(CallToolResult(content=list(blocks))).content
    assert content == [
        Text("(image/png, cannot be shown)"),
        Image("image/png", encoded(PNG)),
    ]


@pytest.mark.parametrize(
    ("names", "lawful"),
    [
        (["", "天气", "a.b"], ["ex_tool_1", "ex_tool_2", "ex_a_b"]),
        (["tool_2", "--"], ["ex_tool_2", "ex_tool_2_2"]),
        (["x" * 100, "x" * 90], ["ex_" + "x" * 61, "ex_" + "x" * 59 + "_2"]),
    ],
)
def test_names_become_lawful_and_stay_apart(names: list[str], lawful: list[str]) -> None:
    assert make_valid_names(names, "ex.") == lawful
    assert all(len(name) <= MAX_NAME for name in lawful)


async def test_progress_is_shown_now_and_then_and_the_latest_always() -> None:
    heard = Heard()
    progress = ProgressUpdates(heard)
    for step in range(1, 1001):
        await progress.add(step, 1000, None)
    assert heard.updates == ["1/1000"]
    await until(lambda: len(heard.updates) == 2)
    assert heard.updates[1] == "1000/1000"
    await progress.add(1, None, "late")
    progress.close()
    await asyncio.sleep(0.1)
    assert "1 late" not in heard.updates
