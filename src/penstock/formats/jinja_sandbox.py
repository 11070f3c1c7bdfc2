"""A Jinja environment with resource limits, for untrusted chat templates.

Jinja's own sandbox keeps a template away from Python's internals. Templates may modify lists, also
those they are given, so they get copies. Jinja limits neither time nor memory; this environment
does:

* each iteration of a loop, each call, filter and sum is a step; large operands cost more steps;
* the result of a step (text, a list, a number) has a maximum size, and operations that make much
  from little (a product, a width, ``replace``) are checked before they run;
* the template and its output have a maximum length; rendering stops when it is exceeded.

Comparisons, tests, slices and arguments of calls cost steps by the size of their operands: ``x in
text`` costs as many steps as the text is long, and lists that contain each other many times exceed
the maximum size.

A step takes bounded time and a template has a bounded number of steps, so every template ends: a
hostile one may take a second and some hundred megabytes. The cost of compiling is not measured.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, Final

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import Namespace

MAX_TEMPLATE: Final = 131_072
"""The maximum length of a template in characters: real ones stay below a third of it."""

MAX_STEPS: Final = 20_000
"""The maximum number of steps: real templates take some hundreds."""

MAX_WORK: Final = 268_435_456
"""The maximum of the template's length times its steps: a macro may render text that is dropped."""

MAX_VALUE: Final = 131_072
"""The maximum length of a text or list that a template makes, and of its output."""

MAX_NUMBER: Final = 10_000
"""The largest number that a template may pass to a method or filter, or may count to."""

MAX_PRODUCT: Final = 16_777_216
"""The maximum product of the two largest operands of a filter or a string method, checked before
the result is made."""

_STEP_SIZE: Final = 64  # characters of a text per step
_STEP_ITEMS: Final = 16  # items of a list per step
_REPEATING: Final = ("do_sum", "sync_do_sum")  # These copy the sum so far for every list.


class RunawayError(TemplateError):
    """A template exceeded a limit."""


