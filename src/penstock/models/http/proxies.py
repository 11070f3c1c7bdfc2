"""Which proxy stands before a URL: the one that was named, or the environment's."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from penstock.errors import UsageError
from penstock.models.http.endpoints import is_loopback


def checked(proxy: str | None) -> str | None:
    """Give *proxy* if it can be one; raise `UsageError` otherwise, without showing it."""
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise UsageError("a proxy is a URL that begins with http:// or https://")
    return proxy


def proxy_for(url: str, given: str | None, environ: Mapping[str, str]) -> str | None:
    """Give the proxy for *url*: *given* (an empty one is none), else what *environ* says.

    The environment's is not used for this machine, nor for the hosts in ``NO_PROXY``.
    """
    if given is not None:
        return given or None
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or _is_spared(host, parts.port, _variable(environ, "no_proxy")):
        return None
    found = _variable(environ, f"{parts.scheme}_proxy") or _variable(environ, "all_proxy")
    if not found:
        return None
    return checked(found if "://" in found else f"http://{found}")


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_spared(host: str, port: int | None, spared: str) -> bool:
    for entry in spared.lower().split(","):
        name, _, number = entry.strip().removeprefix("*").removeprefix(".").partition(":")
        if entry.strip() == "*":
            return True
        is_named = bool(name) and (host == name or host.endswith(f".{name}"))
        if is_named and number in ("", str(port)):
            return True
    return False
