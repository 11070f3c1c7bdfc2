"""Secrets: creation and hashes of client keys, and secrets from variables and files.

The file contains the SHA-256 of a client's key, never the key. A fast hash without salt is enough:
a key has 32 random bytes, so it cannot be found by trying.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from penstock.config.errors import KeyPath, ProblemList
from penstock.config.settings import NO_KEY, KeySettings, QwenSettings, UpstreamSettings
from penstock.config.types import key_names_for
from penstock.errors import UsageError
from penstock.redaction import Secret

MAX_SECRET: Final = 65_536
"""The largest file with a secret, in bytes: the cookies of an account have some thousands."""

_PREFIX: Final = "psk_"  # people and secret scanners recognise keys by it
_KEY_BYTES: Final = 32
_LEAST_LENGTH: Final = 16  # for keys that people choose: shorter ones can be found by trying
_USUAL_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


def new_key() -> str:
    """Return a new random key for a client."""
    return _PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hash_key(key: str) -> str:
    """Return the hash of *key* for the file: ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def describe_variable(name: str) -> str:
    """Return a variable's name for a message, unless it looks like a misplaced key."""
    return f"the environment variable {name}" if _USUAL_NAME.fullmatch(name) else "the variable"


class SecretResolver:
    """Reads secrets from *environ* and from files; missing ones are added to *problems*."""

    def __init__(self, environ: Mapping[str, str], problems: ProblemList) -> None:
        self._environ = environ
        self._problems = problems

    def resolve_upstream(self, upstream: UpstreamSettings, path: KeyPath) -> UpstreamSettings:
        """Return *upstream* with its secrets, or with its provider's usual key if it names none."""
        changes: dict[str, Any] = {"key": self._resolve(upstream, "key", path)}
        if upstream.qwen is not None:
            names = ("cookie", "umid_token")
            found = {name: self._resolve(upstream.qwen, name, (*path, "qwen")) for name in names}
            changes["qwen"] = structs.replace(upstream.qwen, **found)
        if not (upstream.key_env or upstream.key_file or upstream.key):
            for name in key_names_for(upstream.base_url.reveal()):
                if text := self._environ.get(name, "").strip():
                    key = self._make_key(text, (*path, "key"), label=name)
                    changes |= {"key": key, "key_env": name}
                    break
        return structs.replace(upstream, **changes)

    def resolve_client_key(self, key: KeySettings, path: KeyPath) -> KeySettings:
        """Return *key* with its hash."""
        if not key.env:
            return key
        text = self._read_variable(key.env, (*path, "env"))
        if text and len(text) < _LEAST_LENGTH:
            self._problems.add(
                (*path, "env"),
                f"the key in {describe_variable(key.env)} is too short: use at least "
                f"{_LEAST_LENGTH} characters, or run `penstock key new`",
            )
        return structs.replace(key, hash=hash_key(text))

    def _resolve(self, table: UpstreamSettings | QwenSettings, name: str, path: KeyPath) -> Secret:
        """Return the secret *name* of *table* from the table, a variable or a file."""
        given: Secret = getattr(table, name)
        variable: str = getattr(table, f"{name}_env")
        file: Path | None = getattr(table, f"{name}_file")
        if given or self._problems.affects((*path, name)):
            return given
        if variable:
            path = (*path, f"{name}_env")
            return self._make_key(self._read_variable(variable, path), path)
        if file is not None:
            path = (*path, f"{name}_file")
            return self._make_key(self._read_file(file, path), path)
        return given

    def _make_key(self, text: str, path: KeyPath, label: str = "") -> Secret:
        try:
            return Secret(text)
        except UsageError as exc:
            self._problems.add(path, str(exc), label)
            return NO_KEY

    def _read_variable(self, name: str, path: KeyPath) -> str:
        text = self._environ.get(name, "").strip()
        if not text:
            self._problems.add(path, f"{describe_variable(name)} is not set or empty")
        return text

    def _read_file(self, file: Path, path: KeyPath) -> str:
        # Messages omit the name of the file: users put the key itself there.
        try:
            with file.open("rb") as opened:
                data = opened.read(MAX_SECRET + 1)
            text = data.decode().strip()
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
            self._problems.add(path, f"cannot read the file in {file.parent}: {why}")
            return ""
        if len(data) > MAX_SECRET:
            self._problems.add(path, f"the file is larger than {MAX_SECRET:,} bytes")
            return ""
        if not text:
            self._problems.add(path, "the file is empty")
        return text
