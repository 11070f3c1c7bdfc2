"""The configuration of the gateway: ``penstock.toml``, environment variables and flags.

`settings` defines the settings and `types` their value types. `load` reads the file, applies
`flags`, converts the values (`convert`), adds the secrets (`secrets`) and checks the result
(`checks`); it raises all problems in one `ConfigError` (`errors`). `routes` finds the upstream for
a model, and `reference` documents all settings.
"""

from penstock.gateway.config.checks import find_warnings
from penstock.gateway.config.errors import ConfigError
from penstock.gateway.config.flags import FLAGS, Flag
from penstock.gateway.config.load import find_file, load, needs_restart
from penstock.gateway.config.reference import describe, flag_reference, reference
from penstock.gateway.config.routes import ModelOptions, find_route
from penstock.gateway.config.secrets import hash_key, new_key
from penstock.gateway.config.settings import Settings, UpstreamSettings
from penstock.gateway.config.types import SecretURL

__all__ = [
    "FLAGS",
    "ConfigError",
    "Flag",
    "ModelOptions",
    "SecretURL",
    "Settings",
    "UpstreamSettings",
    "describe",
    "find_file",
    "find_route",
    "find_warnings",
    "flag_reference",
    "hash_key",
    "load",
    "needs_restart",
    "new_key",
    "reference",
]
