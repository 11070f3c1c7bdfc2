"""Stream rules: notice what a model must not write while it is being written.

A `Rule` is some regular expressions, where to search for them, and a text for the model.
`RuleGuard` follows every response as it arrives; when a rule matches, the response is stopped, the
model receives the text, and responds again. `load` reads rules from Markdown files, `guard`
separates a response into what is searched, and `matcher` searches.
"""

from penstock.agent.rules.guard import RuleGuard
from penstock.agent.rules.load import load_rules, read_rule
from penstock.agent.rules.matcher import WINDOW
from penstock.agent.rules.rule import BUDGET, GAP, Rule, RuleError, RuleSettings

__all__ = [
    "BUDGET",
    "GAP",
    "WINDOW",
    "Rule",
    "RuleError",
    "RuleGuard",
    "RuleSettings",
    "load_rules",
    "read_rule",
]
