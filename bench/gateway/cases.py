"""What an upstream may do, and what a client may see of it: a table, and the checks.

The judge reads the stream as a strict client of the API does (`penstock.apis.check`) and compares
what it says with the scenario. It knows three valid ends: an *answer* that is complete and
exact; a *failure*, that is the delivered part, exact, and then one error in the stream, with no
call marked complete and no reason to stop; a *refusal*, that is a status of its own and an error
object, where nothing had been delivered yet.
"""

from __future__ import annotations

import json
import re
from typing import Final

from msgspec import Struct

from gateway import scenarios
from gateway.probe import Outcome
from gateway.scenarios import SPOKEN, TOOL, Scenario, arguments_of
from penstock import apis
from penstock.builder import MessageBuilder
from penstock.messages import AssistantMessage

API_NAMES: Final = {"chat": "openai-chat", "messages": "anthropic", "responses": "openai-responses"}
"""What penstock calls the APIs."""

_STAMP: Final = re.compile(r"(\d+):\d{9,};")


class Case(Struct, frozen=True):
    """Something that an upstream does."""

    name: str
    model: str
    allowed: tuple[str, ...] = ("answer",)
    """Which ends are: ``answer``, ``failure``, ``refusal``."""
    statuses: tuple[int, ...] = (500, 502, 503)
    """With which statuses it may be refused."""
    stream: bool = True


CASES: Final = (
    Case("text", "fake-c20"),
    Case("text, whole", "fake-c20", stream=False),
    Case("reasoning", "fake-c20-mthink"),
    Case("a native call", "fake-c20-mnative"),
    Case("a native call, whole", "fake-c20-mnative", stream=False),
    Case("three native calls", "fake-c21-mpar"),
    Case("a hermes call as text", "fake-c20-mhermes"),
    Case("a hermes call as text, whole", "fake-c20-mhermes", stream=False),
    Case("an XML call as text", "fake-c20-mxml"),
    Case("a Qwen3-Coder call, nothing closed", "fake-c20-mqwen3coder"),
    Case("a call as bare JSON", "fake-c20-mjson"),
    Case("cut after 5 pieces", "fake-c20-d2-fcut@5", ("failure",)),
    Case("cut after 5 pieces, slowly", "fake-c20-d30-fcut@5", ("failure",)),
    Case("reset after 5 pieces", "fake-c20-d30-frst@5", ("failure",)),
    Case("cut before the first piece", "fake-c20-fcut@0", ("failure", "refusal")),
    Case("cut inside native arguments", "fake-c20-d2-mnative-fcut@8", ("failure",)),
    Case("cut inside a hermes call", "fake-c20-d2-mhermes-fcut@15", ("failure",)),
    Case("reset inside a Qwen3-Coder call", "fake-c20-d30-mqwen3coder-frst@15", ("failure",)),
    Case("a frame of broken JSON", "fake-c20-fbadjson@5", ("answer", "failure")),
    Case("a frame of garbage", "fake-c20-fgarbage@5", ("answer", "failure")),
    Case("an error in the stream", "fake-c20-ferr@5", ("failure",)),
    Case("an error in the stream, slowly", "fake-c20-d30-ferr@5", ("failure",)),
    Case("no last frame", "fake-c20-fnodone"),
    Case("no reason to stop", "fake-c20-fnofinish"),
    Case("no reason to stop after a call", "fake-c20-mnative-fnofinish"),
    Case("stalls after 5 pieces", "fake-c20-d2-fstall@5", ("failure",)),
    Case("the first byte is late", "fake-c20-fslow@1500"),
    Case("compressed", "fake-c20-fgzip"),
    Case("compressed, whole", "fake-c20-fgzip", stream=False),
    Case("a page of HTML", "fake-fhtml", ("refusal", "failure")),
    Case("a page of HTML, status 502", "fake-fhtml@502", ("refusal",)),
    Case("status 500", "fake-fhttp500", ("refusal",)),
    Case("status 429", "fake-fhttp429", ("refusal",), (429,)),
)
"""The table."""


