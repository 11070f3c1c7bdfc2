"""Hypothesis explores on a developer's machine and repeats itself in CI, where a red run blocks."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=40,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("penstock")
