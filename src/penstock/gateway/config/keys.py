"""Keys of clients: how one is made, and what the file keeps of it.

The file has the SHA-256 of a key, never the key. A plain hash is enough where the key is 32 random
bytes: nobody finds them by trying, so nothing slow or salted is needed on every request.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

PREFIX: Final = "psk_"
"""How a key of penstock begins: people and scanners of secrets know it by that."""

KEY_BYTES: Final = 32
"""How many random bytes a key has."""

LEAST_LENGTH: Final = 16
"""How long a key has to be that somebody thought of: shorter ones are found by trying."""

_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


def new_key() -> str:
    """Make a key."""
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def hash_key(key: str) -> str:
    """Give what the file keeps of *key*: ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def is_hash(text: str) -> bool:
    """Tell whether *text* is what `hash_key` gives."""
    return _HASH.fullmatch(text) is not None
