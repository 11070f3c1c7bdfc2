"""``penstock doctor``: find out what a server supports by sending requests to it.

First the API is determined: the APIs are tried in turn, the most likely one first. Then the probes
follow one after the other, since a server on a small machine serves one request at a time. The
result includes a section of ``penstock.toml`` that fits the findings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from shlex import quote
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from penstock import apis
from penstock.config.convert import render_value
from penstock.config.flags import FLAGS, UPSTREAM
from penstock.config.settings import UpstreamSettings
from penstock.config.types import SecretURL, guess_api
from penstock.errors import PenstockError, UsageError
from penstock.gateway.advice import advise, is_about_model
from penstock.gateway.model_router import find_chat_models
from penstock.gateway.probes import (
    CONSTRAINTS,
    ProbeClient,
    ProbeFinding,
    ProbeResult,
    probe_constraint,
    probe_format,
    probe_reasoning,
    probe_stream,
    probe_tools,
)
from penstock.messages import ErrorInfo
from penstock.models import HTTPModel
from penstock.models.http.list_models import LIST_SECONDS, list_models
from penstock.models.http.policy import RetryPolicy, Timeouts
from penstock.models.http.transport import Transport

PROBE_SECONDS: Final = 60.0
"""The timeout between two reads, and half of that of a response: some machines are slow."""

CONNECT_SECONDS: Final = 10.0
"""The connect timeout."""

MAX_REQUESTS: Final = 2
"""How many requests a probe sends at most."""

REPORT_SECONDS: Final = 5.0
"""How many seconds a probe may take longer than its requests."""

ANY_MODEL: Final = "default"
"""The model name for a server that lists no models: servers with one model accept any name."""

MAX_SHOWN_MODELS: Final = 6
"""How many models are named in the finding; the diagnosis has the whole list."""

_APIS: Final = ("openai-chat", "anthropic", "ollama", "gemini", "openai-responses")
_OTHER_API_STATUSES: Final = frozenset({404, 405, 501})
_KEY_STATUSES: Final = frozenset({401, 403, 407})

T = TypeVar("T")
OnFinding = Callable[[ProbeFinding], object]


class Diagnosis(Struct):
    """All findings about the server at *url*; *settings* are those of an upstream for it.

    *answered* is whether the server could be used at all.
    """

    url: str
    api: str = ""
    model: str = ""
    models: list[str] = field(default_factory=list)
    answered: bool = False
    findings: list[ProbeFinding] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command that serves with *settings*, or the next one to examine the server with."""
        if not self.answered:
            return self._next_command()
        settings = dict(self.settings)
        words = ["penstock", "serve", "--upstream", str(settings.pop("base_url", self.url))]
        if settings.get("api") == guess_api(self.url):
            del settings["api"]
        if settings.get("tools") == "native":  # the default
            del settings["tools"]
        if len(find_chat_models(self.models)) > 1:
            settings["model"] = self.model
        flags = {flag.path[1]: flag.name for flag in FLAGS if flag.path[:1] == (UPSTREAM,)}
        if not settings.keys() <= flags.keys():
            return "penstock serve --config penstock.toml"
        for key, value in settings.items():
            words += [flags[key], quote(str(value))]
        return " ".join(words)

    def _next_command(self) -> str:
        last = self.findings[-1].probe if self.findings else ""
        if last == "auth":
            return f"penstock doctor --upstream {self.url} --key-env NAME"
        if last == "models" and self.models:
            model = next(iter([*find_chat_models(self.models), *self.models]))
            return f"penstock doctor --upstream {self.url} --model {quote(model)}"
        return ""

    def toml(self, name: str = "mine") -> str:
        """Return *settings* as a section of ``penstock.toml``."""
        lines = [f"{key} = {render_value(value)}" for key, value in self.settings.items()]
        return "\n".join([f"[upstreams.{name}]", *lines]) + "\n"


async def diagnose(
    upstream: UpstreamSettings,
    *,
    api: str = "",
    seconds: float = PROBE_SECONDS,
    on_finding: OnFinding = lambda _: None,
) -> Diagnosis:
    """Probe the server of *upstream*; *on_finding* is called with each finding.

    Without *api* the APIs are tried in turn. Raises nothing for a server that misbehaves, and
    `UsageError` if the extra ``client`` is not installed.
    """
    try:  # Imported here, so that other commands do not need the extra.
        from penstock.models.http.aiohttp_transport import AiohttpTransport  # noqa: PLC0415
    except ImportError as exc:
        raise UsageError(
            "the doctor needs aiohttp, which is not installed: pip install 'penstock[client]'"
        ) from exc
    proxy = None if upstream.proxy is None else upstream.proxy.reveal()
    connect = min(CONNECT_SECONDS, seconds)
    transport = AiohttpTransport(connect=connect, proxy=proxy, ca=upstream.ca)
    try:
        return await _Examination(upstream, transport, seconds, on_finding).run(api)
    finally:
        await transport.close()


