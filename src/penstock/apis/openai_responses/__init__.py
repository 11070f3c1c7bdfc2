"""OpenAI's Responses API, and what other servers that speak it make of it."""

from __future__ import annotations

from typing import Final

from penstock.apis.base import Api
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.decode import Decoder
from penstock.apis.openai_responses.encode import Encoder
from penstock.apis.openai_responses.read_request import read_request
from penstock.apis.openai_responses.response import read_response, write_response
from penstock.apis.openai_responses.write_request import left_out, write_request
from penstock.conformance.openai_responses import check

__all__ = ["API"]


class OpenAIResponses:
    """``POST /v1/responses``."""

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


API: Final[Api] = OpenAIResponses()
