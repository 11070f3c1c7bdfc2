"""JSON that is read as it arrives."""

from penstock.values.incremental.draft import Change, Watch
from penstock.values.incremental.reader import IncrementalJSON

__all__ = ["Change", "IncrementalJSON", "Watch"]
