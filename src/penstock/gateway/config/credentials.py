"""Secrets that stand elsewhere, in a variable or a file, brought into the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from penstock.errors import UsageError
from penstock.gateway.config.addresses import usual_key_names
from penstock.gateway.config.keys import LEAST_LENGTH, hash_key
from penstock.gateway.config.problems import Place, Problems
from penstock.gateway.config.settings import KeySettings
from penstock.gateway.config.upstreams import QwenSettings, UpstreamSettings
from penstock.gateway.config.variables import named
from penstock.models.http.redaction import Secret

MAX_SECRET: Final = 65_536
"""How many bytes of a file with a secret are read: cookies of an account have some thousands."""


class Credentials:
    """Finds secrets in *environ* and in files; what is not there is noted in *problems*."""

    def __init__(self, environ: Mapping[str, str], problems: Problems) -> None:
        self._environ = environ
        self._problems = problems

    def of_upstream(self, upstream: UpstreamSettings, place: Place) -> UpstreamSettings:
        """Give *upstream* with its secrets: where it names none, with its provider's usual key."""
        changes: dict[str, Any] = {"key": self._secret(upstream, "key", place)}
        if upstream.qwen is not None:
            changes["qwen"] = self._of_qwen(upstream.qwen, place.child("qwen"))
        is_silent = not (upstream.key_env or upstream.key_file or upstream.key)
        if is_silent:
            changes |= self._usual(upstream.base_url.reveal(), place)
        return structs.replace(upstream, **changes)

    def of_client(self, key: KeySettings, place: Place) -> KeySettings:
        """Give *key* with its hash; a weak one is refused."""
        if not key.env:
            return key
        text = self._variable(key.env, place.child("env"))
        if text and len(text) < LEAST_LENGTH:
            message = (
                f"the key in {named(key.env)} is weak: shorter than {LEAST_LENGTH} characters, "
                "it can be found by trying; `penstock key new` makes a good one"
            )
            self._problems.add(place.child("env"), message)
        return structs.replace(key, hash=hash_key(text))

    def _of_qwen(self, qwen: QwenSettings, place: Place) -> QwenSettings:
        found = {name: self._secret(qwen, name, place) for name in ("cookie", "umid_token")}
        return structs.replace(qwen, **found)

    def _secret(self, table: UpstreamSettings | QwenSettings, name: str, place: Place) -> Secret:
        """Give the secret called *name* in *table*, wherever it says that it is."""
        there: Secret = getattr(table, name)
        variable: str = getattr(table, f"{name}_env")
        file: Path | None = getattr(table, f"{name}_file")
        if there or not (variable or file) or self._problems.touch(place.child(name)):
            return there
        if variable:
            at = place.child(f"{name}_env")
            return self._key(self._variable(variable, at), at)
        at = place.child(f"{name}_file")
        return self._key(self._file(file, at) if file else "", at)

    def _usual(self, url: str, place: Place) -> dict[str, Any]:
        """Give the key that the environment has for the provider at *url*, and its variable."""
        for name in usual_key_names(url):
            if text := self._environ.get(name, "").strip():
                return {"key": self._key(text, place.labelled(name)), "key_env": name}
        return {}

    def _key(self, text: str, place: Place) -> Secret:
        try:
            return Secret(text)
        except UsageError as exc:
            self._problems.add(place, str(exc))
            return Secret("")

    def _variable(self, name: str, place: Place) -> str:
        text = self._environ.get(name, "").strip()
        if not text:
            self._problems.add(place, f"{named(name)} is not set, or empty")
        return text

    def _file(self, path: Path, place: Place) -> str:
        # Its name is not told: some put the key itself here.
        try:
            with path.open("rb") as file:
                data = file.read(MAX_SECRET + 1)
            text = data.decode().strip()
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is no text"
            self._problems.add(place, f"the file cannot be read in {path.parent}: {why}")
            return ""
        if not text or len(data) > MAX_SECRET:
            self._problems.add(place, f"the file holds no secret: {_size(data)}")
        return text if len(data) <= MAX_SECRET else ""


def _size(data: bytes) -> str:
    return "it is too long" if len(data) > MAX_SECRET else "it is empty"
