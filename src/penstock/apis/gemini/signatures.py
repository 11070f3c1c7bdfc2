"""Signatures of parts: base64 on the wire, whatever they are to us.

The API's clients read a signature as base64 and break on anything else; on its way back they spell
it in the alphabet for URLs. So a signature of another provider that is no base64 goes out sealed,
as base64 of its text behind a mark, and what comes back is spelled as it went out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from typing import Final

_MARK: Final = b"penstock:"
_SEAL: Final = b64encode(_MARK).decode()  # nine bytes, so that nothing hangs over
_STANDARD: Final = str.maketrans("-_", "+/")

UNCHECKED: Final = "skip_thought_signature_validator"
"""What stands for the signature of a call that the model did not make: the API knows the word."""


def sealed(signature: str) -> str:
    """Give *signature* as base64: as it is if it is that and has no seal yet, else sealed."""
    if is_base64(signature) and not signature.startswith(_SEAL):
        return signature
    return _SEAL + b64encode(signature.encode("utf-8", "replace")).decode()


def unsealed(signature: str) -> str:
    """Give what was sealed in *signature*, or else *signature* as it is."""
    if not signature.startswith(_SEAL):
        return signature
    try:
        return _bytes_of(signature)[len(_MARK) :].decode()
    except ValueError:
        return signature


def returned(signature: str) -> str:
    """Give the signature that a client sends back, in the alphabet in which it was sent."""
    if signature == UNCHECKED:
        return ""
    padded = standard(signature) + "=" * (-len(signature) % 4)
    return unsealed(padded if is_base64(padded) else signature)


def standard(base64: str) -> str:
    """Give *base64* in the standard's alphabet: the client's own for bytes is that for URLs."""
    return base64.translate(_STANDARD)


def is_base64(signature: object) -> bool:
    """Tell whether *signature* is base64 that every reader takes."""
    if not isinstance(signature, str):
        return False
    try:
        return b64encode(_bytes_of(signature)).decode() == signature
    except ValueError:
        return False


def _bytes_of(signature: str) -> bytes:
    try:
        return b64decode(signature, validate=True)
    except Error as exc:
        raise ValueError(str(exc)) from exc
