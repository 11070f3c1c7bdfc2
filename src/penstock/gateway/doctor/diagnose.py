"""What a server can do, found out by asking it: the doctor that ``penstock doctor`` prints.

First who is there: the APIs are tried in turn, the most likely one first. Then the probes, one
after the other, since a server on a small machine answers one at a time. At the end stands the
section of ``penstock.toml`` that fits what was seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from penstock import apis
from penstock.errors import PenstockError, UsageError
from penstock.gateway.config.convert import render_value
from penstock.gateway.config.settings import UpstreamSettings
from penstock.gateway.config.types import SecretURL, guess_api
from penstock.gateway.doctor.probe import ProbeClient, ProbeResult
from penstock.gateway.doctor.probes import (
    FORMS,
    Offered,
    ProbeFinding,
    probe_form,
    probe_format,
    probe_reasoning,
    probe_stream,
    probe_tools,
)
from penstock.models import HTTPModel
from penstock.models.http.list_models import LIST_SECONDS, list_models
from penstock.models.http.retry import RetryPolicy
from penstock.models.http.timeouts import Timeouts
from penstock.models.http.transport import Transport

PROBE_SECONDS: Final = 60.0
"""How long a word is waited for, and half of the time for an answer: some machines are small."""

CONNECT: Final = 10.0
"""How many seconds it may take to be connected."""

QUESTIONS: Final = 2
"""How many questions a probe asks at most."""

GRACE: Final = 5.0
"""How many seconds a probe may take longer than its questions."""

ANY_MODEL: Final = "default"
"""What a server is asked for that lists no models: those with one take any name."""

SHOWN: Final = 6
"""How many models are named in words: the whole list is in the diagnosis."""

_TRIED: Final = ("openai-chat", "anthropic", "ollama", "gemini", "openai-responses")
_ELSEWHERE: Final = frozenset({404, 405, 501})
_LOCKED: Final = frozenset({401, 403, 407})
_NOT_FOR_CHAT: Final = (
    "embed", "whisper", "tts", "dall-e", "rerank", "moderation", "image", "audio", "babbage",
    "davinci", "transcribe", "sora", "veo", "imagen", "aqa",
)  # fmt: skip

T = TypeVar("T")
Tell = Callable[[ProbeFinding], object]


class Diagnosis(Struct):
    """All that was found of the server at *url*: *settings* is what an upstream of it should say.

    *answered* tells whether it could be asked at all.
    """

    url: str
    api: str = ""
    model: str = ""
    models: list[str] = field(default_factory=list)
    answered: bool = False
    findings: list[ProbeFinding] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def toml(self, name: str = "mine") -> str:
        """Write *settings* as a section of ``penstock.toml``."""
        lines = [f"{key} = {render_value(value)}" for key, value in self.settings.items()]
        return "\n".join([f"[upstreams.{name}]", *lines]) + "\n"


async def diagnose(
    upstream: UpstreamSettings,
    *,
    api: str = "",
    seconds: float = PROBE_SECONDS,
    tell: Tell = lambda _: None,
) -> Diagnosis:
    """Ask the server of *upstream* what it can do; *tell* hears each finding as it comes.

    Without *api* the APIs are tried. Nothing is raised for a server that behaves badly;
    `UsageError` where the extra with the client is missing.
    """
    transport = _transport_to(upstream, seconds)
    try:
        return await _Examination(upstream, transport, seconds, tell).run(api)
    finally:
        await transport.close()


def _transport_to(upstream: UpstreamSettings, seconds: float) -> Transport:
    try:  # Loaded here, so that the other commands do without the extra.
        from penstock.models.http.aiohttp_transport import AiohttpTransport  # noqa: PLC0415
    except ImportError as exc:
        raise UsageError("the doctor needs aiohttp: install penstock[client]") from exc
    proxy = None if upstream.proxy is None else upstream.proxy.reveal()
    return AiohttpTransport(connect=min(CONNECT, seconds), proxy=proxy, ca=upstream.ca)


class _Examination:
    """One server, asked from the first contact to the last probe."""

    def __init__(
        self, upstream: UpstreamSettings, transport: Transport, seconds: float, tell: Tell
    ) -> None:
        self._upstream = upstream
        self._transport = transport
        self._seconds = seconds
        self._tell = tell
        self._found = Diagnosis(str(upstream.base_url))

    async def run(self, api: str) -> Diagnosis:
        asker = await self._reach(api)
        if asker is None:
            return self._found
        found = self._found
        found.answered = True
        streamed = await self._probe("stream", probe_stream(asker))
        heard, findings = streamed or (None, [])
        self._note(*findings)
        offered = await self._offer(asker)
        answers = [heard, *(one.heard for one in offered)]
        self._note(probe_reasoning([one for one in answers if one is not None], asker.name))
        for form in FORMS:
            finding = await self._probe(form, probe_form(asker, form))
            self._note(*([finding] if finding is not None else []))
        found.settings = advice(found, self._upstream)
        return found

    async def _offer(self, asker: ProbeClient) -> list[Offered]:
        """Offer tools; return what was answered."""
        native = await self._probe("tools", probe_tools(asker))
        offered, tools = native or ([], None)
        self._note(*([tools] if tools is not None else []))
        is_native = tools is not None and tools.verdict == "yes"
        formats = await self._probe("format", probe_format(asker, offered, is_native=is_native))
        told, finding = formats or (None, None)
        self._note(*([finding] if finding is not None else []))
        return [*offered, *([told] if told is not None else [])]

    def _note(self, *findings: ProbeFinding) -> None:
        for finding in findings:
            self._found.findings.append(finding)
            self._tell(finding)

    async def _probe(self, name: str, probe: Awaitable[T]) -> T | None:
        """Wait for a probe; one that fails, or never ends, is told and left."""
        try:
            async with asyncio.timeout(QUESTIONS * 2 * self._seconds + GRACE):
                return await probe
        except TimeoutError:
            self._note(ProbeFinding(name, "unknown", "it took too long"))
        except (PenstockError, OSError) as exc:
            self._note(ProbeFinding(name, "unknown", f"the probe failed: {exc}"))
        return None

    # --- who is there ---

    async def _reach(self, api: str) -> ProbeClient | None:
        """Find the API that is spoken; None where nobody can be asked."""
        refused: tuple[str, ProbeResult] | None = None
        for name, url in _candidates(self._upstream.base_url.reveal(), api):
            names = await self._listed(name, url)
            asker = self._asker(name, url, names)
            heard = await self._probe("reach", asker.ask("Say hello."))
            if heard is None:
                return None
            if heard.error is None:
                self._settle(asker, url, names)
                self._note(ProbeFinding("reach", "yes", f"there, and it speaks {name}"))
                self._note(_models_found(names, asker.name))
                return asker
            refused = refused or (name, heard)
            if not _is_elsewhere(heard, asker.name):
                refused = name, heard
                break
        if refused is not None:
            self._note(_refusal(*refused))
        return None

    def _settle(self, asker: ProbeClient, url: str, names: list[str] | None) -> None:
        found = self._found
        found.api, found.model, found.models = asker.api, asker.name, names or []
        found.url = str(SecretURL(url))

    async def _listed(self, api: str, url: str) -> list[str] | None:
        """Return the models that are listed; None where there is not a list."""
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

    def _asker(self, api: str, url: str, names: list[str] | None) -> ProbeClient:
        upstream, seconds = self._upstream, self._seconds
        model = HTTPModel(
            api,
            url,
            api_key=upstream.key.reveal(),
            headers=upstream.revealed_headers(),
            timeouts=Timeouts(min(CONNECT, seconds), seconds, seconds, 2 * seconds),
            retry=RetryPolicy(attempts=1),
            transport=self._transport,
            interval=0.0,
        )
        return ProbeClient(model, api, upstream.model or _for_chat(names or []))


def _candidates(url: str, api: str) -> Iterator[tuple[str, str]]:
    """Yield the APIs to try, and where: the one that the URL looks like first."""
    if api:
        yield apis.get(api).name, url
        return
    guess = guess_api(url)
    for name in dict.fromkeys([guess, *_TRIED]):
        yield name, _without_version(url) if name == "ollama" else url


def _without_version(url: str) -> str:
    """Return *url* as Ollama has it: its own API stands beside ``/v1``, not under it."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _for_chat(names: list[str]) -> str:
    """Return the first model that looks as if it converses."""
    talking = (n for n in names if not any(word in n.lower() for word in _NOT_FOR_CHAT))
    return next(talking, names[0] if names else ANY_MODEL)


