"""A stage and one upstream for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.serving import Actor, Stage


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def actor(stage: Stage) -> Actor:
    """An upstream that speaks OpenAI Chat."""
    return stage.actor("openai-chat")
