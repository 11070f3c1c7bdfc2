"""`penstock conformance --driver server`: what it finds in a gateway, and in a careless server."""

from __future__ import annotations

import http.server
import json
from collections.abc import Iterator
from threading import Thread

import pytest

from gateway.serving import Actor, Stage, upstream_table
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Text, Usage
from penstock.testing.server_check import CHECKED_APIS, check_server

CALL = '<tool_call>{"name": "tide_at", "arguments": {"port": "Leith"}}</tool_call>'
USAGE = Usage(input=21, output=9, total=30)


def test_a_gateway_keeps_the_rules_of_all_three_apis(
    stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = upstream_table(actor, retries=0, model="qwen3")
    served = stage.gateway(tmp_path_factory.mktemp("gateway"), text)
    actor.say(AssistantMessage("m", "m", [Text(f"I look.\n{CALL}")], "stop", "", USAGE))
    results = [*check_server(f"{served.url}/v1", "qwen3")]
    assert [(one.problems, one.note) for one in results] == [([], "")] * 5 * len(CHECKED_APIS)
    assert [one.request for one in results[:5]] == [
        "text",
        "one token",
        "a tool",
        "a required tool",
        "a result of a tool",
    ]


class Careless(http.server.BaseHTTPRequestHandler):
    """A server of one API that ends a call without its finish reason."""

    def do_GET(self) -> None:
        self.respond(200, json.dumps({"data": [{"id": "m"}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            self.respond(404, b"{}")
        elif "tools" in body:
            self.respond(500, b'{"error": "no tools"}')
        else:
            delta = {"choices": [{"index": 0, "delta": {"content": "Hello"}}]}
            self.respond(200, b"data: " + json.dumps(delta).encode() + b"\n\n")

    def respond(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        del arguments


@pytest.fixture
def careless() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def test_a_careless_server_is_told_what_is_wrong(careless: str) -> None:
    text, token, tool, *_ = check_server(careless, names=["openai-chat"])
    assert {"[DONE] is missing", "there is no finish_reason"} < {*text.problems}
    assert text.problems == token.problems
    assert tool.problems == ['HTTP 500: {"error": "no tools"}']
    (messages,) = check_server(careless, names=["anthropic"])
    assert (messages.problems, messages.note) == ([], "not served (HTTP 404)")


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown API 'x'"):
        next(check_server("http://127.0.0.1:9/v1", "m", ["x"]))
