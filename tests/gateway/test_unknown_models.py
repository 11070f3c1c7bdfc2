"""Names that an upstream does not have, errors with what to do, and the lines of requests."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from gateway.serving import CLIENTS, Actor, Stage, ask, request_of, until, upstream_table
from models.loopback_servers import Reply, Seen, refusal, streamed
from penstock import _json
from penstock.config import load
from penstock.gateway.advice import advise
from penstock.gateway.model_router import (
    LIST_LIFETIME,
    LIST_RETRY_SECONDS,
    ServedModels,
    find_chat_models,
)
from penstock.gateway.request_lines import (
    JSONFormatter,
    TextFormatter,
    describe_content,
    has_colours,
)
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall
from penstock.models import DemoModel

CHAT = CLIENTS["openai-chat"]
HELLO = AssistantMessage("m", "m", [Text("Hi")], "stop")


class Server:
    """A server with *models* that rejects other names, as Ollama does."""

    def __init__(self, *models: str) -> None:
        self.models = [*models]

    def __call__(self, seen: Seen) -> Reply:
        if seen.path == "/v1/models":
            entries = [{"id": name} for name in self.models]
            return Reply(whole=_json.encode({"object": "list", "data": entries}))
        model = seen.json["model"]
        if model not in self.models:
            return refusal(404, {"error": {"message": f'model "{model}" not found'}})
        return streamed("openai-chat", HELLO)


def test_the_only_model_serves_names_that_the_server_does_not_have(
    stage: Stage, actor: Actor, tmp_path: Path
) -> None:
    server = Server("qwen3:8b", "nomic-embed-text")
    actor.play(server)
    served = stage.gateway(tmp_path, upstream_table(actor))
    served.gateway.router.served_models.set_names(server.models)
    for name in ("claude-opus-5", "", "qwen3:8b", "nomic-embed-text"):
        response = ask(served, CHAT, request_of("openai-chat", name, stream=False))
        assert response.status == 200
        requested = actor.seen[-1].json["model"]
        assert requested == (name if name == "nomic-embed-text" else "qwen3:8b")
        assert json.loads(response.body)["model"] == (name or "qwen3:8b")


def test_several_models_are_listed_in_the_error(
    stage: Stage, actor: Actor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("qwen3:8b", "gemma3:4b", "nomic-embed-text")
    actor.play(server)
    served = stage.gateway(tmp_path, upstream_table(actor))
    served.gateway.router.served_models.set_names(server.models)
    for api, path in CLIENTS.items():
        response = ask(served, path, request_of(api, "claude-opus-5"))
        assert response.status == 404
        assert json.loads(response.body)["error"]["message"] == (
            'model "claude-opus-5" not found. The upstream has: qwen3:8b, gemma3:4b. '
            "Request one of them, choose one with --model NAME, "
            "or add --map 'claude-opus-5=qwen3:8b'."
        )
    assert f"(POST {actor.url}/v1/chat/completions)" in caplog.text
    response = ask(served, CHAT, request_of("openai-chat", "gemma3"))
    assert "or add --map 'gemma3=gemma3:4b'." in json.loads(response.body)["error"]["message"]


@pytest.mark.parametrize("setting", ["flag", "route"])
def test_a_wrong_name_in_the_settings_is_not_blamed_on_the_client(
    stage: Stage, actor: Actor, tmp_path: Path, setting: str
) -> None:
    server = Server("qwen3:8b", "gemma3:4b")
    actor.play(server)
    table = upstream_table(actor, model="gema3") if setting == "flag" else upstream_table(actor)
    if setting == "route":
        table += f'[models."claude-*"]\nupstream = "{actor.api}"\nmodel = "gema3"\n'
    served = stage.gateway(tmp_path, table)
    served.gateway.router.served_models.set_names(server.models)
    response = ask(served, CHAT, request_of("openai-chat", "claude-opus-5"))
    assert response.status == 404
    assert json.loads(response.body)["error"]["message"] == (
        'model "gema3" not found. The upstream has: qwen3:8b, gemma3:4b. The gateway requests '
        "'gema3' for 'claude-opus-5': correct --model, --map or penstock.toml."
    )


def test_a_server_that_starts_after_the_gateway_is_asked_for_its_models(
    stage: Stage, actor: Actor, tmp_path: Path
) -> None:
    server = Server("qwen3:8b")
    actor.play(server)
    served = stage.gateway(tmp_path, upstream_table(actor))
    router = served.gateway.router
    router.served_models._fetches = True
    before = len(actor.seen)
    assert ask(served, CHAT, request_of("openai-chat", "claude-opus-5")).status == 200
    paths = [seen.path for seen in actor.seen[before:]]
    assert paths == ["/v1/models", "/v1/chat/completions"]
    assert ask(served, CHAT, request_of("openai-chat", "claude-opus-5")).status == 200
    assert len(actor.seen) == before + 3  # The list was known by then.
    server.models = ["qwen3:30b"]  # The server was started again with another model.
    assert ask(served, CHAT, request_of("openai-chat", "claude-opus-5")).status == 404
    until(lambda: not router.served_models._is_known)
    assert ask(served, CHAT, request_of("openai-chat", "claude-opus-5")).status == 200


async def test_a_list_is_cached_and_a_failure_is_not_repeated_at_once() -> None:
    class Listing(DemoModel):
        calls = 0
        fails = True

        async def names(self, seconds: float = 0) -> list[str]:
            self.calls += 1
            if self.fails:
                raise TimeoutError(seconds)
            return ["m:latest"]

    now = 0.0
    model = Listing()
    catalog = ServedModels(model, lambda: now, fetches=True)
    for _ in range(2):
        await catalog.prepare()
        assert (catalog.known, model.calls) == ([], 1)
    now, model.fails = LIST_RETRY_SECONDS, False
    await catalog.prepare()
    assert (catalog.known, model.calls) == (["m:latest"], 2)
    assert catalog.has("m")
    assert catalog.choose("other") == "m:latest"
    now += LIST_LIFETIME - 1
    assert (await catalog.names(), model.calls) == (["m:latest"], 2)
    catalog.expire()
    await catalog.prepare()
    assert model.calls == 3


def test_models_for_other_purposes_are_not_for_chat() -> None:
    names = ["nomic-embed-text", "whisper-1", "qwen3:8b", "bge-reranker"]
    assert find_chat_models(names) == ["qwen3:8b"]


@pytest.mark.parametrize(
    ("url", "error", "expected"),
    [
        ("http://127.0.0.1:11434/v1", ErrorInfo("refused", "transport", "connect_error"),
         "Is Ollama running? Start it with `ollama serve`."),
        ("http://localhost:5/v1", ErrorInfo("refused", "transport", "connect_error"),
         "Is the server running?"),
        ("http://box/v1", ErrorInfo("refused", "transport", "connect_error"), "Check the host"),
        ("https://box/v1", ErrorInfo("bad", "transport", "tls_error"), "--ca FILE"),
        ("http://box/v1", ErrorInfo("no", status=401), "--key-env"),
        ("http://box/v1", ErrorInfo("no", status=403), "--key-env"),
        ("http://box", ErrorInfo("Not Found", status=404), "have their API at /v1"),
        ("http://box/v1", ErrorInfo("The model `m` does not exist", status=404), "--model NAME"),
        ("http://box/v1", ErrorInfo("invalid: unknown model", status=400), "--model NAME"),
        ("http://box/v1", ErrorInfo("the model is overloaded", status=503), ""),
        ("http://box/v1", ErrorInfo("the model's context is too short", status=400), ""),
    ],
)  # fmt: skip
def test_an_error_has_the_advice_that_fits(url: str, error: ErrorInfo, expected: str) -> None:
    upstream = load(None, {}, upstream=url).upstreams["default"]
    advice = advise(error, upstream, "m")
    assert expected in advice
    assert bool(advice) == bool(expected)


def test_a_wrong_path_is_not_taken_for_a_missing_model_if_none_was_requested() -> None:
    upstream = load(None, {}, upstream="http://box/v2").upstreams["default"]
    advice = advise(ErrorInfo("Not Found", status=404), upstream, "")
    assert advice.startswith("Check the path of the upstream's URL")


def test_a_page_in_place_of_a_stream_is_reported(
    stage: Stage, actor: Actor, tmp_path: Path
) -> None:
    page = Reply([b"<!doctype html><html>Hi</html>"], headers={"content-type": "text/html"})
    served = stage.gateway(tmp_path, upstream_table(actor, retries=0))
    for stream in (True, False):
        actor.play(page)
        response = ask(served, CHAT, request_of("openai-chat", "m", stream=stream))
        assert response.status == 502
        message = json.loads(response.body)["error"]["message"]
        assert message.startswith("the server sent an HTML page in place of a response. Check")
    # Events with the wrong type are read.
    events = streamed("openai-chat", HELLO)
    actor.play(Reply(events.steps, headers={"content-type": "text/html"}))
    assert ask(served, CHAT, request_of("openai-chat", "m")).status == 200


def test_an_unknown_path_gets_a_suggestion(stage: Stage, actor: Actor, tmp_path: Path) -> None:
    served = stage.gateway(tmp_path, upstream_table(actor))
    for path, expected in {
        "/v1/v1/messages": "the base URL has one /v1 too many; use /v1/messages",
        "/v1/chat/completion": "did you mean '/v1/chat/completions'?",
        "/api/generate": "use /v1/chat/completions, /v1/responses or /v1/messages",
    }.items():
        response = ask(served, path, {"model": "m"})
        assert response.status == 404
        assert expected in json.loads(response.body)["error"]["message"]


# --- lines ---


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], "empty"),
        ([Text("Hi")], "text"),
        ([Thinking("Hm")], "reasoning"),
        ([ToolCall("1", "write_file", {})], "1 call: write_file"),
        ([Text("x"), ToolCall("1", "a", {}), ToolCall("2", "b", {}, repairs=["closed"])],
         "2 calls: a, b (repaired)"),
        ([ToolCall("1", "a", {}, complete=False)], "1 call: a (incomplete)"),
        ([ToolCall("1", "a", {})] * 7, "7 calls: a, a, a, a, a, …"),
    ],
)  # fmt: skip
def test_a_line_says_what_was_read(
    content: list[Text | Thinking | ToolCall], expected: str
) -> None:
    assert describe_content(AssistantMessage(content=[*content])) == expected


def make_record(level: int, message: str, name: str = "penstock.requests") -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, message, (), None)


def test_lines_begin_with_time_and_level_and_errors_are_coloured() -> None:
    plain, coloured = TextFormatter(), TextFormatter(colours=True)
    info = make_record(logging.INFO, "hello \x1b[2J")
    time = plain.format(info)[:19]
    assert plain.format(info) == f"{time} INFO hello \\x1b[2J"
    assert coloured.format(info) == plain.format(info)
    error = make_record(logging.ERROR, "gone", "asyncio")
    assert plain.format(error)[19:] == " ERROR asyncio: gone"
    assert coloured.format(error)[19:] == " \x1b[31mERROR asyncio: gone\x1b[0m"


def test_a_line_of_json_has_the_fields_of_the_request() -> None:
    record = make_record(logging.INFO, "hello")
    record.fields = {"status": 200}
    decoded = json.loads(JSONFormatter().format(record))
    assert decoded.pop("time").endswith("Z")
    assert decoded == {
        "level": "info",
        "logger": "penstock.requests",
        "message": "hello",
        "status": 200,
    }


def test_colours_are_for_terminals_only() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert has_colours(Terminal(), {})
    assert not has_colours(Terminal(), {"NO_COLOR": "1"})
    assert not has_colours(Terminal(), {"TERM": "dumb"})
    assert not has_colours(io.StringIO(), {})
