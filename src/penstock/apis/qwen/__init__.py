"""The web API of chat.qwen.ai: a chat with phases, whose history is the server's."""

from __future__ import annotations

from typing import Final

from penstock.apis.base import Api
from penstock.apis.qwen import tables
from penstock.apis.qwen.request import left_out, read_request, write_request
from penstock.apis.qwen.response import read_response, write_response
from penstock.apis.qwen.stream import Decoder, Encoder
from penstock.conformance.qwen import check

__all__ = ["API"]


class Qwen:
    """``POST /api/v2/chat/completions`` of chat.qwen.ai."""

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


API: Final[Api] = Qwen()
