"""Robust XML: the elements that models write for arguments, read by a schema and written back."""

from penstock.values.rxml.reader import loads
from penstock.values.rxml.writer import dumps

__all__ = ["dumps", "loads"]
