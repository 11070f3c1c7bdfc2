"""The model that the flags select."""

from __future__ import annotations

import pytest
from msgspec import structs

from agent.scenes import API, reply, text
from models.loopback_servers import Reply, Script, Seen, serving
from penstock import _json
from penstock.cli.chat.models import ModelChoice, choose_name, list_names, make_model
from penstock.errors import UsageError
from penstock.messages import Text
from penstock.request import Request, UserMessage
from penstock.tools import Tool

CALL = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
ASKED = Request(messages=[UserMessage([Text("What time is it?")])], tools=[Tool("now", "", {})])


async def test_without_a_server_the_scripted_model_is_used() -> None:
    model = make_model(ModelChoice(pace=0), {"PENSTOCK_UPSTREAM": "http://nowhere.invalid"})
    assert model.name == "penstock-demo"
    assert "scripted" in (await model.complete(Request())).text
    assert make_model(ModelChoice(api="demo", model="other", pace=0), {}).name == "other"
    with pytest.raises(UsageError, match=r"^--model: there is no server"):
        make_model(ModelChoice(model="other"), {})


@pytest.mark.parametrize(
    ("format_", "calls", "shown"),
    [("auto", 1, True), ("native", 0, True), ("hermes", 1, False)],
)
async def test_the_format_selects_how_calls_are_parsed(
    format_: str,
    calls: int,
    shown: bool,  # noqa: FBT001
) -> None:
    async with serving(reply(text(CALL))) as upstream:
        model = make_model(ModelChoice(upstream.url, API, "m", format=format_), {})
        answer = await model.complete(ASKED)
        await model.close()
        assert len(answer.tool_calls) == calls
        assert ("tools" in upstream.seen[0].json) == shown


def listing(seen: Seen) -> Reply:
    body = _json.encode({"object": "list", "data": [{"id": "first"}, {"id": "second"}]})
    assert seen.path.endswith("/models")
    return Reply(whole=body, headers={"content-type": "application/json"})


async def test_the_default_model_is_the_first_that_the_server_lists() -> None:
    async def main(script: Script) -> tuple[ModelChoice, list[str]]:
        async with serving(script) as upstream:
            choice = ModelChoice(upstream.url, API)
            model = make_model(choice, {})
            found = await choose_name(choice, model), await list_names(model)
            await model.close()
            return structs.replace(found[0], upstream=""), found[1]

    assert await main(listing) == (ModelChoice("", API, "first"), ["first", "second"])
    nothing = Reply(status=404, whole=b"", headers={"content-type": "text/plain"})
    assert await main(nothing) == (ModelChoice("", API), [])


async def test_a_server_that_is_not_running_is_reported_at_once() -> None:
    choice = ModelChoice("http://127.0.0.1:1/v1", API)
    with pytest.raises(UsageError, match=r"connection refused\. Is the server running\?"):
        await choose_name(choice, make_model(choice, {}))


def test_invalid_flags_are_refused() -> None:
    for wrong in (
        ModelChoice(format="hermez"),
        ModelChoice(api="nobody"),
        ModelChoice("ftp://nowhere"),
    ):
        with pytest.raises(UsageError):
            make_model(wrong, {})
