"""A reader of GBNF of its own: whether a grammar matches a text, and texts at random from it.

It shares nothing with the code that writes grammars, so that a grammar that llama.cpp could not
read, or that says something else than was meant, is found here.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<set>\[\^?(?:[^\]\\\n]|\\.)*\])'
    r"|(?P<name>[A-Za-z][A-Za-z0-9-]*)|(?P<times>\{\d+,?\d*\}|[*+?])|(?P<sign>[()|]))"
)
_RULE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*) ::= (?P<body>[^\n]+)\n")
_ESCAPE = re.compile(r'\\(?:x([0-9A-F]{2})|u([0-9A-F]{4})|U([0-9A-F]{8})|([nrt"\\\[\]]))')
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Letter:
    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def has(self, letter: str) -> bool:
        return any(low <= letter <= high for low, high in self.ranges) != self.negated


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Row:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Times:
    part: Node
    low: int
    high: int | None


Node = Text | Letter | Name | Row | Choice | Times


class Grammar:
    """A grammar, read from its text; raises ``ValueError`` for what is none."""

    def __init__(self, text: str) -> None:
        found = list(_RULE.finditer(text))
        if "".join(rule[0] for rule in found) != text:
            raise ValueError("a line is no rule")
        self.rules = {rule["name"]: _Body(rule["body"]).read() for rule in found}
        if len(self.rules) != len(found):
            raise ValueError("a rule is said twice")
        self._depths: dict[int, float] = {}  # of nodes, which stay as they are
        if unknown := self.named() - set(self.rules):
            raise ValueError(f"no such rule: {unknown}")

    def named(self) -> set[str]:
        """Return the names that the rules refer to."""
        return {node.name for body in self.rules.values() for node in _below(body)
                if isinstance(node, Name)}  # fmt: skip

    def reachable(self) -> set[str]:
        """Return the rules that can be reached from the root."""
        found, waiting = {"root"}, ["root"]
        while waiting:
            for node in _below(self.rules[waiting.pop()]):
                if isinstance(node, Name) and node.name not in found:
                    found.add(node.name)
                    waiting.append(node.name)
        return found

    def matches(self, text: str) -> bool:
        """Return whether the root matches all of *text*."""
        return len(text) in _Match(self, text).ends(Name("root"), 0)

    def sample(self, chance: random.Random, depth: int = 12) -> str:
        """Return a random text that the root matches, short below *depth*."""
        return _Walk(self, chance).text(Name("root"), depth)

    @cached_property
    def least(self) -> dict[str, float]:
        """How deep the shallowest text of each rule is."""
        least = dict.fromkeys(self.rules, float("inf"))
        waiting = True
        while waiting:
            waiting = False
            for name, body in reversed(self.rules.items()):
                found = 1 + self.depth(body, least)
                if found < least[name]:
                    least[name] = found
                    waiting = True
        return least

    def least_of(self, node: Node) -> float:
        """Return the depth of the shallowest text of *node*."""
        if id(node) not in self._depths:
            self._depths[id(node)] = self.depth(node, self.least)
        return self._depths[id(node)]

    def depth(self, node: Node, least: dict[str, float]) -> float:
        match node:
            case Name(name):
                return least[name]
            case Row(parts):
                return max((self.depth(part, least) for part in parts), default=0)
            case Choice(parts):
                return min(self.depth(part, least) for part in parts)
            case Times(part, low, _):
                return self.depth(part, least) if low else 0
            case _:
                return 0


class _Body:
    """Reads the body of one rule."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None or token.lastgroup is None:
                raise ValueError(f"not GBNF: {text[at:]!r}")
            self._tokens.append((token.lastgroup, token[token.lastgroup]))
            at = token.end()
        self._tokens.reverse()

    def read(self) -> Node:
        body = self._choice()
        if self._tokens:
            raise ValueError("more than one body")
        return body

    def _choice(self) -> Node:
        parts = [self._row()]
        while self._tokens and self._tokens[-1][1] == "|" and self._tokens.pop():
            parts.append(self._row())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _row(self) -> Node:
        parts: list[Node] = []
        while self._tokens and self._tokens[-1] not in (("sign", "|"), ("sign", ")")):
            parts.append(self._part())
        if not parts:
            raise ValueError("an empty choice")
        return Row(tuple(parts))

    def _part(self) -> Node:
        kind, token = self._tokens.pop()
        node: Node
        match kind:
            case "text":
                node = Text(_plain(token[1:-1]))
            case "set":
                node = _letter(token[1:-1])
            case "name":
                node = Name(token)
            case "sign":
                node = self._choice()
                if not self._tokens or self._tokens.pop() != ("sign", ")"):
                    raise ValueError("a parenthesis is open")
            case _:
                raise ValueError("nothing to repeat")
        while self._tokens and self._tokens[-1][0] == "times":
            node = _times(node, self._tokens.pop()[1])
        return node


