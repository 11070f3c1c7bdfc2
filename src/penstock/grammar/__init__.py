"""Grammars for constrained decoding, generated from the data that calls are parsed with."""

from penstock.grammar.gbnf import Count, write_gbnf, write_structural_tag
from penstock.grammar.outline import (
    ANY,
    PLACE,
    Arguments,
    Keywords,
    Outline,
    ParameterOutline,
    Slot,
    check_names,
    json_outline,
    make_slot,
    split_around,
)

__all__ = [
    "ANY",
    "PLACE",
    "Arguments",
    "Count",
    "Keywords",
    "Outline",
    "ParameterOutline",
    "Slot",
    "check_names",
    "json_outline",
    "make_slot",
    "split_around",
    "write_gbnf",
    "write_structural_tag",
]
