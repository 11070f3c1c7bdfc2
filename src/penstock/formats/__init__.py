"""The wire formats of calls: how a model is told to call, how its calls are read and replayed."""

from penstock.formats.base import CallStyle, Format, Placement, Template, TextParser
from penstock.formats.json_tags import JSONCalls, json_mix
from penstock.formats.registry import (
    AnyFormat,
    FormatLike,
    get,
    names,
    register,
    unregister,
)

__all__ = [
    "AnyFormat",
    "CallStyle",
    "Format",
    "FormatLike",
    "JSONCalls",
    "Placement",
    "Template",
    "TextParser",
    "get",
    "json_mix",
    "names",
    "register",
    "unregister",
]
