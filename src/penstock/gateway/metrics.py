"""Prometheus metrics, which are updated when a response starts or ends and never within one."""

from __future__ import annotations

import os
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from penstock.store import StoreHealth

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which workers share their metrics."""

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


_REPAIR_KINDS: Final = (
    ("requested again with the tools in the prompt", "fallback"),
    ("dropped the second copy", "twin"),
    ("ended as length", "length"),
    ("split from", "glued"),
    ("dropped an empty object", "glued"),
    ("taken out of the reasoning", "reasoning"),
    ("renamed", "name"),
    ("coerced", "value"),
    ("decoded arguments", "value"),
)
"""How the descriptions of repairs begin, and their kinds."""


def find_repair_kind(repair: str) -> str:
    """Return the kind of a repair for the metrics; those of a call's text are `syntax`."""
    return next((kind for start, kind in _REPAIR_KINDS if repair.startswith(start)), "syntax")


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "penstock_requests", "Completed requests.",
            ["api", "upstream", "status"], registry=registry,
        )  # fmt: skip
        self.streams = Gauge(
            "penstock_streams_open", "Responses in progress.",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self.chunks = Counter(
            "penstock_chunks", "Chunks received from upstreams.", ["upstream"], registry=registry
        )
        self.first_token = Histogram(
            "penstock_first_token_seconds", "Time to the first token.", ["upstream"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.duration = Histogram(
            "penstock_request_seconds", "Time to the end of a response.", ["api", "upstream"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.calls = Counter(
            "penstock_calls", "Tool calls, by the format they were written in.",
            ["format", "complete"], registry=registry,
        )  # fmt: skip
        self.repairs = Counter(
            "penstock_repairs", "Repairs of calls and responses, by kind.", ["kind"],
            registry=registry,
        )  # fmt: skip
        self.errors = Counter("penstock_errors", "Failed responses.", ["kind"], registry=registry)
        self.skipped = Counter(
            "penstock_skipped_frames", "Unreadable frames and fields of upstreams.",
            ["upstream"], registry=registry,
        )  # fmt: skip
        self.tokens = Counter(
            "penstock_tokens", "Tokens as counted by upstreams.", ["upstream", "direction"],
            registry=registry,
        )  # fmt: skip
        self.rejections = Counter(
            # prometheus_client adds `_total` to the name of a counter.
            "penstock_rejections",
            "Requests rejected by the gateway.",
            ["status"],
            registry=registry,
        )
        self.shared_quotas = Gauge(
            "penstock_quotas_shared", "1 if quotas are shared and their database responds.",
            registry=registry, multiprocess_mode="livemin",
        )  # fmt: skip
        self._log = _LogMetrics(registry)

    def update_log(self, health: StoreHealth) -> None:
        """Update the metrics of the log."""
        self._log.update(health)

    def page(self) -> bytes:
        """Return all metrics as text: of this process, or of all workers together."""
        if DIRECTORY not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class _LogMetrics:
    """The metrics of the store."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queue = Gauge(
            "penstock_log_queue", "Records waiting to be written.",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip
        self._is_up = Gauge(
            "penstock_log_up", "1 if the log can be written.",
            registry=registry, multiprocess_mode="livemin",
        )  # fmt: skip
        self._written = Counter("penstock_log_written", "Records written.", registry=registry)
        self._dropped = Counter(
            "penstock_log_dropped", "Records dropped because the queue was full.", registry=registry
        )
        self._seen = (0, 0)

    def update(self, health: StoreHealth) -> None:
        written, dropped = self._seen
        self._seen = (health.written, health.dropped)
        self._queue.set(health.queued)
        self._is_up.set(float(health.is_up))
        self._written.inc(max(0, health.written - written))
        self._dropped.inc(max(0, health.dropped - dropped))
