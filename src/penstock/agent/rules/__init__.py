"""Stream rules: what a model must not write is noticed while it is being written.

A `Rule` is some regular expressions, where to look for them, and what to tell the model.
`RuleWatch` follows every answer as it comes; when a rule is met the answer is stopped at once, the
model is told, and answers again. `loading` reads rules out of Markdown files. How many conditions
are followed at the cost of one is the business of `nodes`, `structure`, `graph`, `automaton` and
`finding`; the files above them know nothing of it.
"""

from penstock.agent.rules.finding import WINDOW
from penstock.agent.rules.loading import load_rules, read_rule
from penstock.agent.rules.rule import BUDGET, GAP, Rule, RuleError, RuleSettings
from penstock.agent.rules.watch import RuleWatch

__all__ = [
    "BUDGET",
    "GAP",
    "WINDOW",
    "Rule",
    "RuleError",
    "RuleSettings",
    "RuleWatch",
    "load_rules",
    "read_rule",
]
