"""Figures for Prometheus: counted at the end of each answer, never in the middle of one."""

from __future__ import annotations

import os
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from penstock.store import StoreHealth

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names where workers put their figures together."""

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """All figures of one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "penstock_requests", "Requests answered.",
            ["api", "upstream", "status"], registry=registry,
        )  # fmt: skip
        self.streams = Gauge(
            "penstock_streams_open", "Answers on their way.",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self.chunks = Counter(
            "penstock_chunks", "Pieces received from upstreams.", ["upstream"], registry=registry
        )
        self.first_token = Histogram(
            "penstock_first_token_seconds", "Time to the first token.", ["upstream"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.duration = Histogram(
            "penstock_request_seconds", "Time for a whole answer.", ["api", "upstream"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.calls = Counter(
            "penstock_calls", "Tool calls, by the format they were written in.",
            ["format", "complete"], registry=registry,
        )  # fmt: skip
        self.repairs = Counter(
            "penstock_repairs", "Calls that had to be mended.", registry=registry
        )
        self.errors = Counter(
            "penstock_errors", "Answers that failed.", ["kind"], registry=registry
        )
        self.skipped = Counter(
            "penstock_skipped_frames", "Frames of upstreams that could not be read.",
            ["upstream"], registry=registry,
        )  # fmt: skip
        self.tokens = Counter(
            "penstock_tokens", "Tokens, as upstreams count them.", ["upstream", "direction"],
            registry=registry,
        )  # fmt: skip
        self.refusals = Counter(
            "penstock_refusals", "Requests that were turned away.", ["status"], registry=registry
        )

        self._log = _LogFigures(registry)

    def note_log(self, health: StoreHealth) -> None:
        """Note how the log is doing."""
        self._log.note(health)

    def page(self) -> bytes:
        """Write all figures: of this process, or of all workers together."""
        if DIRECTORY not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class _LogFigures:
    """What the store says of itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queue = Gauge(
            "penstock_log_queue", "Records that wait to be written.",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self._is_up = Gauge(
            "penstock_log_up", "Whether the log can be written.",
            registry=registry, multiprocess_mode="livemin",
        )  # fmt: skip
        self._written = Counter("penstock_log_written", "Records written.", registry=registry)
        self._dropped = Counter(
            "penstock_log_dropped", "Records that found no room.", registry=registry
        )
        self._seen = (0, 0)

    def note(self, health: StoreHealth) -> None:
        written, dropped = self._seen
        self._seen = (health.written, health.dropped)
        self._queue.set(health.queued)
        self._is_up.set(float(health.is_up))
        self._written.inc(max(0, health.written - written))
        self._dropped.inc(max(0, health.dropped - dropped))
