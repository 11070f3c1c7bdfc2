"""The banner of ``penstock serve``: what it says about each set-up, and lines to copy."""

from __future__ import annotations

import json
import shlex
import tomllib
from typing import Any

import pytest

from penstock.cli.startup import Banner
from penstock.config import load
from penstock.gateway.advice import LOCAL_SERVERS
from penstock.gateway.discovery import FoundServer, UpstreamStatus

UPSTREAM = "http://127.0.0.1:11434/v1"
THREE = ["qwen3:8b", "gemma3:4b", "nomic-embed-text", "hermes3:8b"]


def banner(status: UpstreamStatus | None = None, **flags: object) -> Banner:
    """Return the banner of a gateway with *flags*."""
    environ = {"HOME": "/home/ann", "PENSTOCK_API_KEY": str(flags.pop("key", "") or "")}
    return Banner(load(None, environ, **flags), 80, status or UpstreamStatus())


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104 - nothing is bound
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("gate.example", "http://gate.example:80"),
    ],
)
def test_the_url_can_be_used_on_this_machine(host: str, url: str) -> None:
    shown = banner(host=host, insecure=True)
    text = shown.text()
    assert text.startswith(f"penstock serves {url}\n")
    assert f"inspector    {url}/\n" in text
    assert f"curl -N {url}/v1/chat/completions" in text
    assert f"ANTHROPIC_BASE_URL={url} " in text
    assert text.endswith("\nPress Ctrl-C to stop.\n")


def test_the_demo_says_that_it_is_scripted_and_where_was_searched() -> None:
    text = banner().text()
    assert "the scripted demo model, which is not a language model" in text
    assert "Use a server: penstock serve --upstream URL" in text
    assert "No server was found" not in text
    searched = Banner(load(None, {}), 80, UpstreamStatus(), []).text()
    assert "No server was found on this machine: Ollama (11434), llama.cpp (8080)" in searched


def test_a_found_server_is_named() -> None:
    found = [FoundServer(LOCAL_SERVERS[0], ["qwen3:8b"])]
    settings = load(None, {}, upstream=found[0].url)
    text = Banner(settings, 80, UpstreamStatus(["qwen3:8b"]), found).text()
    assert f"{UPSTREAM} (openai-chat) responds: 1 model\n" in text
    assert "Found on the port of Ollama; --no-discover switches the search off." in text


@pytest.mark.parametrize(
    ("status", "flags", "model", "lines"),
    [
        (UpstreamStatus(["qwen3:8b", "nomic-embed-text"]), {}, "qwen3:8b",
         ["qwen3:8b, also for names that the upstream does not have"]),
        (UpstreamStatus(THREE), {}, "qwen3:8b",
         ["the one that a client requests: qwen3:8b, gemma3:4b, hermes3:8b",
          "for other names: --model qwen3:8b, or --map 'claude-*=qwen3:8b'"]),
        (UpstreamStatus(THREE), {"map": ["claude-*=gemma3:4b"]}, "qwen3:8b",
         ["claude-* → gemma3:4b\n"]),
        (UpstreamStatus(THREE), {"map": ["claude-*=gema3:4b"]}, "qwen3:8b",
         ["claude-* → gema3:4b, which the upstream does not list; did you mean 'gemma3:4b'?\n"]),
        (UpstreamStatus(["qwen3:latest"]), {"model": "qwen3"}, "qwen3",
         ["qwen3, whatever name a client requests\n"]),
        (UpstreamStatus(THREE), {"model": "hermes3:8b"}, "hermes3:8b",
         ["hermes3:8b, whatever name a client requests"]),
        (UpstreamStatus(THREE), {"model": "hermes3"}, "hermes3",
         ["it has: qwen3:8b, gemma3:4b, hermes3:8b; did you mean 'hermes3:8b'?\n"]),
        (UpstreamStatus([]), {}, "MODEL", ["none: the upstream lists no models for chat"]),
        (UpstreamStatus(), {}, "MODEL", ["the one that a client requests\n"]),
        (UpstreamStatus(THREE), {"model": "nope"}, "nope",
         ["nope, whatever name a client requests; the upstream does not list it, it has: qwen3"]),
        (UpstreamStatus(None, "it lists no models", "Check the path."), {}, "MODEL",
         ["responds, but it lists no models\n", "Check the path.\n",
          "Copy a line to try it (replace MODEL by the name of a model):"]),
        (UpstreamStatus(None, "cannot connect", "Is Ollama running?", responds=False), {}, "MODEL",
         ["does not respond: cannot connect", "Is Ollama running? Requests are sent there"]),
    ],
    ids=["one", "several", "mapped", "mapped-wrong", "latest", "chosen", "misspelled",
         "none", "no-list", "unlisted", "odd", "down"],
)  # fmt: skip
def test_the_model_is_described(
    status: UpstreamStatus, flags: dict[str, Any], model: str, lines: list[str]
) -> None:
    shown = banner(status, upstream=UPSTREAM, **flags)
    for line in lines:
        assert line in shown.text()
    assert shown.model == model


def test_the_storage_is_described() -> None:
    stored = "/home/ann/.local/state/penstock/penstock.db: prompts and responses"
    assert f"{stored}; --no-store switches it off" in banner().text()
    assert "requests without their contents" in banner(no_bodies=True).text()
    assert "storage      off" in banner(no_store=True).text()
    shown = banner(store="postgresql://ann:secret@db/penstock").text()
    assert "secret" not in shown


@pytest.mark.parametrize("key", ["", "k" * 20])
def test_the_lines_to_copy_are_valid_for_a_shell(key: str) -> None:
    clients = banner(UpstreamStatus(["it's 7b"]), upstream=UPSTREAM, key=key).list_clients()
    curl = shlex.split(clients["curl"])
    assert json.loads(curl[-1])["model"] == "it's 7b"
    claude = dict(word.split("=", 1) for word in shlex.split(clients["Claude Code"])[:-1])
    assert claude["ANTHROPIC_MODEL"] == claude["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "it's 7b"
    assert claude["ANTHROPIC_AUTH_TOKEN"] == ("$PENSTOCK_API_KEY" if key else "none")
    codex = shlex.split(clients["Codex"])
    provider = tomllib.loads(codex[4])["model_providers"]["penstock"]
    assert provider["base_url"] == "http://127.0.0.1:80/v1"
    assert provider.get("env_key", "") == ("PENSTOCK_API_KEY" if key else "")
    assert codex[-1] == "it's 7b"
    name, config = shlex.split(clients["opencode"])[0].split("=", 1)
    assert name == "OPENCODE_CONFIG_CONTENT"
    assert json.loads(config)["model"] == "penstock/it's 7b"
    compile(clients["OpenAI SDK"], "sdk", "exec")
    assert key not in "".join(clients.values()) or not key
