"""What chat.qwen.ai is asked, who asks it, and what one sees of it."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from typing import Any

import pytest

from models.loopback_servers import STALL, Reply, serving
from models.qwen_server import (
    COOKIE,
    CREDENTIALS,
    END,
    TOKEN,
    UMID,
    QwenServer,
    answered,
    asking,
    asks,
    delta,
    message_of,
    refused,
)
from penstock import UsageError
from penstock.events import Done, Failed, MessageStart, TextDelta
from penstock.models.base import Tap
from penstock.models.http import NO_RETRY, Report
from penstock.models.qwen_web import QwenCredentials, QwenWebModel
from penstock.request import ReasoningOptions, ToolChoice


def test_the_first_message_has_the_system_prompt_and_the_tools_in_words() -> None:
    server = QwenServer("ok")
    answered(server, asks("Go", system="Be brief."))
    told = server.told()
    assert told.startswith("Be brief.\n\n====\n\nTOOL USE\n")
    assert "<tools>\n## read\nDescription: Read a file\nParameters:\n" in told
    assert "- filePath: (required) string - Where it is\n" in told
    assert "<read>\n<filePath>example_value</filePath>\n</read>\n</tools>" in told
    assert told.endswith("\n\nGo")


def test_the_message_has_the_fields_of_the_web_client() -> None:
    server = QwenServer("ok")
    answered(server, asks(reasoning=ReasoningOptions("high")))
    body = server.messages[0].body
    (message,) = body["messages"]
    assert (body["model"], body["stream"], body["incremental_output"]) == ("qwen3-max", True, True)
    assert (body["parent_id"], body["chat_mode"], len(message["fid"])) == (None, "normal", 36)
    assert message["feature_config"] == {"thinking_enabled": True, "output_schema": "phase"}
    assert server.creations[0]["models"] == ["qwen3-max"]


def test_guests_ask_as_guests() -> None:
    server = QwenServer("ok")
    answered(server, asks(), credentials=QwenCredentials(cookie=COOKIE, umid_token=UMID))
    assert server.creations[0]["chat_mode"] == server.messages[0].body["chat_mode"] == "guest"
    assert "authorization" not in server.messages[0].headers


def test_what_the_server_has_no_word_for_is_left_out_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports: list[Report] = []
    request = asks(temperature=0.5, max_tokens=9, stop=["x"], extra={"logit_bias": {}})
    with caplog.at_level(logging.WARNING, "penstock.models"):
        message = message_of(answered(QwenServer("ok"), request, on_report=reports.append))
    assert message.text == "ok"
    assert {"temperature", "max_tokens", "stop", "logit_bias"} <= set(reports[0].omitted_fields)
    assert "temperature" in caplog.text


def test_a_call_that_is_demanded_is_asked_for_in_the_same_chat() -> None:
    server = QwenServer("I could read it.", "<read><filePath>a</filePath></read>")
    message = message_of(answered(server, asks(tool_choice=ToolChoice("required"))))
    assert [call.name for call in message.tool_calls] == ["read"]
    first, second = server.messages
    assert (second.chat_id, second.parent_id) == (first.chat_id, first.response_id)
    assert "TOOL USE" not in second.content


def test_a_choice_that_cannot_be_made_asks_nobody() -> None:
    server = QwenServer("ok")
    end = answered(server, asks(tool_choice=ToolChoice("tool", "write")))[-1]
    assert isinstance(end, Failed)
    assert (end.error.type, end.error.status, server.creations) == ("UsageError", None, [])


def test_no_field_of_a_client_reaches_the_chat_or_the_headers() -> None:
    server = QwenServer("ok")
    forged = {"chat_id": "chat-of-another", "parent_id": "res-9", "chat_mode": "x", "fid": "f"}
    headers = {"Cookie": "client=1", "Authorization": "Bearer client", "X-Trace": "t-1"}
    answered(server, asks(extra=forged, headers=headers, session="s-1"))
    message = server.messages[0]
    assert (message.parent_id, message.body["chat_mode"]) == (None, "normal")
    assert message.headers["authorization"] == f"Bearer {TOKEN}"
    assert (message.headers["cookie"], message.headers["x-trace"]) == (f"lang=en; {COOKIE}", "t-1")
    assert "s-1" not in str(message.headers)


# --- secrets ---


async def test_no_credential_shows_in_a_repr_an_error_or_a_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    echoed = refused("Bad_Request", f"you sent {TOKEN}, {COOKIE.partition('=')[2]} and {UMID}")

    with caplog.at_level(logging.DEBUG):
        async with asking(QwenServer(echoed), retry=NO_RETRY) as (model, _upstream):
            message = await model.complete(asks())
            shown = (
                repr(model) + repr(message) + repr(vars(model)) + repr(CREDENTIALS)
            ) + caplog.text
    for secret in ("tok-canary", "cookie-canary", "umid-canary"):
        assert secret not in shown
    with pytest.raises(TypeError):
        pickle.dumps(CREDENTIALS)


def test_credentials_come_from_the_environment() -> None:
    environ = {"QWEN_TOKEN": "Bearer abc\n", "QWEN_COOKIE": "a=b", "QWEN_UMID_TOKEN": "u"}
    found = QwenCredentials.from_environ(environ)
    assert (found.token(), found.is_guest) == ("abc", False)
    assert found.headers()["cookie"] == "a=b"
    assert QwenCredentials.from_environ({}).is_guest


@pytest.mark.parametrize(
    "options",
    [{"parent": "fid"}, {"lifetime": 0}, {"retries": -1}, {"base_url": "chat.qwen.ai"}],
)
def test_an_option_that_cannot_be_one_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        QwenWebModel(**options)


def test_a_credential_that_no_header_can_hold_is_refused() -> None:
    with pytest.raises(UsageError):
        QwenCredentials("to\r\nken")


# --- the seam ---


class Watching(Tap):
    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.data = b""
        self.reports: list[Report] = []

    def sent(self, body: bytes) -> None:
        self.bodies.append(json.loads(body))

    def received(self, data: bytes) -> None:
        self.data += data

    def reported(self, report: Report) -> None:
        self.reports.append(report)


async def test_a_tap_sees_the_wire_and_one_report() -> None:
    tap = Watching()
    async with asking(QwenServer("A few words.")) as (model, _upstream):
        batches = [batch async for batch in model.batches(asks(), tap)]
    assert [*tap.bodies[0]] == ["title", "models", "chat_mode", "chat_type", "timestamp"]
    assert "messages" in tap.bodies[-1]
    assert b'data: {"response.created"' in tap.data
    assert tap.data.endswith(END)
    (report,) = tap.reports
    assert (report.attempts, report.model, report.usage.total) == (1, "qwen3-max", 35)
    assert [*report.session] == ["id", "chat_id", "parent_id", "response_id"]
    assert all(batches)
    assert isinstance(batches[-1][-1], Done)
    assert isinstance(batches[0][0], MessageStart)
    assert batches[0][0].model == "qwen3-max"


async def test_text_goes_out_while_the_answer_still_runs() -> None:
    server = QwenServer([delta("Early "), delta("words"), STALL])
    async with asking(server) as (model, upstream):
        said = ""
        batches = model.batches(asks())
        async for batch in batches:
            said += "".join(event.text for event in batch if isinstance(event, TextDelta))
            if said == "Early words":
                break
        await batches.aclose()
        async with asyncio.timeout(10):
            await upstream.left.wait()
        assert said == "Early words"


async def test_a_server_that_is_not_there_is_a_failure_of_the_way() -> None:
    async with serving(Reply()) as upstream:
        url = upstream.url
    async with QwenWebModel(url, "m", credentials=CREDENTIALS, retry=NO_RETRY) as model:
        error = (await model.complete(asks())).error
    assert error is not None
    assert (error.kind, error.status) == ("transport", None)
