"""A stage and one upstream for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.serving import Actor, Stage
from penstock.store import writer

# Hundreds of tests read the log after a request. A quarter of a second each, for a batch that
# nothing else joins, would be a minute of the run.
pytest.MonkeyPatch().setattr(writer, "BATCH_SECONDS", 0.02)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def actor(stage: Stage) -> Actor:
    """An upstream that speaks OpenAI Chat."""
    return stage.actor("openai-chat")
