"""The same events in the vocabularies of other clients.

A view is imported on first use: segments import every format that they read.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.views import ai_sdk, segments

__all__ = ["ai_sdk", "segments"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock.views' has no attribute {name!r}")
    return import_module(f"penstock.views.{name}")
