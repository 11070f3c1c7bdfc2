"""``penstock serve`` as people start it: a process, its flags, its announcement, its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from gateway.serving import DEADLINE, until
from penstock.cli import describe_install, serve
from penstock.config.flags import FLAGS

COMMAND = [sys.executable, "-m", "penstock", "serve"]


def environ(**more: str) -> dict[str, str]:
    """Return the environment without the variables of penstock, and without discovery."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**kept, "PENSTOCK_NO_DISCOVER": "1", **more}


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in a folder of its own, without variables that somebody has set."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("PENSTOCK_"):
            monkeypatch.delenv(name)


def code_of(*args: str) -> object:
    """Run the command in this process; give the exit code that it ends with."""
    with pytest.raises(SystemExit) as ended:
        serve.command([*args])
    return ended.value.code


class Process:
    """The command as it serves; `lines` is what it said on stderr."""

    def __init__(self, folder: Path, *args: str, **variables: str) -> None:
        self.child = subprocess.Popen(  # noqa: S603 - it is ours
            [*COMMAND, *args], cwd=folder, text=True, stderr=subprocess.PIPE,
            env=environ(XDG_STATE_HOME=str(folder / "state"), **variables),
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stderr is not None
        self.lines.extend(iter(self.child.stderr.readline, ""))

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def url(self) -> str:
        """Where it says that it serves."""
        until(lambda: "Ctrl-C" in self.text or self.child.poll() is not None)
        found = re.search(r"^penstock serves (http://127\.0\.0\.1:\d+)$", self.text, re.MULTILINE)
        assert found, self.text
        return found[1]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell it to end, once; give its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(number)
        code = self.child.wait(DEADLINE)
        self._reader.join(DEADLINE)
        assert self.child.stderr is not None
        self.child.stderr.close()
        return code


@contextmanager
def process(folder: Path, *args: str, **variables: str) -> Iterator[Process]:
    running = Process(folder, *args, **variables)
    try:
        yield running
    finally:
        running.end()


def asked(url: str, path: str, body: str | None = None) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE)
    try:
        connection.request("POST" if body else "GET", path, body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


# --- flags ---


def test_help_shows_every_flag_and_where_variables_are_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert code_of("--help") == 0
    shown = capsys.readouterr().out
    for flag in FLAGS:
        assert re.search(rf"^  {flag.name}\b", shown, re.MULTILINE), flag.name
        assert flag.description in shown
    assert "PENSTOCK_PORT" in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--prot", "1"], "--prot"),
        (["--port", "many"], "--port: expected a whole number from 0 to 65535, got 'many'"),
        (["--upstream", "ftp://x"], "--upstream: expected an http"),
        (["--format", "hermez"], "did you mean 'hermes'?"),
        (["--config", "absent.toml"], "absent.toml: No such file"),
        (["--host", "0.0.0.0"], "key"),  # noqa: S104 - which is what is refused
    ],
)
def test_what_cannot_be_served_ends_with_exit_code_2_and_a_clear_line(
    capsys: pytest.CaptureFixture[str], args: list[str], why: str
) -> None:
    assert code_of(*args) == 2
    assert why in capsys.readouterr().err


def test_a_bad_file_is_told_with_every_problem_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "penstock.toml").write_text("[server]\nport = 'x'\n[store]\nkeep_days = 'long'")
    assert code_of() == 2
    told = capsys.readouterr().err
    assert "server.port" in told
    assert "store.keep_days" in told


# --- as it serves ---


def test_the_line_that_it_prints_works_and_a_signal_ends_it_well(tmp_path: Path) -> None:
    with process(tmp_path, PENSTOCK_PORT="0") as running:
        url = running.url
        line = next(line for line in running.lines if "curl" in line)
        found = re.search(r"curl -N (\S+) -d '(.*)'$", line.strip())
        assert found
        assert found[1] == f"{url}/v1/chat/completions"
        assert json.loads(found[2])["stream"] is True
        status, body = asked(url, "/v1/chat/completions", found[2])
        assert status == 200
        assert '"tool_calls"' in body
        assert "get_weather" in body
        assert body.endswith("data: [DONE]\n\n")
        assert asked(url, "/health/ready")[0] == 200
        assert running.end() == 0
    assert (tmp_path / "state" / "penstock" / "penstock.db").exists()
    assert "Traceback" not in running.text
    assert re.search(
        r" INFO POST /v1/chat/completions demo → demo 200, 1 call: get_weather, \d+\.\d\d s$",
        running.text,
        re.MULTILINE,
    )


def test_an_interrupt_ends_it_well_and_others_find_the_port_taken(tmp_path: Path) -> None:
    with process(tmp_path, "--port", "0", "--no-store") as running:
        port = str(urlsplit(running.url).port)
        assert "storage      off" in running.text
        with (
            process(tmp_path, "--port", port, "--no-store") as second,
            process(tmp_path, "--port", port, "--no-store", "--workers", "2") as third,
        ):
            for one in (second, third):
                assert one.child.wait(DEADLINE) == serve.USAGE
        for one in (second, third):
            assert one.text == (
                f"penstock: cannot listen on 127.0.0.1:{port}: the port is in use; "
                "choose another with --port, or --port 0 for a free one\n"
            )
        assert running.end(signal.SIGINT) == 0
    assert not [*tmp_path.iterdir()]


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert code_of() == 2
    message = "penstock: `penstock serve` needs uvicorn, which is not installed: "
    assert capsys.readouterr().err == f"{message}{describe_install('cli,server')}\n"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--quiet"], r"penstock serves http://127.0.0.1:\d+\n$"),
        (["--log-format", "json"], r'\{"time":".*","message":"penstock serves http:.*"\}\n$'),
    ],
)
def test_a_quiet_gateway_and_one_that_logs_json_print_no_banner(
    tmp_path: Path, flags: list[str], expected: str
) -> None:
    with process(tmp_path, "--port", "0", "--no-store", *flags) as running:
        until(lambda: "penstock serves" in running.text)
        assert re.match(expected, running.text)
        found = re.search(r"http://127\.0\.0\.1:\d+", running.text)
        assert found
        body = '{"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}'
        assert asked(found[0], "/v1/chat/completions", body)[0] == 200
        assert asked(found[0], "/v1/chat/completion", body)[0] == 404
        until(lambda: "unknown path" in running.text)
    if "--quiet" in flags:
        assert " 200, " not in running.text
        assert " WARNING POST /v1/chat/completion 404, unknown path" in running.text
    else:
        lines = [json.loads(line) for line in running.lines]
        served = next(line for line in lines if line.get("status") == 200)
        assert (served["method"], served["model"], served["upstream"]) == ("POST", "demo", "demo")
        assert next(line for line in lines if line.get("status") == 404)["level"] == "warning"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_while_it_still_begins_ends_it_without_a_word(
    tmp_path: Path, number: int, code: int
) -> None:
    file = tmp_path / "penstock.toml"
    os.mkfifo(file)  # so that it is still reading the configuration when the signal comes
    begun = Process(tmp_path, "--config", str(file), "--port", "0", "--no-store")
    written = -1

    def is_reading() -> bool:
        nonlocal written
        try:
            written = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return begun.child.poll() is not None
        return True

    try:
        until(is_reading)
        begun.child.send_signal(number)
        # A signal that comes just before it reads is heeded when it has read: let it.
        os.close(written)
        written = -1
        assert begun.child.wait(30) == code
        assert begun.text == ""
    finally:
        begun.end()
        if written != -1:
            os.close(written)
