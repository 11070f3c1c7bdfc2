"""``penstock doctor`` prints what was found, and the settings that fit."""

from __future__ import annotations

import json
import tomllib

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.pretenders import HERMES, Pretender
from gateway.serving import Stage
from models.loopback_servers import Script, Upstream, refusal, serving
from penstock.cli import doctor

runner = CliRunner()
app = typer.Typer()
app.command()(doctor.command)

CANARY = "sk-Canary7d21f0c2e5"


def said(script: Script, *args: str, **environ: str) -> Result:
    """Give what the command says of a server that follows *script*."""
    with Stage() as stage:
        context = serving(script)
        server: Upstream = stage.do(context.__aenter__())
        try:
            return runner.invoke(app, ["--upstream", server.url, *args], env=environ)
        finally:
            stage.do(context.__aexit__(None, None, None))


def test_every_finding_is_a_line_and_the_settings_can_be_pasted() -> None:
    result = said(Pretender(calls=HERMES, refuses_tools=True), "--name", "tides")
    assert result.exit_code == 0
    findings, settings, command = result.stdout.split("\n\n")
    assert findings.splitlines()[0] == "reachable          yes     the server supports openai-chat"
    assert (
        "calls as text      yes     with tools in the prompt, calls are text in hermes" in findings
    )
    assert tomllib.loads(settings)["upstreams"]["tides"]["format"] == "hermes"
    assert command.startswith("# run this next\npenstock serve --upstream http://127.0.0.1:")
    assert command.endswith(" --tools prompt --format hermes\n")


def test_json_says_the_same_to_machines() -> None:
    result = said(Pretender("anthropic"), "--json", "--model", "m-9")
    found = json.loads(result.stdout)
    assert found["answered"] is True
    assert (found["api"], found["model"], found["models"]) == ("anthropic", "m-9", ["m-1"])
    assert found["findings"][0] == {
        "probe": "reach",
        "verdict": "yes",
        "words": "the server supports anthropic",
        "facts": {},
    }
    assert tomllib.loads(found["toml"])["upstreams"]["mine"] == found["settings"]
    assert found["command"].startswith("penstock serve --upstream ")


def test_a_server_that_cannot_be_asked_ends_with_exit_code_1() -> None:
    result = said(refusal(401, {"error": {"message": "who are you"}}))
    assert result.exit_code == 1
    assert "requires a key: 401: who are you" in result.stdout
    assert "[upstreams" not in result.stdout


def test_a_key_is_used_and_never_shown() -> None:
    echo = refusal(403, {"error": {"message": f"no {CANARY} here"}})
    for flag in ([], ["--json"]):
        result = said(echo, "--key-env", "TIDE_KEY", *flag, TIDE_KEY=CANARY)
        assert result.exit_code == 1
        assert CANARY not in result.output


def test_what_a_server_says_does_not_steer_the_terminal() -> None:
    result = said(Pretender(names={"data": [{"id": "m\x1b[2J-1"}]}))
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--upstream", "ftp://x"], "--upstream: expected an http://"),
        (["--upstream", "http://x", "--api", "soap"], "unknown API 'soap'"),
        (["--upstream", "http://x", "--key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
        (["--upstream", "http://x", "--ca", "/no/such/file"], "file not found"),
    ],
)
def test_a_wrong_flag_is_said_in_one_line(args: list[str], why: str) -> None:
    result = runner.invoke(app, args)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.startswith("penstock: ")


@pytest.mark.parametrize("api", ["demo", "local"])
def test_a_model_in_the_process_needs_no_doctor(api: str) -> None:
    result = runner.invoke(app, ["--upstream", "http://127.0.0.1:1", "--api", api])
    assert result.exit_code == 2
    assert result.stderr.startswith("penstock: ")
