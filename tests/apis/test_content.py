"""Pictures and files on their way from one API to another."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from penstock import apis
from penstock.apis.history import PDF, File, find_file, media_type_for
from penstock.messages import AssistantMessage, Opaque, Text, ToolCall, ToolResult
from penstock.request import Image, Request, UserMessage

BYTES = "JVBERi0="
ADDRESS = "https://e.test/a.pdf"
DOCUMENT = {
    "type": "document",
    "source": {"type": "base64", "media_type": PDF, "data": BYTES},
    "title": "a.pdf",
}
INPUT_FILE = {
    "type": "input_file",
    "filename": "a.pdf",
    "file_data": f"data:{PDF};base64,{BYTES}",
}
CHAT_FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": INPUT_FILE["file_data"]}}
INLINE = {"inlineData": {"mimeType": PDF, "data": BYTES}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}

FILES = [
    ("anthropic", DOCUMENT),
    ("openai-responses", INPUT_FILE),
    ("openai-chat", CHAT_FILE),
    ("gemini", INLINE),
]


def sent(to: str, *blocks: Any) -> str:
    """Write a request and give it as text, in which what went along is found."""
    return str(apis.get(to).write_request(Request("m", messages=[UserMessage([*blocks])])))


@pytest.mark.parametrize(
    ("picture", "kind"),
    [
        (Image("image/x", "/9j/4AAQ"), "image/x"),
        (Image(data="/9j/4AAQ"), "image/jpeg"),
        (Image(data="iVBORw=="), "image/png"),
        (Image(data="R0lGODlh"), "image/gif"),
        (Image(data="UklGRg=="), "image/webp"),
        (Image(url="https://e.test/a.JPG?x=1"), "image/jpeg"),
        (Image(data="xx"), "image/png"),
    ],
)
def test_the_type_of_a_picture_is_known_by_its_beginning(picture: Image, kind: str) -> None:
    assert media_type_for(picture) == kind


@pytest.mark.parametrize("to", ["anthropic", "openai-responses", "gemini"])
def test_a_picture_without_a_type_is_sent_with_one(to: str) -> None:
    assert "image/jpeg" in sent(to, Text("See"), Image(data="/9j/4AAQ"))


def test_a_picture_that_is_its_own_address_is_sent_with_a_type() -> None:
    assert "'image/gif'" in sent("anthropic", Image(url="data:;base64,R0lGODlh"))


@pytest.mark.parametrize(("source", "block"), FILES)
def test_a_file_is_read_from_the_block_of_any_api(source: str, block: dict[str, Any]) -> None:
    file = find_file(Opaque(source, block))
    assert file is not None
    assert (file.media_type, file.data) == (PDF, BYTES)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "document", "source": {"type": "url", "url": ADDRESS}}, File(PDF, url=ADDRESS)),
        ({"type": "input_file", "file_url": ADDRESS}, File(PDF, url=ADDRESS)),
        ({"fileData": {"mimeType": PDF, "fileUri": ADDRESS}}, File(PDF, url=ADDRESS)),
        (AUDIO, File("audio/wav", "UklGRg==")),
        ({"type": "input_file", "file_id": "file_1"}, None),
        ({"type": "document", "source": {"type": "file", "file_id": "f"}}, None),
        ({"type": "search_result"}, None),
        ([], None),
    ],
)
def test_a_file_may_be_elsewhere_or_none(block: Any, expected: File | None) -> None:
    assert find_file(Opaque("x", block)) == expected


@pytest.mark.parametrize("to", ["anthropic", "openai-responses", "gemini"])
@pytest.mark.parametrize(("source", "block"), FILES)
def test_a_document_goes_from_one_api_to_another(
    source: str, block: dict[str, Any], to: str
) -> None:
    assert BYTES in sent(to, Text("See"), Opaque(source, block))
    request = Request("m", messages=[UserMessage([Opaque(source, block)])])
    assert apis.get(to).omitted_fields(request) == []


def test_the_text_of_a_document_goes_along() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Plain ü"}
    block = Opaque("anthropic", {"type": "document", "source": source})
    data = b64encode("Plain ü".encode()).decode()
    assert data in sent("gemini", block)
    assert f"data:text/plain;base64,{data}" in sent("openai-responses", block)
    inline = Opaque("gemini", {"inlineData": {"mimeType": "text/plain", "data": data}})
    assert "'data': 'Plain ü'" in sent("anthropic", inline)


@pytest.mark.parametrize(
    ("to", "lost"),
    [
        ("anthropic", ["content: input_audio", "content: video"]),
        ("openai-responses", ["content: input_audio", "content: video"]),
        ("gemini", ["content: video"]),
    ],
)
def test_what_an_api_has_no_form_for_is_named(to: str, lost: list[str]) -> None:
    content: list[Any] = [Opaque("openai-chat", AUDIO), Opaque("other", {"type": "video"})]
    request = Request("m", messages=[UserMessage(content)])
    assert apis.get(to).omitted_fields(request) == lost


@pytest.mark.parametrize("to", ["anthropic", "openai-responses", "gemini"])
def test_a_document_in_a_result_goes_along(to: str) -> None:
    source, block = FILES[0] if to != "anthropic" else FILES[1]
    call = AssistantMessage(content=[ToolCall("a", "f")])
    result = ToolResult("a", "f", [Text("See"), Opaque(source, block)])
    body = apis.get(to).write_request(Request("m", messages=[call, result]))
    assert BYTES in str(body)
