"""What settings have to say together: names that lead somewhere, a door that is not left open."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.gateway.config.problems import Place, Problems, shown, suggestion
from penstock.gateway.config.routes import find
from penstock.gateway.config.rules import OWN_APIS
from penstock.gateway.config.settings import Settings
from penstock.gateway.config.upstreams import UpstreamSettings

_TABLES_OF_APIS: Final = ("qwen", "demo", "local")


def check_agreement(settings: Settings, problems: Problems) -> None:
    """Note in *problems* what does not go together in *settings*."""
    check = _Check(settings, problems)
    check.door()
    check.certificate()
    check.keys()
    check.upstreams()
    check.names()


class _Check:
    """Looks at *settings*; where values are wrong by themselves, it leaves them alone."""

    def __init__(self, settings: Settings, problems: Problems) -> None:
        self._settings = settings
        self._problems = problems

    def door(self) -> None:
        """Refuse to serve other machines without any key, unless that is said to be meant."""
        server = self._settings.server
        is_open = not (self._settings.keys or server.is_local or server.insecure)
        if is_open and not self._is_wrong("keys") and not self._is_wrong("server"):
            self._add(
                ("server", "host"),
                f"{server.host} can be reached from other machines, and no key is set: add one "
                "(`penstock key new`, or PENSTOCK_API_KEY), or say `insecure = true`",
            )

    def certificate(self) -> None:
        """See that TLS has its files."""
        server = self._settings.server
        if server.tls_key is not None and server.tls_cert is None:
            self._add(("server", "tls_key"), "a private key needs its certificate: tls_cert")
        self._file(server.tls_cert, "server", "tls_cert")
        self._file(server.tls_key, "server", "tls_key")

    def keys(self) -> None:
        """See that each key of a client can be known, and is its own."""
        owners: dict[str, str] = {}
        for name, key in self._settings.keys.items():
            if self._is_wrong("keys", name):
                continue
            if not key.hash:
                self._add(("keys", name), "it needs a hash (`penstock key new`) or an env")
            elif key.hash in owners:
                self._add(("keys", name), f"the same key as {Place(('keys', owners[key.hash]))}")
            owners.setdefault(key.hash, name)

    def upstreams(self) -> None:
        """See that each upstream can be asked."""
        for name, upstream in self._settings.upstreams.items():
            if not self._is_wrong("upstreams", name):
                self._upstream(name, upstream)

    def _upstream(self, name: str, upstream: UpstreamSettings) -> None:
        if not upstream.api:
            self._add(("upstreams", name), "it needs a base_url, or an api")
        if upstream.api in OWN_APIS and upstream.base_url:
            self._add(("upstreams", name, "base_url"), f"the API {upstream.api!r} has no server")
        for table in _TABLES_OF_APIS:
            if getattr(upstream, table) is not None and upstream.api != table:
                self._add(
                    ("upstreams", name, table),
                    f"this is for the API {table!r}, and the upstream speaks {upstream.api!r}",
                )
        self._file(upstream.ca, "upstreams", name, "ca")

    def names(self) -> None:
        """See that every name of an upstream or a model leads to one."""
        settings = self._settings
        self._leads("default_upstream", name=settings.default_upstream)
        for name, model in settings.models.items():
            self._leads("models", name, "upstream", name=model.upstream)
            is_lost = not model.upstream and not settings.default_upstream
            if is_lost and not self._is_wrong("default_upstream"):
                message = "it needs an upstream, since there is no default_upstream"
                self._add(("models", name), message)
        is_settled = not (self._is_wrong("default_upstream") or self._is_wrong("upstreams"))
        if settings.default_model and is_settled and find(settings, settings.default_model) is None:
            near = suggestion(settings.default_model, settings.models)
            message = f"there is no model {shown(settings.default_model)}{near}"
            self._add(("default_model",), message)

    def _leads(self, *path: str, name: str) -> None:
        upstreams = self._settings.upstreams
        if name and name not in upstreams and not self._is_wrong("upstreams", name):
            near = suggestion(name, upstreams) or f"; there are {', '.join(upstreams)}"
            self._add(path, f"there is no upstream {shown(name)}{near}")

    def _file(self, file: Path | None, *path: str) -> None:
        if file is not None and not file.is_file():
            self._add(path, f"there is no file {file}")

    def _is_wrong(self, *path: str) -> bool:
        return self._problems.touch(Place(path))

    def _add(self, path: tuple[str, ...], message: str) -> None:
        self._problems.add(Place(path), message)
