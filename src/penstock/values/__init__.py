"""Text to values: robust JSON and XML, and JSON Schema; knows no events.

Each reader is loaded when it is first used: their patterns take longer to compile than all the rest
of penstock takes to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.values import rjson, rxml
    from penstock.values.coercion import coerce
    from penstock.values.incremental import IncrementalJSON
    from penstock.values.incremental_state import Change, Watch
    from penstock.values.schema import Schema

__all__ = ["Change", "IncrementalJSON", "Schema", "Watch", "coerce", "rjson", "rxml"]

_MODULES = {
    "Change": "incremental",
    "IncrementalJSON": "incremental",
    "Schema": "schema",
    "Watch": "incremental",
    "coerce": "coercion",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock.values' has no attribute {name!r}")
    module = import_module(f"penstock.values.{_MODULES.get(name, name)}")
    value = getattr(module, name) if name in _MODULES else module
    globals()[name] = value
    return value
