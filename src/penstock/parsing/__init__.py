"""Text in, events out: the engine that every format of calls runs on."""

from penstock.parsing.bodies.elements import ElementCallReader, ElementCalls
from penstock.parsing.bodies.json_calls import JSONCallReader
from penstock.parsing.parser import MAX_CALL, MAX_READ_AGAIN, OnError, Parser, Segment, Syntax

__all__ = [
    "MAX_CALL",
    "MAX_READ_AGAIN",
    "ElementCallReader",
    "ElementCalls",
    "JSONCallReader",
    "OnError",
    "Parser",
    "Segment",
    "Syntax",
]
