"""Text in, events out: the engine that every format of calls runs on."""

from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.code_spans import FencedCalls
from penstock.parsing.engine import MAX_CALL, MAX_READ_AGAIN, Arguments, Engine
from penstock.parsing.errors import BrokenCall, OnError
from penstock.parsing.marker_state import Syntax
from penstock.parsing.quotations import QuotedCalls, Untrusted
from penstock.parsing.readers.base import BodyReader, OpenString, Verdict
from penstock.parsing.readers.elements import ElementCallReader, ElementCalls
from penstock.parsing.readers.json_calls import JSONCallReader
from penstock.parsing.reasoning import Channel, Reasoning
from penstock.parsing.scanner import Scanner

__all__ = [
    "MAX_CALL",
    "MAX_READ_AGAIN",
    "Arguments",
    "BodyReader",
    "BrokenCall",
    "CallSink",
    "Channel",
    "ElementCallReader",
    "ElementCalls",
    "Engine",
    "FencedCalls",
    "JSONCallReader",
    "NoCallError",
    "OnError",
    "OpenString",
    "QuotedCalls",
    "Reasoning",
    "RepairedCall",
    "Scanner",
    "Syntax",
    "Untrusted",
    "Verdict",
]
