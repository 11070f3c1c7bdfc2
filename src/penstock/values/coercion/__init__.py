"""Values made what their schema wants."""

from penstock.values.coercion.fitting import coerce, describe_change

__all__ = ["coerce", "describe_change"]
