"""The doctor: findings about servers by their behaviour, and recommended settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.pretenders import CODER, HERMES, Pretender
from models.loopback_servers import CUT, STALL, Reply, Script, Seen, Upstream, refusal, serving
from penstock import apis
from penstock.cli.admin import load_upstream
from penstock.config import load
from penstock.gateway.doctor import Diagnosis, diagnose
from penstock.gateway.probes import ProbeFinding

CANARY = "sk-Canary7d21f0c2e5"


async def examined(
    *script: Script,
    api: str = "",
    path: str = "",
    seconds: float = 20.0,
    forgets: bool = False,
    **flags: str,
) -> tuple[Diagnosis, Upstream]:
    """Return what the doctor finds at a server that follows *script*."""
    async with serving(*script, forgets=forgets) as server:
        settings = load_upstream({"upstream": server.url + path, **flags}, {"KEY": CANARY})
        heard: list[ProbeFinding] = []
        found = await diagnose(settings, api=api, seconds=seconds, on_finding=heard.append)
        assert heard == found.findings
        return found, server


def verdicts(found: Diagnosis) -> dict[str, str]:
    return {finding.probe: finding.verdict for finding in found.findings}


def words(found: Diagnosis, probe: str) -> str:
    return next(finding.words for finding in found.findings if finding.probe == probe)


async def test_a_server_that_does_everything_by_itself_needs_nothing() -> None:
    found, _ = await examined(Pretender(thought="Hm.", forms=("json_schema",)), path="/v1")
    assert verdicts(found) == {
        "reach": "yes",
        "auth": "yes",
        "models": "yes",
        "stream": "yes",
        "end": "yes",
        "usage": "yes",
        "tools": "yes",
        "format": "unknown",
        "reasoning": "yes",
        "json_schema": "yes",
        "grammar": "no",
        "structural_tag": "no",
    }
    assert found.answered
    assert found.models == ["text-embed-1", "m-1"]
    assert found.model == "m-1"  # and not the one that does not converse
    assert found.settings == {"api": "openai-chat", "base_url": found.url, "tools": "native"}


async def test_a_server_that_closes_after_each_response_gets_the_same_verdicts() -> None:
    kept, _ = await examined(Pretender(forms=("grammar",)), path="/v1")
    closed, server = await examined(Pretender(forms=("grammar",)), path="/v1", forgets=True)
    assert server.forgotten > 0
    assert verdicts(closed) == verdicts(kept)


@pytest.mark.parametrize("api", apis.names())
async def test_the_api_of_every_server_is_found_or_taken_as_told(api: str) -> None:
    found, server = await examined(Pretender(api), api=api if api == "qwen" else "")
    assert found.answered
    assert found.api == api
    assert found.models[-1] == found.model == "m-1"
    assert verdicts(found)["tools"] == ("no" if api == "qwen" else "yes")
    assert verdicts(found)["stream"] == "yes"
    assert all(seen.path != "/" for seen in server.seen)


async def test_ollama_is_found_behind_a_url_that_ends_in_a_version() -> None:
    found, _ = await examined(Pretender("ollama"), path="/v1")
    assert found.api == "ollama"
    assert not found.url.endswith("/v1")


@pytest.mark.parametrize(
    ("text", "name"), [(HERMES, "hermes"), (CODER, "qwen3_coder")], ids=["hermes", "qwen3_coder"]
)
async def test_calls_that_a_server_leaves_in_the_text_are_told_by_their_format(
    text: str, name: str
) -> None:
    found, _ = await examined(Pretender(calls=text))
    assert verdicts(found)["tools"] == "no"
    assert f"calls are text in {name}" in words(found, "format")
    assert found.settings["tools"] == "native"  # since the server put them into the prompt
    assert found.settings["format"] == name


@pytest.mark.parametrize(
    "server",
    [Pretender(calls=HERMES, refuses_tools=True), Pretender(calls=HERMES, ignores_tools=True)],
    ids=["refused", "ignored"],
)
async def test_a_server_without_tools_is_told_of_them_in_words(server: Pretender) -> None:
    found, _ = await examined(server)
    assert verdicts(found)["tools"] == "no"
    assert "with tools in the prompt, calls are text in hermes" in words(found, "format")
    assert found.settings["tools"] == "prompt"
    assert found.settings["format"] == "hermes"
    assert "constrain" not in found.settings


async def test_a_model_that_never_calls_is_set_up_by_its_name() -> None:
    found, _ = await examined(Pretender(refuses_tools=True), model="qwen3-coder-30b")
    assert verdicts(found)["format"] == "no"
    assert "its name suggests qwen3_coder" in words(found, "format")
    assert found.settings["format"] == "qwen3_coder"
    assert verdicts(found)["models"] == "partly"
    assert found.settings["model"] == "qwen3-coder-30b"


@pytest.mark.parametrize("form", ["json_schema", "grammar", "structural_tag"])
async def test_a_form_that_is_honoured_is_told_from_those_that_are_ignored(form: str) -> None:
    found, _ = await examined(Pretender(calls=HERMES, refuses_tools=True, forms=(form,)))
    honoured = [name for name in ("json_schema", "grammar", "structural_tag")
                if verdicts(found)[name] == "yes"]  # fmt: skip
    assert honoured == [form]
    assert found.settings["constrain"] == form


async def test_an_answer_in_one_piece_is_no_stream() -> None:
    found, _ = await examined(Pretender(streams=False))
    assert verdicts(found)["stream"] == "no"
    assert found.settings["streaming"] is False


async def test_thoughts_in_the_text_are_seen() -> None:
    found, _ = await examined(Pretender(thinks_in_text="<think>Hm.</think>"))
    assert verdicts(found)["reasoning"] == "no"
    assert "prompt_suffix" not in found.settings


async def test_thoughts_that_the_template_opened_are_seen_by_their_end() -> None:
    found, _ = await examined(Pretender(thinks_in_text="Hm.</think>"))
    assert verdicts(found)["reasoning"] == "no"
    assert found.settings["prompt_suffix"] == "<think>\n"


async def test_an_end_without_its_mark_and_an_answer_without_usage_are_told() -> None:
    bare = Pretender(usage=False, edit=lambda data: data.replace(b"data: [DONE]\n\n", b""))
    found, _ = await examined(bare)
    assert verdicts(found)["usage"] == "no"
    assert words(found, "end") == "without [DONE]"


async def test_a_list_of_models_that_is_none_is_no_hindrance() -> None:
    found, _ = await examined(Pretender(names="<html>"))
    assert verdicts(found)["models"] == "no"
    assert found.model == "default"
    assert found.answered


# --- servers that cannot be asked ---


async def test_a_server_that_wants_a_key_says_so_and_is_asked_no_further() -> None:
    found, server = await examined(refusal(401, {"error": {"message": f"bad key {CANARY}"}}))
    assert not found.answered
    assert verdicts(found) == {"reach": "yes", "auth": "no"}
    assert "requires a key" in words(found, "auth")
    assert found.command == f"penstock doctor --upstream {server.url} --key-env NAME"
    assert len(server.seen) == 2  # the list, and one question


async def test_an_unknown_model_is_reported_with_those_that_exist() -> None:
    calm = Pretender()

    def choose(seen: Seen) -> Reply:
        if seen.body and seen.json["model"] not in ("m-1", "m-2"):
            return refusal(404, {"error": {"message": "model 'm-9' not found"}})
        return calm(seen)

    calm.names = {"object": "list", "data": [{"id": "m-1"}, {"id": "m-2"}]}
    found, server = await examined(choose, model="m-9")
    assert verdicts(found) == {"reach": "yes", "models": "no"}
    assert "the server has no model 'm-9', it has: m-1, m-2" in words(found, "models")
    assert found.command == f"penstock doctor --upstream {server.url} --model m-1"


async def test_the_command_has_the_flags_that_fit() -> None:
    found, server = await examined(Pretender(), path="/v1")
    assert found.command == f"penstock serve --upstream {server.url}/v1"
    text, server = await examined(Pretender(calls=HERMES, refuses_tools=True), key_env="KEY")
    assert text.command == (
        f"penstock serve --upstream {server.url} --key-env KEY --tools prompt --format hermes"
    )
    other, server = await examined(
        Pretender("anthropic", names={"data": [{"id": "a"}, {"id": "b"}]})
    )
    assert other.command == f"penstock serve --upstream {server.url} --api anthropic --model a"
    slow, _ = await examined(Pretender(streams=False))
    assert slow.command == "penstock serve --config penstock.toml"


async def test_a_failure_of_the_connection_is_not_a_verdict() -> None:
    calm = Pretender()

    def cut(seen: Seen) -> Reply:
        is_probe = b"get_tide" in seen.body or b"zqx" in seen.body or b"Count" in seen.body
        return Reply([CUT], status=0) if is_probe else calm(seen)

    found, _ = await examined(cut)
    said = verdicts(found)
    assert (said.pop("reach"), said.pop("auth"), said.pop("models")) == ("yes", "yes", "yes")
    assert set(said.values()) == {"unknown"}


async def test_a_key_goes_along_and_is_nowhere_in_what_is_found() -> None:
    script = refusal(401, {"error": {"message": f"bad key {CANARY}"}})
    found, server = await examined(script, key_env="KEY")
    assert all(seen.headers["authorization"] == f"Bearer {CANARY}" for seen in server.seen)
    assert CANARY not in repr(found)


async def test_a_server_that_knows_no_api_is_asked_in_all_of_them() -> None:
    found, server = await examined(refusal(404, {"detail": "Not Found"}))
    assert not found.answered
    assert verdicts(found) == {"reach": "partly"}
    assert "not as openai-chat" in words(found, "reach")
    asked = {seen.path for seen in server.seen if seen.body}
    assert len(asked) == 5
    assert {"/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses"} < asked


async def test_a_server_that_fails_is_reachable_in_part() -> None:
    found, _ = await examined(refusal(500, {"detail": "oops"}))
    assert not found.answered
    assert verdicts(found) == {"reach": "partly"}
    assert "the server responds with an error" in words(found, "reach")


async def test_a_web_page_is_no_model() -> None:
    page = Reply(whole=b"<html>It works</html>", headers={"content-type": "text/html"})
    found, _ = await examined(page)
    assert not found.answered
    assert found.settings == {}


async def test_what_speaks_no_http_is_told() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        settings = load_upstream({"upstream": f"http://127.0.0.1:{port}"}, {})
        found = await diagnose(settings, seconds=10)
    assert not found.answered
    assert verdicts(found) == {"reach": "no"}


async def test_where_nobody_listens_is_told() -> None:
    async with serving(Reply()) as server:
        url = server.url
    found = await diagnose(load_upstream({"upstream": url}, {}), seconds=10)
    assert not found.answered
    assert "cannot connect" in words(found, "reach")


async def test_a_server_that_hangs_is_left_in_time() -> None:
    found, _ = await examined(Reply([STALL], 0), seconds=0.3)
    assert not found.answered
    assert "in time" in words(found, "reach")


async def test_one_probe_that_hangs_is_told_and_the_others_go_on() -> None:
    calm = Pretender()

    def hang(seen: Any) -> Reply:
        return Reply([STALL]) if b'"grammar"' in seen.body else calm(seen)

    found, _ = await examined(hang, seconds=1.0)
    assert verdicts(found)["grammar"] == "unknown"
    assert verdicts(found)["structural_tag"] == "no"
    assert verdicts(found)["tools"] == "yes"


# --- what is advised ---


@pytest.mark.parametrize(
    "server",
    [
        Pretender(),
        Pretender(calls=CODER, refuses_tools=True, forms=("grammar",), streams=False),
        Pretender("ollama", thinks_in_text="Hm.</think>"),
    ],
)
async def test_the_advice_is_a_section_that_the_gateway_takes(
    server: Pretender, tmp_path: Path
) -> None:
    found, _ = await examined(server, model="m-2")
    file = tmp_path / "penstock.toml"
    file.write_text(found.toml("found"))
    settings = load(file, {}).upstreams["found"]
    assert settings.api == found.api
    assert settings.tools == found.settings["tools"]
    assert settings.streaming == server.streams
