"""The gateway as a process of ours: started on a free port, its log read, and ended again.

Who runs it has no say in it: no variable of penstock reaches it, and no proxy stands in its way.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

START_SECONDS: Final = 60
STOP_SECONDS: Final = 30
LOG_SECONDS: Final = 20

_ANNOUNCED: Final = re.compile(r"penstock serves (http://\S+)")
_SETTINGS: Final = """\
[server]
port = 0

[store]
url = {store}

[upstreams.printing]
base_url = {upstream}
proxy = ""
"""
_WEB: Final = build_opener(ProxyHandler({}))


class Gateway:
    """`penstock serve` in front of *upstream*, its settings and log in *folder*; use it `with`.

    *models* is more of ``penstock.toml``. *store* is the URL of another database for the log.
    """

    def __init__(self, upstream: str, folder: Path, models: str = "", store: str = "") -> None:
        store = store or f"sqlite:///{folder / 'log.db'}"
        settings = _SETTINGS.format(store=json.dumps(store), upstream=json.dumps(upstream))
        self._settings = folder / "penstock.toml"
        self._settings.write_text(settings + models)
        self._said: deque[str] = deque(maxlen=50)
        self._is_told = Event()
        self.address = ""
        """Where it listens, such as ``http://127.0.0.1:8787``."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", "--config", self._settings],
            cwd=self._settings.parent,
            env={name: value for name, value in os.environ.items() if "PENSTOCK" not in name},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listener = Thread(target=self._listen)
        self._listener.start()
        self._is_told.wait(START_SECONDS)
        if not self.address:
            self._stop()
            raise RuntimeError(f"the gateway did not start:\n{self.said}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> None:
        code = self._stop()
        if kind is None and code != 0:
            raise RuntimeError(f"the gateway ended with {code}:\n{self.said}")

    @property
    def said(self) -> str:
        """The last lines that it said on standard error."""
        return "".join(self._said)

    def answered(self, **filters: str) -> list[dict[str, Any]]:
        """Give what the log has by now of the requests that *filters* find, oldest first."""
        page = f"{self.address}/v1/requests?{urlencode(filters)}"
        with _WEB.open(page, timeout=LOG_SECONDS) as answer:
            rows: list[dict[str, Any]] = json.load(answer)["data"]
        return rows[::-1]

    def _listen(self) -> None:
        for line in self._process.stderr or ():
            self._said.append(line)
            if found := _ANNOUNCED.search(line):
                self.address = found[1]
                self._is_told.set()
        self._is_told.set()

    def _stop(self) -> int:
        self._process.terminate()
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._listener.join(STOP_SECONDS)
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code