class _Examination:
    """The probes of one server."""

    def __init__(
        self,
        upstream: UpstreamSettings,
        transport: Transport,
        seconds: float,
        on_finding: OnFinding,
    ) -> None:
        self._upstream = upstream
        self._transport = transport
        self._seconds = seconds
        self._on_finding = on_finding
        self._found = Diagnosis(str(upstream.base_url))

    async def run(self, api: str) -> Diagnosis:
        """Run all probes and return the diagnosis."""
        client = await self._connect(api)
        found = self._found
        if client is None:
            return found
        found.answered = True
        streamed, findings = await self._probe("stream", probe_stream(client)) or (None, [])
        self._add(*findings)
        outcomes, finding = await self._probe("tools", probe_tools(client)) or ([], None)
        self._add(finding)
        is_native = finding is not None and finding.verdict == "yes"
        by_format = probe_format(client, outcomes, is_native=is_native)
        prompted, finding = await self._probe("format", by_format) or (None, None)
        self._add(finding)
        results = [one.result for one in (*outcomes, prompted) if one is not None]
        results = results if streamed is None else [streamed, *results]
        self._add(probe_reasoning(results, client.name))
        for kind in CONSTRAINTS:
            self._add(await self._probe(kind, probe_constraint(client, kind)))
        found.settings = recommend_settings(found, self._upstream)
        return found

    def _add(self, *findings: ProbeFinding | None) -> None:
        for finding in filter(None, findings):
            self._found.findings.append(finding)
            self._on_finding(finding)

    async def _probe(self, name: str, probe: Awaitable[T]) -> T | None:
        """Return the result of *probe*; None, with a finding, if it fails or takes too long."""
        try:
            async with asyncio.timeout(MAX_REQUESTS * 2 * self._seconds + REPORT_SECONDS):
                return await probe
        except TimeoutError:
            self._add(ProbeFinding(name, "unknown", "the probe took too long"))
        except (PenstockError, OSError) as exc:
            self._add(ProbeFinding(name, "unknown", f"the probe failed: {exc}"))
        return None

    # --- the API ---

    async def _connect(self, api: str) -> ProbeClient | None:
        """Return a client for the API that the server supports; None if it supports none."""
        refused: tuple[str, ProbeResult] | None = None
        for name, url in _candidates(self._upstream.base_url.reveal(), api):
            names = await self._list_models(name, url)
            client = self._make_client(name, url, names)
            result = await self._probe("reach", client.send("Say hello."))
            if result is None:
                return None
            found = self._found
            if result.error is None:
                found.api, found.model, found.models = client.api, client.name, names or []
                found.url = str(SecretURL(url))
                self._add(ProbeFinding("reach", "yes", f"the server supports {name}"))
                self._add(_describe_key(self._upstream))
                self._add(_describe_models(names, client.name))
                return client
            refused = refused or (name, result)
            if not _may_be_other_api(result, client.name):
                if is_about_model(result.error, client.name):
                    found.api, found.models = client.api, names or []
                    self._add(ProbeFinding("reach", "yes", f"the server supports {name}"))
                    self._add(_describe_unknown_model(result, client.name, found.models))
                    return None
                refused = name, result
                break
        if refused is not None:
            self._add(*_describe_refusal(*refused, self._upstream))
        return None

    async def _list_models(self, api: str, url: str) -> list[str] | None:
        """Return the models that the server lists; None if it has no list."""
        upstream = self._upstream
        with suppress(PenstockError, OSError, TimeoutError):
            return await list_models(
                api,
                url,
                upstream.key.reveal(),
                transport=self._transport,
                headers=upstream.revealed_headers(),
                seconds=min(LIST_SECONDS, self._seconds),
            )
        return None

    def _make_client(self, api: str, url: str, names: list[str] | None) -> ProbeClient:
        upstream, seconds = self._upstream, self._seconds
        model = HTTPModel(
            api,
            url,
            api_key=upstream.key.reveal(),
            headers=upstream.revealed_headers(),
            timeouts=Timeouts(min(CONNECT_SECONDS, seconds), seconds, seconds, 2 * seconds),
            retry=RetryPolicy(attempts=1),
            transport=self._transport,
            interval=0.0,
        )
        return ProbeClient(model, api, upstream.model or _choose_chat_model(names or []))


def _candidates(url: str, api: str) -> Iterator[tuple[str, str]]:
    """Yield the APIs to try and their URLs: first the API that the URL suggests."""
    if api:
        yield apis.get(api).name, url
        return
    guess = guess_api(url)
    for name in dict.fromkeys([guess, *_APIS]):
        yield name, _without_version(url) if name == "ollama" else url


