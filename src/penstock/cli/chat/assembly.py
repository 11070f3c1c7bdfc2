"""An agent for the terminal, put together: a model, a folder, rules, and who may say no."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.agent import Agent, Compaction
from penstock.agent.guards import EditGuard
from penstock.agent.rules import RuleWatch, load_rules
from penstock.agent.workspace import workspace_tools
from penstock.cli.chat.approving import Approver
from penstock.models.base import Model

RULES: Final = ".penstock/rules"
"""Where rules are looked for in the folder, where nobody says."""

SYSTEM: Final = """\
You are an agent in a terminal. You work in the folder {folder} with the tools that you are given.
Look at a file before you change it, and change no more than was asked for.
Answer briefly: what you say is read in a terminal, and so is every call that you make.\
"""
"""What the model is told before everything else."""


def assemble(
    model: Model,
    folder: Path,
    approver: Approver,
    *,
    rules: Path | None = None,
    eager: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Agent:
    """Make the agent that works in *folder*, watched by the rules in *rules*.

    *warn* is told which rules could not be read.
    """
    found = load_rules(rules or folder / RULES, warn)
    return Agent(
        model,
        workspace_tools(folder),
        SYSTEM.format(folder=folder.name or folder),
        approve=approver,
        watches=[RuleWatch(found, folder=folder), EditGuard(folder)],
        compaction=Compaction(),
        eager=eager,
    )


def rule_watch(agent: Agent) -> RuleWatch:
    """Give the watch of *agent* that holds its rules."""
    return next(watch for watch in agent.watches if isinstance(watch, RuleWatch))
