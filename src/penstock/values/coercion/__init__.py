"""Values made what their schema wants."""

from penstock.values.coercion.fitting import coerce

__all__ = ["coerce"]