def _is_elsewhere(heard: ProbeResult, model: str) -> bool:
    """Return whether a refusal means that this API is not spoken, so that another may be."""
    error = heard.error
    if error is None or heard.status in _LOCKED:
        return False
    if heard.status is None:  # nobody was reached: that is the same for all APIs
        return False
    is_about_model = model in error.message or "model" in error.message.lower()
    if heard.status in _ELSEWHERE:
        return not is_about_model
    return error.kind in ("malformed", "truncated") or heard.status // 100 != 2  # noqa: PLR2004


def _refusal(api: str, heard: ProbeResult) -> ProbeFinding:
    if heard.status in _LOCKED:
        words = f"there ({api}), but it wants a key: {heard.why}"
        return ProbeFinding("reach", "no", words, {"status": heard.status, "api": api})
    facts = {"status": heard.status, "type": heard.error.type if heard.error else ""}
    if heard.status is None:
        return ProbeFinding("reach", "no", f"it cannot be asked: {heard.why}", facts)
    return ProbeFinding("reach", "no", f"it answers, but not as {api} does: {heard.why}", facts)


def _models_found(names: list[str] | None, asked: str) -> ProbeFinding:
    if names is None:
        return ProbeFinding(
            "models", "no", f"none are listed; asked for {asked!r}", {"asked": asked}
        )
    is_known = asked in names
    some = ", ".join([*names[:SHOWN], *(["…"] if len(names) > SHOWN else [])])
    there = "" if is_known else ", which is not among them"
    words = f"{len(names)} listed ({some}); asked for {asked!r}{there}"
    return ProbeFinding("models", "yes" if is_known else "partly", words, {"asked": asked})


