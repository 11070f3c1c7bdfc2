"""Calls whose parameters stand between tags as raw text: one reader, many dialects."""

from penstock.parsing.bodies.parameters.dialects import Dialect
from penstock.parsing.bodies.parameters.reader import ParameterCallReader
from penstock.parsing.bodies.parameters.tags import Spelling

__all__ = ["Dialect", "ParameterCallReader", "Spelling"]
