"""A scripted model that needs no network: for tests, for documentation, for a first try."""

from penstock.models.demo.model import NAME, DemoModel

__all__ = ["NAME", "DemoModel"]
