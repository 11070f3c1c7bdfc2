"""Google's Gemini API: `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

from typing import Final

from penstock.apis import Api
from penstock.apis.gemini import tables
from penstock.apis.gemini.decode import Decoder, read_response
from penstock.apis.gemini.encode import Encoder, write_response
from penstock.apis.gemini.read_request import read_request
from penstock.apis.gemini.write_request import omitted_fields, write_request
from penstock.conformance.gemini import check

__all__ = ["API"]


class Gemini:
    """``POST /v1beta/models/{model}:streamGenerateContent``."""

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


API: Final[Api] = Gemini()
