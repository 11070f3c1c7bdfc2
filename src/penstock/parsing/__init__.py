"""Text in, events out: the engine that every format of calls runs on."""

from penstock.parsing.bodies.base import Body, NoCallError, Run, Verdict
from penstock.parsing.bodies.elements import ElementCallReader, ElementCalls
from penstock.parsing.bodies.json_calls import JSONCallReader
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.code_spans import FencedCalls
from penstock.parsing.lookout import Syntax
from penstock.parsing.machine import (
    MAX_CALL,
    MAX_READ_AGAIN,
    Arguments,
    Machine,
)
from penstock.parsing.quotations import QuotedCalls, Untrusted
from penstock.parsing.reasoning import Channel, Reasoning
from penstock.parsing.refusals import OnError, Segment
from penstock.parsing.scanner import Scanner

__all__ = [
    "MAX_CALL",
    "MAX_READ_AGAIN",
    "Arguments",
    "Body",
    "Calls",
    "Channel",
    "ElementCallReader",
    "ElementCalls",
    "FencedCalls",
    "JSONCallReader",
    "Machine",
    "Mended",
    "NoCallError",
    "OnError",
    "QuotedCalls",
    "Reasoning",
    "Run",
    "Scanner",
    "Segment",
    "Syntax",
    "Untrusted",
    "Verdict",
]