def complaints(case: Case, api: str, outcome: Outcome) -> list[str]:
    """Return what is wrong with *outcome*; empty if nothing is."""
    if outcome.ended != "end":
        return [f"the answer has no end: {outcome.ended} after {outcome.seconds:.1f} s"]
    if outcome.parsed.status != 200:
        return _of_refusal(case, outcome)
    if not case.stream:
        return _of_whole(case, api, outcome)
    return [*apis.check(API_NAMES[api], outcome.parsed.body), *_of_stream(case, api, outcome)]


def _of_whole(case: Case, api: str, outcome: Outcome) -> list[str]:
    try:
        value = json.loads(outcome.parsed.body)
    except ValueError:
        return ["the answer is no JSON"]
    message = apis.get(API_NAMES[api]).read_response(value)
    return _of_answer(scenarios.read(case.model), message)


def _of_stream(case: Case, api: str, outcome: Outcome) -> list[str]:
    message = message_of(api, outcome.parsed.body)
    is_failure = message.error is not None
    if ("failure" if is_failure else "answer") not in case.allowed:
        end = "an error" if is_failure else f"the reason to stop {message.stop_reason}"
        return [f"it ends with {end}, not as {' or '.join(case.allowed)}"]
    judge = _of_failure if is_failure else _of_answer
    return judge(scenarios.read(case.model), message)


def message_of(api: str, body: bytes) -> AssistantMessage:
    """Put together what a client of *api* reads in the stream *body*."""
    decoder, builder = apis.get(API_NAMES[api]).decoder(), MessageBuilder()
    for event in (*decoder.feed(body), *decoder.finish()):
        builder.add(event)
    return builder.message


def _of_answer(scenario: Scenario, message: AssistantMessage) -> list[str]:
    wrong: list[str] = []
    wanted = _wanted_calls(scenario)
    calls = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    if calls != wanted:
        wrong.append(f"{len(wanted)} calls were made, and these arrived: {calls}")
    reason = "tool_use" if wanted else "stop"
    if message.stop_reason != reason:
        wrong.append(f"the reason to stop is {message.stop_reason}, not {reason}")
    if scenario.mode in ("text", "think"):
        numbers = _numbers(message)
        if numbers != list(range(scenario.pieces)):
            wrong.append(f"of {scenario.pieces} pieces arrived {numbers}")
    elif message.text.strip() not in ("", SPOKEN.strip()):
        wrong.append(f"the text beside the call is {message.text[:60]!r}")
    if not message.usage.output:
        wrong.append("the usage is missing")
    return wrong


def _of_failure(scenario: Scenario, message: AssistantMessage) -> list[str]:
    wrong: list[str] = []
    if any(call.complete for call in message.tool_calls):
        wrong.append("a call that was cut is marked complete")
    if scenario.mode == "text":
        numbers = _numbers(message)
        if numbers != list(range(len(numbers))) or len(numbers) < scenario.at:
            wrong.append(f"{scenario.at} pieces came before the fault, and {numbers} arrived")
    return wrong


def _of_refusal(case: Case, outcome: Outcome) -> list[str]:
    parsed = outcome.parsed
    if "refusal" not in case.allowed:
        return [f"status {parsed.status}: what had been delivered is lost"]
    wrong: list[str] = []
    if parsed.status not in case.statuses:
        wrong.append(f"the status is {parsed.status}, not {case.statuses}")
    if parsed.status == 429 and "retry-after" not in parsed.headers:
        wrong.append("retry-after is missing")
    try:
        error = json.loads(parsed.body)["error"]
        is_told = isinstance(error["message"], str) and isinstance(error["type"], str)
    except (ValueError, KeyError, TypeError):
        is_told = False
    return wrong if is_told else [*wrong, "there is no error object with a message and a type"]


def _wanted_calls(scenario: Scenario) -> list[tuple[str, dict[str, str]]]:
    match scenario.mode:
        case "text" | "think":
            return []
        case "par":
            return [(TOOL, arguments_of(call, scenario.pieces // 3)) for call in range(3)]
        case _:
            return [(TOOL, arguments_of(0, scenario.pieces))]


def _numbers(message: AssistantMessage) -> list[int]:
    return [int(number) for number in _STAMP.findall(message.thinking + message.text)]
