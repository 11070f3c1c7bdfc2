"""What to do about an upstream's error: one sentence for the log and for the client.

The client is often the person who started the gateway. So a sentence names the flags of
``penstock serve``, and neither addresses nor keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from penstock.config.settings import UpstreamSettings
from penstock.errors import find_nearest
from penstock.messages import ErrorInfo
from penstock.models.http.attempt import HTML_RESPONSE
from penstock.models.http.endpoints import is_loopback

MAX_LISTED: Final = 12
"""How many models of an upstream a sentence names."""

_KEY_STATUSES: Final = frozenset({401, 403})
_PATH_STATUSES: Final = frozenset({404, 405, 501})
_MODEL_STATUSES: Final = frozenset({400, 404, 422})
_MISSING: Final = (
    "not found",
    "does not exist",
    "unknown",
    "not exist",
    "no such",
    "not supported",
)


class LocalServer(Struct, frozen=True):
    """A program that serves models on this machine: its usual *port* and how it is started."""

    name: str
    port: int
    start: str

    @property
    def url(self) -> str:
        """The base URL of its OpenAI API."""
        return f"http://127.0.0.1:{self.port}/v1"


LOCAL_SERVERS: Final = (
    LocalServer("Ollama", 11434, "ollama serve"),
    LocalServer("llama.cpp", 8080, "llama-server -m MODEL.gguf"),
    LocalServer("LM Studio", 1234, "lms server start"),
    LocalServer("vLLM", 8000, "vllm serve MODEL"),
    LocalServer("SGLang", 30000, "python -m sglang.launch_server --model-path MODEL"),
)
"""The servers whose ports are known, in the order in which they are listed."""

CHECK_PATH: Final = "Check the path of the upstream's URL: most servers have their API at /v1."

_BY_TYPE: Final = {
    "connect_timeout": "Check the host and the port; if a proxy is needed, pass it with --proxy.",
    "tls_error": "Pass the certificate authority of the server with --ca FILE, or check whether "
    "the URL should begin with http://.",
    "proxy_error": "Check --proxy, or the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY.",
    "first_byte_timeout": "If the model is slow, raise first_byte in [upstreams.NAME.timeouts].",
    "idle_timeout": "If the model is slow, raise idle in [upstreams.NAME.timeouts].",
    HTML_RESPONSE: CHECK_PATH,
}


def advise(
    error: ErrorInfo,
    upstream: UpstreamSettings,
    model: str,
    served: Sequence[str] = (),
    requested: str = "",
) -> str:
    """Return what to do about *error*, or an empty string.

    *model* is the model that was requested of *upstream*, *served* the ones that it lists, and
    *requested* the name that the client used, if a setting replaced it.
    """
    if error.type == "connect_error":
        return ask_whether_it_runs(upstream.base_url.reveal())
    if error.type in _BY_TYPE:
        return _BY_TYPE[error.type]
    if error.kind != "provider" or error.status is None:
        return ""
    if error.status in _KEY_STATUSES:
        if upstream.key:
            return "Check the key of the upstream: it was sent and rejected."
        return "The upstream wants a key: pass the name of a variable that has it with --key-env."
    if is_about_model(error, model):
        return describe_models(model, served, requested)
    if error.status in _PATH_STATUSES:
        return f"{CHECK_PATH} The API of the server is set with --api."
    return ""


def ask_whether_it_runs(url: str) -> str:
    """Return the advice for a server at *url* that refuses connections."""
    parts = urlsplit(url)
    if not is_loopback(parts.hostname or ""):
        return "Check the host and the port of the upstream."
    known = next((one for one in LOCAL_SERVERS if one.port == parts.port), None)
    if known is None:
        return "Is the server running? Check the port of the upstream."
    return f"Is {known.name} running? Start it with `{known.start}`."


def is_about_model(error: ErrorInfo, model: str) -> bool:
    """Return whether *error* says that the server does not have *model*."""
    words = error.message.lower()
    is_named = bool(model) and model.lower() in words
    if error.status not in _MODEL_STATUSES or ("model" not in words and not is_named):
        return False
    return error.status == 404 or any(word in words for word in _MISSING)  # noqa: PLR2004


def describe_models(model: str, served: Sequence[str], requested: str = "") -> str:
    """Return the advice for a *model* that the upstream does not have; it has *served*.

    A setting chose it if *requested* is another name.
    """
    if not served:
        return "Choose a model with --model NAME; `penstock doctor --upstream URL` lists them."
    shown = ", ".join([*served[:MAX_LISTED], *(["…"] if len(served) > MAX_LISTED else [])])
    if requested not in ("", model):
        chose = f"The gateway requests '{model}' for '{requested}'"
        return f"The upstream has: {shown}. {chose}: correct --model, --map or penstock.toml."
    pair = f"{model or 'NAME'}={find_nearest(model, served) or served[0]}"
    choose = f"choose one with --model NAME, or add --map '{pair}'"
    return f"The upstream has: {shown}. Request one of them, {choose}."
