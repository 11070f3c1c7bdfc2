"""Bytes to frames and back: server-sent events, NDJSON and streamed JSON arrays."""
