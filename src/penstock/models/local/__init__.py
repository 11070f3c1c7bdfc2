"""A real model in the process, from wheels alone."""

from penstock.models.local.engine import Engine, Piece
from penstock.models.local.model import LocalModel

__all__ = ["Engine", "LocalModel", "Piece"]
