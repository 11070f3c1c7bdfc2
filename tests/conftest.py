"""Settings of the whole suite: async tests, hypothesis, `--quick` and `--merge-cases`."""

from __future__ import annotations

import gc
import math
import os
import re
import signal
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from laws import effort
from merged_cases import merge

pytest_plugins = ["async_runner"]

# Collection makes a million objects that live as long as the run. Looking for garbage among them
# took 10 of the 15 seconds that each process needs to collect the suite.
gc.disable()

QUICK_EXAMPLES = 3
QUICK_CASES = 10

OUTSIDE = re.compile(
    r"^(?:from|import) (?:subprocess|pexpect|mcp|sqlalchemy|uvicorn|apis\.loopback|cli\."
    r"|(?:openai|anthropic|google|litellm|fastapi|starlette|pyarrow)\b"
    r"|agent\.(?:scenes|workspace)|gateway\.|models\.(?:\w*server\w*|fake_upstream)|store\.)"
    r"|pytest\.importorskip\(\"(?:openai|anthropic|google)\b",
    re.MULTILINE,
)
"""Imports of a test module that starts servers, databases or processes, or of large packages."""

# Hypothesis tries new examples on a developer's machine, and the same ones in every run of CI.
settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=30,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("penstock")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quick` and `--merge-cases`."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="no servers, databases or processes; some cases, cuts and examples of each test",
    )
    parser.addoption(
        "--merge-cases",
        action="store_true",
        help="run the cases of a test in batches: faster, but one cannot be selected",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell the laws how hard to try, and keep state out of the home directory."""
    effort.quick = config.getoption("--quick")
    # A shell that runs the suite in the background ignores Ctrl-C, and so would the processes that
    # tests start and end with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    state = TemporaryDirectory(prefix="penstock-state-")
    config.add_cleanup(state.cleanup)
    os.environ["XDG_STATE_HOME"] = state.name


def pytest_collection_finish() -> None:
    """Collect garbage again, but never among the tests and the modules that they import."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip modules that need more than this process, if *config* says to be quick."""
    is_test = collection_path.name.startswith("test_")
    if config.getoption("--quick") and is_test and OUTSIDE.search(collection_path.read_text()):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class,
) -> Generator[None, Any, Any]:
    """Select and merge the cases of a test."""
    found = yield
    if not isinstance(found, list) or not found or not isinstance(found[0], pytest.Function):
        return found
    if collector.config.getoption("--quick"):
        found = _spread(found)
        _try_few_examples(found[0].obj)
    return list(merge(found)) if collector.config.getoption("--merge-cases") else found


def _spread(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return some of *cases*, others for each test, so that each format is tried somewhere.

    Every second case of a vector is kept: where a test has two modes, each vector in one of them.
    """
    is_vector = hasattr(cases[0], "callspec") and "vector" in cases[0].callspec.params
    step = 2 if is_vector else math.ceil(len(cases) / QUICK_CASES)
    return cases[crc32(cases[0].originalname.encode()) % step :: step] or cases


def _try_few_examples(test: object) -> None:
    if hasattr(test, "hypothesis"):
        name = "_hypothesis_internal_use_settings"  # An explicit number of examples is kept here.
        own = getattr(test, name, settings())
        few = settings(own, max_examples=QUICK_EXAMPLES, derandomize=True, database=None)
        setattr(test, name, few)