def _without_version(url: str) -> str:
    """Return *url* without ``/v1``: Ollama's own API is at ``/api``."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _choose_chat_model(names: list[str]) -> str:
    """Return the first model whose name does not exclude chat."""
    return next(iter([*find_chat_models(names), *names]), ANY_MODEL)


def _may_be_other_api(result: ProbeResult, model: str) -> bool:
    """Return whether an error shows that the server does not support this API."""
    error = result.error
    if error is None or result.status in _KEY_STATUSES:
        return False
    if result.status is None:  # The server is not reachable, through any API.
        return False
    is_about_model = model in error.message or "model" in error.message.lower()
    if result.status in _OTHER_API_STATUSES:
        return not is_about_model
    return error.kind in ("malformed", "truncated") or result.status // 100 != 2  # noqa: PLR2004


def _describe_refusal(
    api: str, result: ProbeResult, upstream: UpstreamSettings
) -> Iterator[ProbeFinding]:
    """Yield the findings about a server that cannot be used."""
    error = result.error or ErrorInfo("")
    advice = advise(error, upstream, "")
    reason = f"{result.reason}. {advice}" if advice else result.reason
    facts: dict[str, Any] = {"status": result.status, "type": error.type}
    if result.status in _KEY_STATUSES:
        yield ProbeFinding("reach", "yes", "the server responds", {"api": api})
        verb = "rejects the key" if upstream.key else "requires a key"
        yield ProbeFinding("auth", "no", f"the server {verb}: {reason}", facts)
    elif result.status is None:
        yield ProbeFinding("reach", "no", f"the server is not reachable: {reason}", facts)
    elif result.status >= 500:  # noqa: PLR2004
        words = f"the server responds with an error: {reason}"
        yield ProbeFinding("reach", "partly", words, facts)
    else:
        words = f"the server responds, but not as {api}: {reason}"
        yield ProbeFinding("reach", "partly", words, facts)


def _describe_unknown_model(result: ProbeResult, asked: str, names: list[str]) -> ProbeFinding:
    has = f"it has: {_list_some(names)}" if names else "it lists no models"
    words = f"the server has no model {asked!r}, {has} ({result.reason})"
    return ProbeFinding("models", "no", words, {"asked": asked})


def _describe_key(upstream: UpstreamSettings) -> ProbeFinding:
    if not upstream.key:
        return ProbeFinding("auth", "yes", "no key is needed", {"key": False})
    source = f" in {upstream.key_env}" if upstream.key_env else ""
    return ProbeFinding("auth", "yes", f"the key{source} was accepted or ignored", {"key": True})


def _describe_models(names: list[str] | None, asked: str) -> ProbeFinding:
    if names is None:
        words = f"the server lists no models; used {asked!r}"
        return ProbeFinding("models", "no", words, {"asked": asked})
    if not names:
        words = f"the list of the server is empty; used {asked!r}"
        return ProbeFinding("models", "partly", words, {"asked": asked})
    is_known = asked in names
    missing = "" if is_known else ", which is not listed"
    words = f"{len(names)} listed ({_list_some(names)}); used {asked!r}{missing}"
    return ProbeFinding("models", "yes" if is_known else "partly", words, {"asked": asked})


def _list_some(names: list[str]) -> str:
    rest = ["…"] if len(names) > MAX_SHOWN_MODELS else []
    return ", ".join([*names[:MAX_SHOWN_MODELS], *rest])


# --- recommended settings ---


def recommend_settings(found: Diagnosis, upstream: UpstreamSettings) -> dict[str, Any]:
    """Return the settings that fit the findings."""
    by_probe = {finding.probe: finding for finding in found.findings}
    settings: dict[str, Any] = {"api": found.api, "base_url": found.url}
    if upstream.key_env:
        settings["key_env"] = upstream.key_env
    if upstream.model or not found.models:
        settings["model"] = found.model
    if _verdict(by_probe, "stream") == "no":
        settings["streaming"] = False
    settings |= _recommend_tools(by_probe)
    reasoning = by_probe["reasoning"].facts if "reasoning" in by_probe else {}
    settings |= {
        name: reasoning[key]
        for name, key in (("reasoning", "style"), ("prompt_suffix", "prompt_suffix"))
        if reasoning.get(key)
    }
    return settings


def _recommend_tools(by_probe: dict[str, ProbeFinding]) -> dict[str, Any]:
    """Return how tools are passed: natively if that led to calls, even in text."""
    formats = by_probe["format"].facts if "format" in by_probe else {}
    is_native = _verdict(by_probe, "tools") in ("yes", "partly") or formats.get("seen")
    if is_native:
        seen = formats.get("seen")
        return {"tools": "native", **({"format": seen} if seen else {})}
    settings: dict[str, Any] = {"tools": "prompt"}
    usual = formats.get("by_name", "auto")
    if prompted := formats.get("prompted"):
        settings["format"] = prompted
    elif usual != "auto":
        settings["format"] = usual
    enforced = [kind for kind in reversed(CONSTRAINTS) if _verdict(by_probe, kind) == "yes"]
    if enforced:
        settings["constrain"] = enforced[0]
    return settings


def _verdict(by_probe: dict[str, ProbeFinding], name: str) -> str:
    return by_probe[name].verdict if name in by_probe else "unknown"
