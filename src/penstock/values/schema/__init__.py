"""JSON Schema as coercion and parsing ask about it."""

from penstock.values.schema.schema import Schema

__all__ = ["Schema"]
