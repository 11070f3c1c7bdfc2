"""Anthropic's Messages API, as its server and compatible servers implement it."""

from __future__ import annotations

from typing import Final

from penstock.apis import Api
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.decode import Decoder, read_response
from penstock.apis.anthropic.encode import Encoder, write_response
from penstock.apis.anthropic.read_request import read_request
from penstock.apis.anthropic.write_request import omitted_fields, write_request
from penstock.conformance.anthropic import check

__all__ = ["API"]


class Anthropic:
    """``POST /v1/messages``, and the same body to ``/v1/messages/count_tokens``."""

    name = tables.NAME
    decoder = Decoder
    encoder = Encoder
    read_request = staticmethod(read_request)
    write_request = staticmethod(write_request)
    omitted_fields = staticmethod(omitted_fields)
    read_response = staticmethod(read_response)
    write_response = staticmethod(write_response)
    read_error = staticmethod(tables.read_error_body)
    write_error = staticmethod(tables.write_error_body)
    check = staticmethod(check)


API: Final[Api] = Anthropic()
