"""Which of a client's headers an upstream gets."""

from __future__ import annotations

from penstock.gateway.routing import headers_for


def test_a_clients_headers_stay_here_but_for_those_that_upstreams_read() -> None:
    sent = {
        "anthropic-beta": b"tools-2099",
        "openai-beta": b"assistants=v2",
        "idempotency-key": b"the client's own",
        "cookie": b"a=b",
    }
    assert headers_for(sent) == {"anthropic-beta": "tools-2099", "openai-beta": "assistants=v2"}