# --- what follows from it ---


def advice(found: Diagnosis, upstream: UpstreamSettings) -> dict[str, Any]:
    """Return the settings that fit what was found."""
    by_probe = {finding.probe: finding for finding in found.findings}
    settings: dict[str, Any] = {"api": found.api, "base_url": found.url}
    if upstream.key_env:
        settings["key_env"] = upstream.key_env
    if upstream.model or not found.models:
        settings["model"] = found.model
    if _verdict(by_probe, "stream") == "no":
        settings["streaming"] = False
    settings |= _calling(by_probe)
    reasoning = by_probe["reasoning"].facts if "reasoning" in by_probe else {}
    settings |= {
        name: reasoning[key]
        for name, key in (("reasoning", "style"), ("prompt_suffix", "prompt_suffix"))
        if reasoning.get(key)
    }
    return settings


def _calling(by_probe: dict[str, ProbeFinding]) -> dict[str, Any]:
    """Say how tools are shown: natively where that gave calls, be it as text, else in words."""
    formats = by_probe["format"].facts if "format" in by_probe else {}
    is_native = _verdict(by_probe, "tools") in ("yes", "partly") or formats.get("seen")
    if is_native:
        seen = formats.get("seen")
        return {"tools": "native", **({"format": seen} if seen else {})}
    settings: dict[str, Any] = {"tools": "prompt"}
    usual = formats.get("by_name", "auto")
    if told := formats.get("told"):
        settings["format"] = told
    elif usual != "auto":
        settings["format"] = usual
    honoured = [form for form in reversed(FORMS) if _verdict(by_probe, form) == "yes"]
    if honoured:
        settings["constrain"] = honoured[0]
    return settings


def _verdict(by_probe: dict[str, ProbeFinding], name: str) -> str:
    return by_probe[name].verdict if name in by_probe else "unknown"
