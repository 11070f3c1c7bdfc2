"""Rules for single values: each gives the value in its usual form, or says what would be one.

A rule raises `ValueError` with the end of a sentence. It shows nothing that may be a secret.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from penstock import apis, formats
from penstock.errors import UsageError
from penstock.formats import reasoning
from penstock.gateway.config.addresses import masked
from penstock.gateway.config.keys import is_hash
from penstock.gateway.config.problems import shown, suggestion
from penstock.gateway.config.variables import NAME

OWN_APIS: Final = ("demo", "local")
"""Upstreams that need no server: the scripted model, and a small one in the process."""

NATIVE: Final = "native"
"""What `DemoModel` takes in place of a format; not imported, since most do without the script."""

_ENTRY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OF_TRANSPORT: Final = frozenset(
    {
        *("host", "connection", "keep-alive", "content-length", "content-type"),
        *("transfer-encoding", "accept-encoding", "upgrade", "te", "trailer"),
    }
)
_STORES: Final = ("sqlite", "postgresql", "postgresql+psycopg")
_OFF: Final = frozenset({"off", "none", "no", "false"})


def entry_name(name: str) -> str:
    """Check the name of an upstream or a key: it stands in headers, metrics and the log."""
    if not _ENTRY.fullmatch(name):
        raise ValueError("a name has letters, digits, '.', '_' and '-', at most 64")
    return name


def model_name(name: str) -> str:
    """Check the name of a model, as clients say it; a ``*`` may end it."""
    if not name.isprintable() or not name.strip() or len(name) > 256:  # noqa: PLR2004 - a path's length
        raise ValueError("a model's name is printable and has at most 256 characters")
    if "*" in name[:-1]:
        raise ValueError("a '*' stands at the end of a name: it is for all that begin so")
    return name


def tool_pattern(name: str) -> str:
    """Check the name of a tool, or a pattern of such names (``read_*``)."""
    if not name.isprintable() or not name.strip() or len(name) > 256:  # noqa: PLR2004 - a path's length
        raise ValueError("a tool's name is printable and has at most 256 characters")
    return name


def host(name: str) -> str:
    """Check an address to listen on; an IPv6 one may stand in brackets."""
    plain = name.removeprefix("[").removesuffix("]")
    try:
        return str(ip_address(plain))
    except ValueError:
        if _HOST.fullmatch(name) and not name.replace(".", "").isdigit():
            return name
    raise ValueError(f"an IP address or a host name, not {shown(name)}")


def format_name(name: str) -> str:
    """Find a format of calls by its name."""
    try:
        return formats.get(name).name
    except UsageError:
        near = suggestion(name, formats.names())
        raise ValueError(f"there is no format {shown(name)}{near or _see('formats')}") from None


def demo_format(name: str) -> str:
    """Find the format that the scripted model writes in; it has native calls too."""
    return name if name == NATIVE else format_name(name)


def reasoning_name(name: str) -> str:
    """Check the name of a reasoning style."""
    known = (reasoning.NONE, *reasoning.STYLES)
    if name not in known:
        near = suggestion(name, known) or f"; there are {', '.join(sorted(known))}"
        raise ValueError(f"there is no reasoning style {shown(name)}{near}")
    return name


def api_name(name: str) -> str:
    """Find an API by its name, or one of the upstreams that need no server."""
    if name in OWN_APIS:
        return name
    try:
        return apis.get(name).name
    except UsageError:
        known = [*apis.names(), *OWN_APIS]
        near = suggestion(name, known) or f"; there are {', '.join(known)}"
        raise ValueError(f"there is no API {shown(name)}{near}") from None


def web_url(url: str) -> str:
    """Check the URL of a server: http or https, a host, no password."""
    _check_web(url)
    if "@" in urlsplit(url).netloc:
        raise ValueError(
            f"a password has no place in a URL ({masked(url)}): use key_env, key_file or headers"
        )
    return url


def proxy_url(url: str) -> str:
    """Check the URL of a proxy, which may hold a password; an empty one is no proxy at all."""
    if url:
        _check_web(url)
    return url


def _check_web(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        is_web = False
    if not is_web or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError(
            f"a URL begins with http:// or https:// and names a host, not {shown(masked(url))}"
        )


def store_url(url: str) -> str:
    """Check the URL of a database; the path of a file stands for SQLite there."""
    scheme, has_scheme, _ = url.partition("://")
    if not has_scheme:
        if url.lower() in _OFF:
            raise ValueError("the store is switched off by `enabled = false`, or --no-store")
        if not url or not url.isprintable():
            raise ValueError("the URL of a database, or the path of a file")
        return f"sqlite:///{url}"
    if scheme not in _STORES:
        near = suggestion(scheme, _STORES) or "; there are sqlite and postgresql"
        raise ValueError(f"there is no store at {shown(masked(url))}{near}")
    return url


def header_name(name: str) -> str:
    """Check the name of a header that goes to the upstream."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("no header can have this name")
    if name.lower() in _OF_TRANSPORT:
        raise ValueError("this header says how bytes travel: penstock sets it itself")
    return name.lower()


def variable_name(name: str) -> str:
    """Check the name of an environment variable; what is none may be a key, so it is not shown."""
    if not NAME.fullmatch(name):
        raise ValueError("the name of an environment variable, such as OPENAI_API_KEY")
    return name


def key_hash(text: str) -> str:
    """Check the hash of a client's key; what is none may be the key, so it is not shown."""
    if not is_hash(text):
        raise ValueError(
            "'sha256:' and 64 hexadecimal digits, as `penstock key new` prints them, "
            "and never the key itself"
        )
    return text


def _see(command: str) -> str:
    return f"; `penstock {command}` lists them"
