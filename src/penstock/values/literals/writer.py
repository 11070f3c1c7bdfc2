"""Values as Python literals: JSON text with Python's words in it.

A string of JSON is one of Python too, escapes included, so what is written reads back equal in
either language but for three words.
"""

from __future__ import annotations

import re
from typing import Final

from penstock import _json

_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"|true|false|null|[,:]')
_PYTHON: Final = {"true": "True", "false": "False", "null": "None", ",": ", ", ":": ": "}
_JSON: Final = {",": ", ", ":": ": "}


def dumps(value: object, *, json_words: bool = False) -> str:
    """Write a JSON value as a literal; with *json_words* ``true`` stays what JSON calls it.

    Raises `UsageError` for what JSON has no word for.
    """
    words = _JSON if json_words else _PYTHON
    text = _json.encode_strict(value).decode()
    return _TOKEN.sub(lambda token: words.get(token[0], token[0]), text)
