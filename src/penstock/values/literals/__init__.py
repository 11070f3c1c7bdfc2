"""Python literals: read as they arrive, and written."""

from penstock.values.literals.gaps import Gap
from penstock.values.literals.quoting import MORE, Quoting
from penstock.values.literals.reader import LiteralReader
from penstock.values.literals.writer import dumps

__all__ = ["MORE", "Gap", "LiteralReader", "Quoting", "dumps"]
