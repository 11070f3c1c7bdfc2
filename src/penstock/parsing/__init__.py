"""Text in, events out: the engine that every format of calls runs on."""

from penstock.parsing.body import BodyReader, Channel, OpenString, Reasoning, Syntax, Verdict
from penstock.parsing.call_sink import QUOTED_FROM, CallSink, NoCallError, RepairedCall
from penstock.parsing.engine import (
    MAX_CALL,
    MAX_READ_AGAIN,
    ONE_TOO_MANY,
    Arguments,
    Engine,
    Schemas,
)
from penstock.parsing.quotations import FencedCalls, QuotedCalls, Untrusted
from penstock.parsing.scanner import Scanner
from penstock.parsing.state import BrokenCall, OnError

__all__ = [
    "MAX_CALL",
    "MAX_READ_AGAIN",
    "ONE_TOO_MANY",
    "QUOTED_FROM",
    "Arguments",
    "BodyReader",
    "BrokenCall",
    "CallSink",
    "Channel",
    "Engine",
    "FencedCalls",
    "NoCallError",
    "OnError",
    "OpenString",
    "QuotedCalls",
    "Reasoning",
    "RepairedCall",
    "Scanner",
    "Schemas",
    "Syntax",
    "Untrusted",
    "Verdict",
]
