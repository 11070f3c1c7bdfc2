r"""Rules out of Markdown files: the head says when a rule speaks, the body is what it says.

::

    ---
    condition: console\.log
    scope: [edit_file(*.ts), write_file(*.ts)]
    interrupt: tool-only
    ---
    Use `logger.debug`; see docs/logging.md.

A condition or a word of the scope that cannot be read is left out, with a warning; a rule that has
none left is refused. Fields that mean nothing here are for others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

from penstock.agent.rules.front_matter import Fields, FrontMatterError, read_front_matter
from penstock.agent.rules.rule import Interrupt, Repeat, Rule, RuleError, compile_condition
from penstock.agent.rules.scopes import DEFAULT_SCOPE, KINDS, read_scope
from penstock.agent.rules.structure import is_slow

MAX_RULE: Final = 100_000
"""How long a rule's file may be, in bytes: its text goes into the model's context."""

Warn = Callable[[str], None]
"""Is told what is wrong with a rule."""

_NAMES: Final = {
    "condition": "conditions",
    "glob": "globs",
    "interruptmode": "interrupt",
    "repeatmode": "repeat",
    "repeatgap": "gap",
    "contextmode": "context",
}
"""Other ways to write the fields, without regard to case, ``-`` and ``_``."""

_CONTEXTS: Final = {"keep": True, "discard": False}
_TRUTHS: Final = {"true": True, "yes": True, "false": False, "no": False}


def read_rule(text: str, name: str, on_warning: Warn | None = None) -> Rule:
    """Read the rule called *name* out of the *text* of its file.

    *on_warning* is told what was left out. Raises `RuleError` with the reason why there is no rule.
    """
    try:
        fields, body = read_front_matter(text)
    except FrontMatterError as exc:
        raise RuleError(name, str(exc)) from exc
    return _Reading(name, fields, on_warning or _ignore).rule(body.strip())


def load_rules(folder: str | Path, on_warning: Warn | None = None) -> list[Rule]:
    """Load a rule out of every ``*.md`` file in *folder*, named as the file is, in their order.

    *on_warning* is told what was left out, and which files are no rules. A folder that is not there
    has none.
    """
    warn = on_warning or _ignore
    rules = []
    for path in sorted(Path(folder).glob("*.md")):
        try:
            rules.append(read_rule(_read(path), path.stem, warn))
        except RuleError as exc:
            warn(str(exc))
    return rules


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise RuleError(path.stem, "it is no file")
        with path.open("rb") as file:
            data = file.read(MAX_RULE + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise RuleError(path.stem, f"its file cannot be read: {exc}") from exc
    if len(data) > MAX_RULE:
        raise RuleError(path.stem, f"its file is longer than {MAX_RULE} bytes")
    return text


def _ignore(_warning: str) -> None:
    pass


class _Reading:
    """The fields of one rule, and whom to warn."""

    def __init__(self, name: str, fields: Fields, warn: Warn) -> None:
        self._name = name
        self._warn = warn
        self._fields: Fields = {}
        for key, value in fields.items():
            plain = key.lower().replace("-", "").replace("_", "")
            self._fields[_NAMES.get(plain, plain)] = value

    def rule(self, body: str) -> Rule:
        """Make the rule of what can be read."""
        if not body:
            raise RuleError(self._name, "it has nothing to say")
        conditions = self._conditions()
        if not conditions:
            raise RuleError(self._name, "it has no condition")
        return Rule(
            self._name,
            conditions,
            body,
            scope=self._scope(),
            globs=self._words("globs"),
            interrupt=self._one_of("interrupt", get_args(Interrupt)),
            repeat=self._one_of("repeat", get_args(Repeat)),
            gap=self._gap(),
            keep=self._keep(),
        )

    def _words(self, key: str) -> tuple[str, ...]:
        value = self._fields.get(key, "")
        words = [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(word for word in words if word))

    def _conditions(self) -> tuple[str, ...]:
        compiled = {word: compile_condition(word) for word in self._words("conditions")}
        for word, result in compiled.items():
            if isinstance(result, str):
                self._complain(result)
            elif is_slow(result):
                self._complain(f"its condition {word!r} repeats a repetition: it may be very slow")
        return tuple(word for word, result in compiled.items() if not isinstance(result, str))

    def _scope(self) -> tuple[str, ...]:
        tokens = self._words("scope")
        readable = tuple(token for token in tokens if read_scope(token) is not None)
        for token in tokens:
            if token not in readable:
                self._complain(f"its scope {token!r} means nothing")
            elif token != token.lower() and token.lower() in KINDS:
                self._complain(f"its scope {token!r} is a tool of that name, not {token.lower()!r}")
        return readable if tokens else DEFAULT_SCOPE

    def _one_of(self, key: str, choices: tuple[str, ...]) -> Any:
        words = self._words(key)
        if not words:
            return None
        if words[0] in choices:
            return words[0]
        self._complain(f"its {key} {words[0]!r} is none of {', '.join(choices)}")
        return None

    def _gap(self) -> int | None:
        words = self._words("gap")
        if not words:
            return None
        is_number = words[0].isascii() and words[0].isdigit() and len(words[0]) < len("1000000")
        if is_number and int(words[0]):
            return int(words[0])
        self._complain(f"its gap {words[0]!r} is no number of turns")
        return None

    def _keep(self) -> bool | None:
        for key, meanings in (("keep", _TRUTHS), ("context", _CONTEXTS)):
            if (word := self._one_of(key, tuple(meanings))) is not None:
                return meanings[word]
        return None

    def _complain(self, reason: str) -> None:
        self._warn(str(RuleError(self._name, reason)))
