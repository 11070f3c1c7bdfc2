"""Models: over HTTP, scripted, local, and with tools for those that have none of their own."""

from penstock.models.base import Model

__all__ = ["Model"]
