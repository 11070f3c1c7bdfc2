"""The gateway: clients of three APIs on one side, any model on the other.

The path of a request: `protocol` (HTTP) → `app` → `routes` → `auth` → `completion_handler` →
`model_router` → `tool_adapter` → the model, and back through `response` to `http_exchange`.
`request_log` records it. `factory` builds the gateway from `penstock.config`, `server` runs it.
"""
