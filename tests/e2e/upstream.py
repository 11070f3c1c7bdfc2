"""The server as a process of ours: started, asked over HTTP, and ended again."""

from __future__ import annotations

import http.client
import json
import os
import select
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from penstock.framing import sse

START_SECONDS = 300
ANSWER_SECONDS = 300
_READ = 4096


class Upstream:
    """A server with a model; use it in a `with` statement."""

    def __enter__(self) -> Self:
        told, telling = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py"), str(telling)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[telling],
        )
        os.close(telling)
        self._log: deque[bytes] = deque(maxlen=20)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self._address = _read_all(told, START_SECONDS)
        if not self._address:
            self.__exit__()
            log = b"".join(self._log).decode(errors="replace")
            raise RuntimeError(f"the server did not start:\n{log}")
        return self

    def __exit__(self, *_: object) -> None:
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)

    @property
    def address(self) -> str:
        """Where the server listens, such as ``http://127.0.0.1:8080``."""
        return self._address

    def complete(self, prompt: str, grammar: str, tokens: int) -> Iterator[str]:
        """Give the text of each token of an answer, as the server sends it."""
        request = {
            "prompt": prompt,
            "grammar": grammar,
            "stream": True,
            "n_predict": tokens,
            "temperature": 0.2,
            "seed": 7,
            "cache_prompt": True,
        }
        where = urlsplit(self._address)
        connection = http.client.HTTPConnection(
            where.hostname or "", where.port, timeout=ANSWER_SECONDS
        )
        try:
            body = json.dumps(request)
            connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"{answer.status}: {answer.read(999)!r}")
            yield from _tokens(answer)
        finally:
            connection.close()

    def _read_log(self) -> None:
        self._log.extend(self._process.stdout or ())


def _read_all(pipe: int, seconds: float) -> str:
    """Give what is written to *pipe* until it is closed; nothing if that takes too long."""
    with os.fdopen(pipe) as told:
        is_ready, _, _ = select.select([told], [], [], seconds)
        return told.read() if is_ready else ""


def _tokens(answer: http.client.HTTPResponse) -> Iterator[str]:
    decoder = sse.Decoder()
    while data := answer.read1(_READ):
        for frame in decoder.feed(data):
            chunk: dict[str, Any] = json.loads(frame.data)
            if "error" in chunk:
                raise RuntimeError(str(chunk["error"]))
            yield chunk["content"]
