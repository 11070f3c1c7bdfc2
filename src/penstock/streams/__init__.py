"""Events in progress to consumers: merged, paced, bounded, and always with an end.

Here penstock begins to wait: everything below is sans-IO, this room and those above run on asyncio.
`EventStream` is between a source of events and those who read them. What it decides without
waiting is in files of its own (`merging`, `record`, `failures`, `outlet`); `pump` is the one task
that reads a source, `stream` what a consumer holds, and `sync` the same for scripts.
"""

from penstock.streams.pump import INTERVAL, MAX_PENDING
from penstock.streams.stream import EventStream
from penstock.streams.sync import SyncStream

__all__ = ["INTERVAL", "MAX_PENDING", "EventStream", "SyncStream"]