def _times(node: Node, sign: str) -> Node:
    if sign in _SIGNS:
        return Times(node, *_SIGNS[sign])
    low, comma, high = sign[1:-1].partition(",")
    return Times(node, int(low), int(high) if high else None if comma else int(low))


_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _plain(text: str) -> str:
    plain = _ESCAPE.sub(_said, text)
    if "\\" in _ESCAPE.sub("", text):
        raise ValueError(f"no such escape in {text!r}")
    return plain


def _said(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else _LETTERS.get(escape[4], escape[4])


def _letter(inside: str) -> Letter:
    negated = inside.startswith("^")
    units = re.findall(r"\\x..|\\u....|\\U.{8}|\\.|.", inside[negated:])
    ranges = []
    while units:
        low = units.pop(0)
        high = low
        if len(units) > 1 and units[0] == "-":
            high = units[1]
            del units[:2]
        ranges.append((_plain(low), _plain(high)))
    return Letter(tuple(ranges), negated)


def _below(node: Node) -> list[Node]:
    match node:
        case Row(parts) | Choice(parts):
            return [node, *(inner for part in parts for inner in _below(part))]
        case Times(part):
            return [node, *_below(part)]
        case _:
            return [node]


class _Match:
    """Finds where the texts that a node matches may end; every question is answered once."""

    def __init__(self, grammar: Grammar, text: str) -> None:
        self._grammar = grammar
        self._text = text
        self._known: dict[tuple[str, int], set[int] | None] = {}

    def ends(self, node: Node, at: int) -> set[int]:
        match node:
            case Text(text):
                return {at + len(text)} if self._text.startswith(text, at) else set()
            case Letter():
                return {at + 1} if at < len(self._text) and node.has(self._text[at]) else set()
            case Name(name):
                return self._named(name, at)
            case Choice(parts):
                return set().union(*(self.ends(part, at) for part in parts))
            case Row(parts):
                found = {at}
                for part in parts:
                    found = set().union(*(self.ends(part, place) for place in found))
                return found
            case Times(part, low, high):
                return self._repeated(part, low, high, at)

    def _named(self, name: str, at: int) -> set[int]:
        key = name, at
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self.ends(self._grammar.rules[name], at)
        found = self._known[key]
        if found is None:
            raise ValueError(f"{name} begins with itself")
        return found

    def _repeated(self, part: Node, low: int, high: int | None, at: int) -> set[int]:
        found, last, count = set(), {at}, 0
        if not low:
            found.add(at)
        while last and (high is None or count < high):
            count += 1
            last = set().union(*(self.ends(part, place) for place in last)) - (
                found if count > low else set()
            )
            if count >= low:
                found |= last
        return found


class _Walk:
    """Writes a text that a node matches."""

    def __init__(self, grammar: Grammar, chance: random.Random) -> None:
        self._grammar = grammar
        self._chance = chance
        literals = {node.text for body in grammar.rules.values() for node in _below(body)
                    if isinstance(node, Text)}  # fmt: skip
        self._marks = sorted({letter for text in literals for letter in text}) or ["x"]

    def text(self, node: Node, depth: float) -> str:
        match node:
            case Text(text):
                return text
            case Letter():
                return self._letter(node)
            case Name(name):
                return self.text(self._grammar.rules[name], depth - 1)
            case Row(parts):
                return "".join(self.text(part, depth) for part in parts)
            case Choice(parts):
                return self.text(self._chance.choice(self._shallow(parts, depth)), depth)
            case Times(part, low, high):
                most = low if depth < 0 else low + 6
                most = most if high is None else min(most, high)
                if self._grammar.least_of(part) > depth:
                    most = low
                count = self._chance.randint(low, most)
                return "".join(self.text(part, depth) for _ in range(count))

    def _shallow(self, parts: tuple[Node, ...], depth: float) -> list[Node]:
        depths = [self._grammar.least_of(part) for part in parts]
        bound = max(depth, min(depths))
        return [part for part, found in zip(parts, depths, strict=True) if found <= bound]

    def _letter(self, letter: Letter) -> str:
        if not letter.negated:
            low, high = self._chance.choice(letter.ranges)
            return chr(self._chance.randint(ord(low), ord(high)))
        pool = (
            self._marks
            if self._chance.random() < 0.5
            else list("ab Z09\n\t'\u00e9\u4e16\U0001f600")
        )
        valid = [one for one in pool if letter.has(one)] or [
            one for one in "aq8" if letter.has(one)
        ]
        return self._chance.choice(valid)
