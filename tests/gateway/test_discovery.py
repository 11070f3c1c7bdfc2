"""Servers on this machine are found by their list of models, and an upstream is checked."""

from __future__ import annotations

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from models.loopback_servers import CUT, Reply, Script, refusal, serving
from penstock import _json
from penstock.cli import startup
from penstock.cli.admin import load_upstream
from penstock.errors import UsageError
from penstock.gateway.advice import LOCAL_SERVERS, LocalServer
from penstock.gateway.discovery import FoundServer, check_upstream, find_servers

LIST = Reply(whole=_json.encode({"object": "list", "data": [{"id": "qwen3:8b"}]}),
             headers={"content-type": "application/json"})  # fmt: skip
PAGE = Reply(whole=b"<html>Welcome</html>", headers={"content-type": "text/html"})


def test_the_usual_ports_of_local_servers_are_known() -> None:
    ports = {one.name: one.port for one in LOCAL_SERVERS}
    assert ports == {"Ollama": 11434, "llama.cpp": 8080, "LM Studio": 1234, "vLLM": 8000,
                     "SGLang": 30000}  # fmt: skip


async def test_servers_are_found_and_other_programs_are_not() -> None:
    scripts: list[Script] = [LIST, PAGE, refusal(401, {"error": "key"}), refusal(404, {}),
                             Reply([CUT], status=0)]  # fmt: skip
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(script)) for script in scripts]
        programs = [
            LocalServer(f"server {number}", urlsplit(server.url).port or 0, "start")
            for number, server in enumerate(servers)
        ]
        found = await find_servers([*programs, LocalServer("none", 1, "start")], seconds=20)
    assert [(one.program.name, one.models, one.wants_key) for one in found] == [
        ("server 0", ["qwen3:8b"], False),
        ("server 2", [], True),
    ]
    assert found[0].description == f"server 0: {programs[0].url} (1 model)"
    assert found[1].command == f"penstock serve --upstream {programs[2].url} --key-env NAME"


@pytest.mark.parametrize(
    ("script", "models", "problem", "advice"),
    [
        (LIST, ["qwen3:8b"], "", ""),
        (
            PAGE,
            None,
            "it lists no models (the list of models is not JSON)",
            "If requests fail: check",
        ),
        (
            refusal(404, {"error": "no such path"}),
            None,
            "it lists no models (404: no such path)",
            "If requests fail: check the path of the upstream's URL",
        ),
        (refusal(401, {"error": {"message": "no key"}}), None, "401: ", "--key-env"),
    ],
    ids=["list", "page", "no-list", "key"],
)
async def test_an_upstream_is_checked(
    script: Script, models: list[str] | None, problem: str, advice: str
) -> None:
    async with serving(script) as server:
        status = await check_upstream(load_upstream({"upstream": server.url}, {}), seconds=20)
    assert status.models == models
    assert problem in status.problem
    assert bool(problem) == bool(status.problem)
    assert advice in status.advice
    assert status.responds


async def test_an_upstream_that_is_down_is_reported_with_what_to_do() -> None:
    status = await check_upstream(load_upstream({"upstream": "http://127.0.0.1:1/v1"}, {}))
    assert status.problem == "cannot connect to 127.0.0.1:1: connection refused"
    assert not status.responds
    assert status.advice == "Is the server running? Check the port of the upstream."
    assert (await check_upstream(load_upstream({"api": "demo"}, {}))).problem == ""


# --- the start of the command ---


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UPSTREAM", "API", "CONFIG", "NO_DISCOVER", "MODEL", "MAP"):
        monkeypatch.setenv(f"PENSTOCK_{name}", "")  # so that it is restored, whatever is set


def found_servers(monkeypatch: pytest.MonkeyPatch, *programs: LocalServer) -> None:
    async def find() -> list[FoundServer]:
        return [FoundServer(one, ["m"]) for one in programs]

    monkeypatch.setattr(startup, "find_servers", find)


def test_the_only_server_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found_servers(monkeypatch, LOCAL_SERVERS[0])
    flags = {"model": "qwen3", "map": ["claude-*=qwen3"]}
    found = startup.discover(flags)
    assert found is not None
    assert [one.url for one in found] == ["http://127.0.0.1:11434/v1"]
    upstream = startup.load_settings(flags).upstreams["default"]
    assert (upstream.base_url.reveal(), upstream.model) == (found[0].url, "qwen3")


def test_several_servers_are_listed_with_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    found_servers(monkeypatch, *LOCAL_SERVERS[:2])
    with pytest.raises(UsageError) as caught:
        startup.discover({})
    assert str(caught.value) == (
        "2 servers run on this machine. Choose one of them:\n"
        "  Ollama: http://127.0.0.1:11434/v1 (1 model)\n"
        "    penstock serve --upstream http://127.0.0.1:11434/v1\n"
        "  llama.cpp: http://127.0.0.1:8080/v1 (1 model)\n"
        "    penstock serve --upstream http://127.0.0.1:8080/v1\n"
        "or the scripted demo model:\n"
        "    penstock serve --api demo"
    )


def test_nothing_is_searched_if_an_upstream_is_configured_or_the_search_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found_servers(monkeypatch, *LOCAL_SERVERS)
    for flags in ({"upstream": "http://x"}, {"api": "demo"}, {"no_discover": True}):
        assert startup.discover(flags) is None


def test_a_model_is_not_given_to_the_scripted_one_if_no_server_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found_servers(monkeypatch)
    flags = {"model": "qwen3"}
    assert startup.discover(flags) == []
    with pytest.raises(UsageError, match=r"^--model: there is no server to request it from"):
        startup.load_settings(flags)
