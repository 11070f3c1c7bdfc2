"""Work for the worker process, which imports this module."""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.errors import UsageError
from penstock.gateway.errors import HTTPError


def double(number: int) -> int:
    return number * 2


def process_id() -> int:
    return os.getpid()


def hog(started: str) -> None:
    """Write a file, and then never end, as a regular expression can; no signal but KILL helps."""
    Path(started).write_text(str(os.getpid()))
    while True:
        pass


def wait_for(started: str, may_end: str) -> str:
    """Write a file, and wait for another one."""
    Path(started).write_text(str(os.getpid()))
    while not Path(may_end).exists():
        time.sleep(0.005)
    return "done"


def write_file(path: str) -> None:
    Path(path).write_text("written")


def refuse() -> None:
    raise HTTPError(404, "there is nothing")


def misuse() -> None:
    raise UsageError("a wrong option")


def fail() -> None:
    raise ZeroDivisionError("a bug")


def die() -> None:
    os._exit(3)


def make_bytes(size: int) -> bytes:
    return b"x" * size
