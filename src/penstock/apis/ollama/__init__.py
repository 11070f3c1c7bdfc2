"""Ollama's own chat API: lines of JSON."""

from __future__ import annotations

from typing import Final

from penstock.apis.base import Api
from penstock.apis.ollama import tables
from penstock.apis.ollama.request import left_out, read_request, write_request
from penstock.apis.ollama.response import read_response, write_response
from penstock.apis.ollama.stream import Decoder, Encoder
from penstock.conformance.ollama import check

__all__ = ["API"]


class Ollama:
    """``POST /api/chat``."""

    name = tables.NAME
    decoder = Decoder
    encoder = Encoder
    read_request = staticmethod(read_request)
    write_request = staticmethod(write_request)
    left_out = staticmethod(left_out)
    read_response = staticmethod(read_response)
    write_response = staticmethod(write_response)
    read_error = staticmethod(tables.read_error_response)
    write_error = staticmethod(tables.write_error_response)
    check = staticmethod(check)


API: Final[Api] = Ollama()
