"""The playground over HTTP: any text, any format, the guarantees, and invalid requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.inspector.scene import HERMES, dumped, in_colour, joined, page, refused
from gateway.serving import Served, Stage, ask, tools_of
from penstock import apis, formats
from penstock.events import Event, TextDelta, TextStart
from penstock.gateway.inspector import playground
from penstock.gateway.inspector.playground import check_laws

TOOLS = tools_of("openai-chat")


@pytest.fixture(scope="module")
def served(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = '[store]\nenabled = false\n[upstreams.demo]\napi = "demo"\n'
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def played(served: Served, text: str, **more: Any) -> Any:
    return page(served, "parse", {"text": text, "tools": TOOLS, **more})


@pytest.mark.parametrize("chunk", [0, 1, 7])
def test_a_text_is_read_in_pieces_of_any_size_and_keeps_the_laws(
    served: Served, chunk: int
) -> None:
    text = f"<think>Hm.</think>Let me look 🐟. {HERMES}"
    found = played(served, text, format="hermes", chunk=chunk)
    assert joined(found) == text
    assert in_colour(found, "name") == ["get_weather"]
    assert found["laws"] == {"lossless": True, "chunk_free": True, "monotone": True, "notes": []}
    assert found["timed"] is False
    pieces = [text] if not chunk else [text[at : at + chunk] for at in range(0, len(text), chunk)]
    assert found["upstream"]["text_pieces"] == [[n, piece] for n, piece in enumerate(pieces)]
    assert apis.check("openai-chat", found["client"]["body"].encode()) == []
    assert [ms for ms, _ in found["events"]] == list(range(len(found["events"])))


def test_every_sample_is_read_as_its_format_says(served: Served) -> None:
    about = page(served, "about")
    for one in about["formats"]:
        body = {"text": one["sample"], "tools": about["tools"], "format": one["name"], "chunk": 9}
        found = page(served, "parse", body)
        laws = found["laws"]
        assert (laws["lossless"], laws["chunk_free"], laws["monotone"]) == (True, True, True), one
        has_call = one["sample"] != "I will look it up."
        assert bool(in_colour(found, "name")) == has_call, one["name"]


def test_tools_may_come_as_text_and_complaints_are_told(served: Served) -> None:
    broken = "<tool_call>{nonsense}</tool_call>"
    found = played(served, broken, tools=json.dumps(TOOLS), format="hermes", arguments="whole")
    assert found["complaints"]
    assert any(one["kind"] == "error" for one in found["remarks"])
    assert found["message"]["content"] == [{"type": "text", "text": broken, "signature": ""}]


def test_each_format_says_what_it_reads(served: Served) -> None:
    found = page(served, "formats", {"text": f"So. {HERMES}", "tools": TOOLS})
    assert found["detected"] == "hermes"
    named = {one["format"]: one for one in found["formats"]}
    assert set(named) == set(formats.names())
    assert named["hermes"]["calls"][0]["arguments"] == {"city": "Paris", "days": 3}
    assert named["pythonic"]["calls"] == []
    assert "<tool_call>" in named["pythonic"]["text"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"text": 3}',
        b"{}",
        b'{"text": "a", "format": "hermez"}',
        b'{"text": "a", "format": 7}',
        b'{"text": "a", "chunk": "many"}',
        b'{"text": "a", "chunk": 1.5}',
        b'{"text": "a", "arguments": "later"}',
        b'{"text": "a", "repair": "yes"}',
        b'{"text": "a", "reasoning": "nobody"}',
        b'{"text": "a", "tools": "no json"}',
        b'{"text": "a", "tools": [3]}',
        b'{"text": "a", "tools": [{"name": ""}]}',
        b'{"text": "a", "tools": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(served: Served, body: bytes) -> None:
    assert refused(served, "parse", body).status == 400


def test_a_body_that_is_too_long_is_not_read_to_its_end(served: Served) -> None:
    assert refused(served, "parse", b" " * 9_000_000).status == 413
    many = dumped({"text": "a" * (playground.MAX_PASTED + 1)}).encode()
    assert "at most" in refused(served, "parse", many).json["error"]["message"]
    many = dumped({"text": "a" * (playground.MAX_COMPARED + 1)}).encode()
    assert "at most" in refused(served, "formats", many).json["error"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\\ud83d",
        "\\udc00\\ud800",
        "\\u0000\\u202e\\u2028<script>alert(1)</script>",
        "<tool_call>" * 500,
        '{\\"a\\":' * 300,
        "[" * 3000,
        '<tool_call>{\\"name\\": \\"get_weather\\", \\"arguments\\": {\\"city\\": '
        + "[" * 450
        + "]" * 450
        + "}}</tool_call>",
    ],
)
def test_hostile_text_is_text(served: Served, text: str) -> None:
    body = f'{{"text": "{text}", "format": "auto", "chunk": 3}}'.encode()
    answer = ask(served, "/inspector/api/parse", body)
    assert answer.status == 200, answer.body
    answer.body.decode()  # UTF-8, whatever was asked
    assert answer.json["laws"]["lossless"] is True
    spans = answer.json["upstream"]["spans"]
    assert sum(span[1] - span[0] for span in spans) == len(json.loads(f'"{text}"'))


# --- the laws can be broken ---


def test_a_reader_that_breaks_the_laws_is_seen_to() -> None:
    def read(chunk: int) -> list[Event]:
        return [TextStart(0), TextDelta(0, "ab" if chunk else "abc", "ab")]

    laws = check_laws("abc", read(0), "", read)
    assert (laws.lossless, laws.chunk_free, laws.monotone) == (False, False, True)
    backwards: list[Event] = [TextDelta(0, "ab", "abc"), TextStart(0)]
    laws = check_laws("abc", backwards, "", lambda _: backwards)
    assert (laws.lossless, laws.chunk_free, laws.monotone) == (True, True, False)
    assert laws.notes
