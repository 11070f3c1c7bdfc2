"""The configuration of the gateway: a file, variables and flags become one checked value.

`settings` and `upstreams` say what there is to set. `load` reads the file (`loading`), fills in
variables (`variables`), lays flags over it (`flags`, `overlay`), reads each value by its kind
(`reading`, `rules`), brings the secrets (`credentials`), sees that all of it agrees (`agreement`),
and tells every problem at once (`problems`).
"""

from penstock.gateway.config.addresses import Address
from penstock.gateway.config.advice import check
from penstock.gateway.config.flags import FLAGS, Flag, as_environ
from penstock.gateway.config.keys import hash_key, new_key
from penstock.gateway.config.loading import find_file, load
from penstock.gateway.config.problems import ConfigError
from penstock.gateway.config.reference import flag_reference, reference
from penstock.gateway.config.reloading import needs_restart
from penstock.gateway.config.routes import Options, Route
from penstock.gateway.config.settings import (
    KeySettings,
    LimitSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from penstock.gateway.config.upstreams import (
    DemoSettings,
    LocalSettings,
    ModelSettings,
    QwenSettings,
    TimeoutSettings,
    UpstreamSettings,
)

__all__ = [
    "FLAGS",
    "Address",
    "ConfigError",
    "DemoSettings",
    "Flag",
    "KeySettings",
    "LimitSettings",
    "LocalSettings",
    "ModelSettings",
    "Options",
    "QwenSettings",
    "Route",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "TimeoutSettings",
    "UpstreamSettings",
    "as_environ",
    "check",
    "find_file",
    "flag_reference",
    "hash_key",
    "load",
    "needs_restart",
    "new_key",
    "reference",
]
