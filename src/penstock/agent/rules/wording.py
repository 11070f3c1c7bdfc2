"""What the model is told when a rule is met."""

from __future__ import annotations

from html import escape

from penstock.agent.rules.rule import Rule


def told(rule: Rule, path: str = "") -> str:
    """Write the text of *rule*, and which rule it is that was met, and for which *path*."""
    about = f' path="{escape(path)}"' if path else ""
    opening = f'<rule_reminder reason="rule_met" rule="{escape(rule.name)}"{about}>'
    return f"{opening}\n{rule.text.strip()}\n</rule_reminder>"
