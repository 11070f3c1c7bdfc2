"""The real proxy of LiteLLM with our callback in its YAML: run by `make integrations`."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integrations.printed_calls import make_body
from integrations.printing_server import CITY, PrintingServer, serve
from penstock import apis
from penstock.messages import AssistantMessage

pytest.importorskip("litellm", reason="`make integrations` installs LiteLLM")

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]

START_SECONDS = 180
KEY = f"sk-{secrets.token_hex(32)}"  # The proxy does not start without one.
PATHS = {"openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages"}


class Proxy:
    """A running proxy and the server behind it."""

    def __init__(self, url: str, upstream: PrintingServer) -> None:
        self.url = url
        self.upstream = upstream

    def post(self, api: str, **fields: Any) -> bytes:
        body = json.loads(make_body(api)) | fields
        request = urllib.request.Request(  # noqa: S310 - on the loopback interface
            self.url + PATHS[api],
            json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            data: bytes = response.read()
            return data

    def ask(self, api: str, *, stream: bool) -> AssistantMessage:
        data = self.post(api, stream=stream)
        if not stream:
            return apis.get(api).read_response(json.loads(data))
        decoder = apis.get(api).decoder()
        message: AssistantMessage = [*decoder.feed(data), *decoder.finish()][-1].message  # type: ignore[union-attr]
        return message


@pytest.fixture(scope="module", params=["callback", "prompt_callback"])
def proxy(request: Any, tmp_path_factory: Any) -> Iterator[Proxy]:
    folder: Path = tmp_path_factory.mktemp("litellm")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serve() as upstream:
        config = {
            "model_list": [
                {
                    "model_name": "m",
                    "litellm_params": {
                        "model": "openai/m",
                        "api_base": upstream.url,
                        "api_key": "x",
                    },
                }
            ],
            "general_settings": {"master_key": KEY},
            "litellm_settings": {"callbacks": f"penstock.integrations.litellm.{request.param}"},
        }
        path = folder / "config.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML.
        command = [str(Path(sys.executable).with_name("litellm")), "--config", str(path)]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        environ = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "*"}
        log = (folder / "log.txt").open("wb")
        process = subprocess.Popen(  # noqa: S603 - LiteLLM's own command
            command, stdout=log, stderr=log, env=environ, cwd=folder, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait(f"{url}/health/liveliness", process)
            yield Proxy(url, upstream)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
            log.close()


def wait(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - on the loopback interface
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    pytest.fail(f"the proxy did not start: {process.poll()}")


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_printed_call_is_a_call(proxy: Proxy, api: str, stream: bool) -> None:  # noqa: FBT001
    message = proxy.ask(api, stream=stream)
    assert [(one.name, one.arguments) for one in message.tool_calls] == [
        ("weather", {"city": CITY})
    ]
    assert message.stop_reason == "tool_use"
    assert "<tool_call>" not in message.text


def test_the_prompt_mode_sends_no_tools(proxy: Proxy, request: Any) -> None:
    proxy.ask("openai-chat", stream=True)
    sent = proxy.upstream.requests[-1]
    is_prompted = "prompt_callback" in request.node.name
    assert ("tools" in sent) != is_prompted
    assert ("weather" in json.dumps(sent["messages"])) == is_prompted


def test_requests_without_tools_pass_unchanged(proxy: Proxy) -> None:
    data = json.loads(proxy.post("openai-chat", stream=False, tools=None))
    assert "<tool_call>" in data["choices"][0]["message"]["content"]
