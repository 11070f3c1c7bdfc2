"""Grammars that make a model write valid calls, from the same data that calls are read with."""

from penstock.formats.grammar.gbnf import Count, write_gbnf
from penstock.formats.grammar.outline import (
    ANY,
    PLACE,
    Arguments,
    Keywords,
    Outline,
    ParameterOutline,
    Slot,
    around,
    check_names,
    outline_of,
    slot_of,
)
from penstock.formats.grammar.structural_tag import write_structural_tag

__all__ = [
    "ANY",
    "PLACE",
    "Arguments",
    "Count",
    "Keywords",
    "Outline",
    "ParameterOutline",
    "Slot",
    "around",
    "check_names",
    "outline_of",
    "slot_of",
    "write_gbnf",
    "write_structural_tag",
]
