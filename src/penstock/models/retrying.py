"""Whose retries count: a model as one that tries once, for who tries again by themselves.

An agent asks for a whole answer again, tells everybody of it, and knows whether a tool has run for
the answer that failed. A model that tried again below it would multiply the tries and hide them.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.models.base import Model


def without_retries(model: Model) -> Model:
    """Give a twin of *model* that tries once and shares its connections.

    A model says how with a method `without_retries` of its own; any other is given back as it is.
    Close the model, not the twin.
    """
    own: Callable[[], Model] | None = getattr(model, "without_retries", None)
    return model if own is None else own()
