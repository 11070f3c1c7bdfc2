"""The same events in other vocabularies, for clients that speak one already."""

from penstock.views import ai_sdk

__all__ = ["ai_sdk"]