class Sandbox(SandboxedEnvironment):
    """Runs one template at a time and counts its steps."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # Constant folding happens while compiling and is not counted.
            finalize=self._measure,  # Covers output inside macros and blocks too.
            extensions=[loopcontrols, Generation],
        )
        self._steps = MAX_STEPS
        self.filters.update(tojson=_to_json, fromjson=json.loads, from_json=json.loads)
        self.filters = {name: self._measured(made) for name, made in self.filters.items()}
        self.filters.update(counted=self._counted, measured=self._measure)
        tests: dict[str, Any] = dict(self.tests)
        self.tests = {name: self._measured(made) for name, made in tests.items()}
        self.globals = {
            "range": _range,
            "dict": dict,
            "namespace": _Variables,
            "raise_exception": _refuse,
            "strftime_now": _date,
        }

    def load(self, source: str) -> Template:
        """Compile *source* with counted loops and measured concatenations."""
        if len(source) > MAX_TEMPLATE:
            raise RunawayError("the template is too long")
        tree = self.parse(source)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:  # Inner iterations could not be counted; no chat template needs it.
                raise RunawayError("the template has a recursive loop")
            loop.iter = _piped(loop.iter, "counted")
        for block in tree.find_all(nodes.AssignBlock):
            block.filter = _piped(block.filter, "measured")
        _measure_joins(tree)
        for comparison in tree.find_all(nodes.Compare):
            comparison.expr = _piped(comparison.expr, "measured")
            for operand in comparison.ops:
                operand.expr = _piped(operand.expr, "measured")
        for part in tree.find_all(nodes.Getitem):
            if isinstance(part.arg, nodes.Slice):  # A slice copies.
                part.node = _piped(part.node, "measured")
        tree.set_environment(self)
        return Template.from_code(self, self.compile(tree), {**self.globals})

    def write(self, template: Template, size: int, variables: dict[str, Any]) -> str:
        """Render *template*, whose source has *size* characters, within the limits."""
        self._steps = min(MAX_STEPS, MAX_WORK // max(size, 1))
        written: list[str] = []
        length = 0
        for piece in template.generate(variables):
            length += len(piece)
            if length > MAX_VALUE:
                raise RunawayError("the template writes too much")
            written.append(piece)
        return "".join(written)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call of the template, with limits on its arguments and its result."""
        # A bound method of a string, such as `replace` or `format`, may make a huge one.
        owner = getattr(args[1], "__self__", None)
        _check_numbers(args, kwargs)
        if isinstance(owner, str):
            _check_product(owner, *args[2:], *kwargs.values())
        for value in (owner, *args[2:], *kwargs.values()):
            self._measure(value)
        return self._measure(super().call(*args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return the format method of a string whose padding is limited."""
        method = super().wrap_str_format(value)
        if method is not None:
            _check_width(value.__self__)
        return method

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute a sum, product, power or ``%`` if its result stays within the limits."""
        if operator == "*" and not (isinstance(left, int) and isinstance(right, int)):
            _check_product(left, right)
        elif operator == "**":
            _check_numbers((left, right), {})
        elif operator == "%":
            _check_width(left)
        return self._measure(super().call_binop(context, operator, left, right))

    def _counted(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._step(1)
            yield item

    def _measured(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """Return the filter or test *made* with limits on its arguments and its result."""

        @functools.wraps(made)  # Jinja reads from attributes which context it must pass.
        def measured(*args: Any, **kwargs: Any) -> Any:
            values = [value for value in (*args, *kwargs.values()) if _weight(value)]
            _check_numbers(values, {})
            _check_product(*values)
            for value in values:
                self._measure(value)
                if made.__name__ == "do_format":
                    _check_width(value)
                elif isinstance(value, list) and made.__name__ in _REPEATING:
                    self._step(len(value) * _weight(value) // _STEP_SIZE**2)
            return self._measure(made(*args, **kwargs))

        return measured

    def _measure(self, value: Any) -> Any:
        """Return *value*; raise `RunawayError` if it is too large."""
        if isinstance(value, int):
            if value.bit_length() > MAX_VALUE:
                raise RunawayError("the template makes too large a number")
            return value
        size = _weight(value)
        if size > MAX_VALUE:
            raise RunawayError("the template makes too much of something")
        self._step(1 + size // (_STEP_SIZE if isinstance(value, str) else _STEP_ITEMS))
        return value

    def _step(self, cost: int) -> None:
        self._steps -= cost
        if self._steps < 0:
            raise RunawayError("the template runs for too long")


class _Variables(Namespace):
    """A namespace with a constant repr: namespaces may contain each other."""

    def __repr__(self) -> str:
        return "<namespace>"


class Generation(Extension):
    """Ignores ``{% generation %}``, which marks the model's output for training."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the statements inside of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _piped(node: Any, name: str) -> nodes.Filter:
    line = 1 if node is None else node.lineno
    return nodes.Filter(node, name, [], [], None, None, lineno=line)


def _measure_joins(tree: nodes.Node) -> None:
    """Measure the result of every ``~`` in *tree*."""
    waiting = [tree]
    while waiting:
        outer = waiting.pop()
        waiting.extend(outer.iter_child_nodes())
        for field, value in outer.iter_fields():
            if isinstance(value, list):
                value[:] = map(_measure_join, value)
            else:
                setattr(outer, field, _measure_join(value))


def _measure_join(value: Any) -> Any:
    return _piped(value, "measured") if isinstance(value, nodes.Concat) else value


def _check_numbers(args: Iterable[Any], kwargs: dict[str, Any]) -> None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, (int, float)) and not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise RunawayError("the template counts too far")


def _check_product(*values: Any) -> None:
    sizes = sorted(abs(one) if isinstance(one, int) else _weight(one) for one in values)
    if prod(sizes[-2:]) > MAX_PRODUCT:
        raise RunawayError("the template makes too much of something")


def _weight(value: Any) -> int:
    """Return the size of *value* with its contents, counted to just above the limit."""
    weight = 0
    waiting = [value]
    while waiting and weight <= MAX_VALUE:
        inner = waiting.pop()
        if isinstance(inner, (str, range)):
            weight += len(inner)
        elif isinstance(inner, dict):
            weight += 1
            waiting += inner.keys()
            waiting += inner.values()
        elif isinstance(inner, (list, tuple, set)):
            weight += 1
            waiting += inner
        else:
            weight += 1
    return weight


def _check_width(text: Any) -> None:
    if isinstance(text, str) and _WIDE.search(text):
        raise RunawayError("the template pads too far")


def _range(*args: int) -> range:
    found = range(*args)
    if len(found) > MAX_NUMBER:
        raise RunawayError("the template counts too far")
    return found


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:  # noqa: FBT001, FBT002
    """Write *value* as JSON without Jinja's HTML escapes, as transformers does."""
    known = {key: options[key] for key in ("indent", "separators", "sort_keys") if key in options}
    return json.dumps(value, ensure_ascii=ensure_ascii, default=list, **known)


def _refuse(message: object = "") -> str:
    raise TemplateError(str(message))


def _date(pattern: str) -> str:
    """Write a fixed Monday instead of today: this layer reads no clock."""
    return _DIRECTIVE.sub(lambda found: _MONDAY.get(found[1], "01"), pattern)


_WIDE: Final = re.compile(r"\d{5}|%[^%a-zA-Z]*\*|\{[^{}]*\{")
_DIRECTIVE: Final = re.compile("%-?([A-Za-z])")
_MONDAY: Final = {"Y": "2024", "y": "24", "B": "January", "b": "Jan", "A": "Monday", "a": "Mon"}
