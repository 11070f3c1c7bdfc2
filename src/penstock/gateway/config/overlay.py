"""Flags and variables laid over what the file says.

The flags about the upstream mean the default one. A URL on the command line is a new upstream,
called ``default``: it takes nothing over from the file, so no key of another server goes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.gateway.config.flags import CLIENT_KEY, UPSTREAM, UPSTREAM_KEY, Flag
from penstock.gateway.config.problems import Place, Problems
from penstock.gateway.config.reading import Given

DEFAULT: Final = "default"
"""The name of the upstream that the command line made."""

DEMO: Final = "demo"
"""The name of the upstream that is there without any other."""

ENVIRONMENT: Final = "environment"
"""The name of the client's key that came by a variable."""

Tree = dict[str, Any]


def overlay(
    tree: Tree, given: Mapping[Flag, Given], environ: Mapping[str, str], problems: Problems
) -> None:
    """Put into *tree*, what the file says, all that was *given* otherwise."""
    for flag, value in given.items():
        if flag.place and flag.place[0] != UPSTREAM:
            section, name = flag.place
            _table(tree, section)[name] = value
    said: Tree = {flag.place[1]: value for flag, value in given.items() if UPSTREAM in flag.place}
    if environ.get(UPSTREAM_KEY):
        said.setdefault("key_env", Given(UPSTREAM_KEY, UPSTREAM_KEY))
    _lay_over_upstream(tree, said, problems)
    if environ.get(CLIENT_KEY):
        _table(tree, "keys")[ENVIRONMENT] = {"env": Given(CLIENT_KEY, CLIENT_KEY)}


def _lay_over_upstream(tree: Tree, said: Tree, problems: Problems) -> None:
    upstreams = _table(tree, "upstreams")
    if "base_url" in said or ("api" in said and not upstreams):
        upstreams[DEFAULT] = said
        tree["default_upstream"] = DEFAULT
    elif upstreams:
        tree.setdefault("default_upstream", next(iter(upstreams)) if len(upstreams) == 1 else "")
        _change_default(tree["default_upstream"], upstreams, said, problems)
    else:
        said.pop("key_env", None)  # It is for a server, and the scripted model is none.
        upstreams[DEMO] = {"api": DEMO, **said}
        tree.setdefault("default_upstream", DEMO)


def _change_default(name: object, upstreams: Tree, said: Tree, problems: Problems) -> None:
    chosen = upstreams.get(name) if isinstance(name, str) else None
    if isinstance(chosen, dict):
        replaced = {"key", "key_file"} if "key_env" in said else set()
        kept = {key: value for key, value in chosen.items() if key not in replaced}
        upstreams[str(name)] = {**kept, **said}
    elif not name:
        for value in said.values():
            message = "there are several upstreams: default_upstream says which one is meant"
            problems.add(Place((UPSTREAM,), value.label), message)


def _table(tree: Tree, name: str) -> Tree:
    """Give the table *name* of *tree*; one that gets lost if something else stands there."""
    table = tree.setdefault(name, {})
    return table if isinstance(table, dict) else {}
