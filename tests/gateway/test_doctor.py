"""The doctor tells servers apart by how they behave, whatever they say of themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.pretenders import CODER, HERMES, Pretender
from models.loopback_servers import STALL, Reply, Script, Upstream, refusal, run, serving
from penstock import apis
from penstock.cli.doctor import upstream_of
from penstock.gateway.config import load
from penstock.gateway.doctor.diagnose import Diagnosis, diagnose
from penstock.gateway.doctor.probes import ProbeFinding

CANARY = "sk-Canary7d21f0c2e5"


def examined(
    *script: Script, api: str = "", path: str = "", seconds: float = 20.0, **flags: str
) -> tuple[Diagnosis, Upstream]:
    """Give what the doctor finds at a server that follows *script*."""

    async def main() -> tuple[Diagnosis, Upstream]:
        async with serving(*script) as server:
            settings = upstream_of({"upstream": server.url + path, **flags}, {"KEY": CANARY})
            heard: list[ProbeFinding] = []
            found = await diagnose(settings, api=api, seconds=seconds, tell=heard.append)
            assert heard == found.findings
            return found, server

    return run(main())


def verdicts(found: Diagnosis) -> dict[str, str]:
    return {finding.probe: finding.verdict for finding in found.findings}


def words(found: Diagnosis, probe: str) -> str:
    return next(finding.words for finding in found.findings if finding.probe == probe)


def test_a_server_that_does_everything_by_itself_needs_nothing() -> None:
    found, _ = examined(Pretender(thought="Hm.", forms=("json_schema",)), path="/v1")
    assert verdicts(found) == {
        "reach": "yes",
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


@pytest.mark.parametrize("api", apis.names())
def test_the_api_of_every_server_is_found_or_taken_as_told(api: str) -> None:
    found, server = examined(Pretender(api), api=api if api == "qwen" else "")
    assert found.answered
    assert found.api == api
    assert found.models[-1] == found.model == "m-1"
    assert verdicts(found)["tools"] == ("no" if api == "qwen" else "yes")
    assert verdicts(found)["stream"] == "yes"
    assert all(seen.path != "/" for seen in server.seen)


def test_ollama_is_found_behind_a_url_that_ends_in_a_version() -> None:
    found, _ = examined(Pretender("ollama"), path="/v1")
    assert found.api == "ollama"
    assert not found.url.endswith("/v1")


@pytest.mark.parametrize(
    ("text", "name"), [(HERMES, "hermes"), (CODER, "qwen3_coder")], ids=["hermes", "qwen3_coder"]
)
def test_calls_that_a_server_leaves_in_the_text_are_told_by_their_format(
    text: str, name: str
) -> None:
    found, _ = examined(Pretender(calls=text))
    assert verdicts(found)["tools"] == "no"
    assert f"calls come as text of {name}" in words(found, "format")
    assert found.settings["tools"] == "native"  # since the server told its model of them
    assert found.settings["format"] == name


@pytest.mark.parametrize(
    "server",
    [Pretender(calls=HERMES, refuses_tools=True), Pretender(calls=HERMES, ignores_tools=True)],
    ids=["refused", "ignored"],
)
def test_a_server_without_tools_is_told_of_them_in_words(server: Pretender) -> None:
    found, _ = examined(server)
    assert verdicts(found)["tools"] == "no"
    assert "told of tools in words, it calls as hermes" in words(found, "format")
    assert found.settings["tools"] == "prompt"
    assert found.settings["format"] == "hermes"
    assert "constrain" not in found.settings


def test_a_model_that_never_calls_is_set_up_by_its_name() -> None:
    found, _ = examined(Pretender(refuses_tools=True), model="qwen3-coder-30b")
    assert verdicts(found)["format"] == "no"
    assert "by its name it is qwen3_coder" in words(found, "format")
    assert found.settings["format"] == "qwen3_coder"
    assert verdicts(found)["models"] == "partly"
    assert found.settings["model"] == "qwen3-coder-30b"


@pytest.mark.parametrize("form", ["json_schema", "grammar", "structural_tag"])
def test_a_form_that_is_honoured_is_told_from_those_that_are_ignored(form: str) -> None:
    found, _ = examined(Pretender(calls=HERMES, refuses_tools=True, forms=(form,)))
    honoured = [name for name in ("json_schema", "grammar", "structural_tag")
                if verdicts(found)[name] == "yes"]  # fmt: skip
    assert honoured == [form]
    assert found.settings["constrain"] == form


def test_an_answer_in_one_piece_is_no_stream() -> None:
    found, _ = examined(Pretender(streams=False))
    assert verdicts(found)["stream"] == "no"
    assert found.settings["streaming"] is False


def test_thoughts_in_the_text_are_seen() -> None:
    found, _ = examined(Pretender(thinks_in_text="<think>Hm.</think>"))
    assert verdicts(found)["reasoning"] == "no"
    assert "prompt_suffix" not in found.settings


def test_thoughts_that_the_template_opened_are_seen_by_their_end() -> None:
    found, _ = examined(Pretender(thinks_in_text="Hm.</think>"))
    assert verdicts(found)["reasoning"] == "no"
    assert found.settings["prompt_suffix"] == "<think>\n"


def test_an_end_without_its_mark_and_an_answer_without_usage_are_told() -> None:
    bare = Pretender(usage=False, edit=lambda data: data.replace(b"data: [DONE]\n\n", b""))
    found, _ = examined(bare)
    assert verdicts(found)["usage"] == "no"
    assert words(found, "end") == "without [DONE]"


def test_a_list_of_models_that_is_none_is_no_hindrance() -> None:
    found, _ = examined(Pretender(names="<html>"))
    assert verdicts(found)["models"] == "no"
    assert found.model == "default"
    assert found.answered


# --- servers that cannot be asked ---


def test_a_server_that_wants_a_key_says_so_and_is_asked_no_further() -> None:
    found, server = examined(refusal(401, {"error": {"message": f"bad key {CANARY}"}}))
    assert not found.answered
    assert "it wants a key" in words(found, "reach")
    assert len(server.seen) == 2  # the list, and one question


def test_a_key_goes_along_and_is_nowhere_in_what_is_found() -> None:
    script = refusal(401, {"error": {"message": f"bad key {CANARY}"}})
    found, server = examined(script, key_env="KEY")
    assert all(seen.headers["authorization"] == f"Bearer {CANARY}" for seen in server.seen)
    assert CANARY not in repr(found)


def test_a_server_that_knows_no_api_is_asked_in_all_of_them() -> None:
    found, server = examined(refusal(404, {"detail": "Not Found"}))
    assert not found.answered
    assert "not as openai-chat does" in words(found, "reach")
    asked = {seen.path for seen in server.seen if seen.body}
    assert len(asked) == 5
    assert {"/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses"} < asked


def test_a_web_page_is_no_model() -> None:
    page = Reply(whole=b"<html>It works</html>", headers={"content-type": "text/html"})
    found, _ = examined(page)
    assert not found.answered
    assert found.settings == {}


def test_what_speaks_no_http_is_told() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await reader.read(1)
        writer.close()

    async def main() -> Diagnosis:
        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            settings = upstream_of({"upstream": f"http://127.0.0.1:{port}"}, {})
            return await diagnose(settings, seconds=10)

    found = run(main())
    assert not found.answered
    assert verdicts(found) == {"reach": "no"}


def test_where_nobody_listens_is_told() -> None:
    async def main() -> Diagnosis:
        async with serving(Reply()) as server:
            url = server.url
        return await diagnose(upstream_of({"upstream": url}, {}), seconds=10)

    found = run(main())
    assert not found.answered
    assert "cannot connect" in words(found, "reach")


def test_a_server_that_hangs_is_left_in_time() -> None:
    found, _ = examined(Reply([STALL], 0), seconds=0.3)
    assert not found.answered
    assert "in time" in words(found, "reach")


def test_one_probe_that_hangs_is_told_and_the_others_go_on() -> None:
    calm = Pretender()

    def hang(seen: Any) -> Reply:
        return Reply([STALL]) if b'"grammar"' in seen.body else calm(seen)

    found, _ = examined(hang, seconds=1.0)
    assert "refused" in words(found, "grammar")
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
def test_the_advice_is_a_section_that_the_gateway_takes(server: Pretender, tmp_path: Path) -> None:
    found, _ = examined(server, model="m-2")
    file = tmp_path / "penstock.toml"
    file.write_text(found.toml("found"))
    settings = load(file, {}).upstreams["found"]
    assert settings.api == found.api
    assert settings.tools == found.settings["tools"]
    assert settings.streaming == server.streams
