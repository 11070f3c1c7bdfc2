"""From the flags of the command to a conversation, at a terminal or without one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console

from penstock.agent import Agent
from penstock.cli.chat.approving import Approver, Policy, read_policy
from penstock.cli.chat.assembly import assemble
from penstock.cli.chat.chat import Chat
from penstock.cli.chat.keeping import Keeper, usual_folder
from penstock.cli.chat.models import Choice, model_for, named
from penstock.cli.chat.printing import print_answer
from penstock.cli.chat.prompts import unknown
from penstock.cli.chat.terminal import has_terminal
from penstock.cli.output import say
from penstock.errors import UsageError

__all__ = [
    "Choice",
    "Options",
    "has_terminal",
    "read_folder",
    "read_policy",
    "read_prompt",
    "talk",
    "usual_folder",
]

_NO_TERMINAL: Final = "there is no terminal here: say what to do, as an argument or on stdin"


class Options(Struct, frozen=True, kw_only=True):
    """What the command was asked for."""

    choice: Choice
    folder: Path
    policy: Policy
    prompt: str = ""
    session: Path | None = None
    sessions: Path | None = None
    resume: bool = False
    rules: Path | None = None
    eager: bool = False
    colours: bool = True
    plain: bool = False


def read_folder(folder: Path) -> Path:
    """Give the folder to work in; raise `UsageError` if it is none."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    return folder.resolve()


def read_prompt(prompt: str, *, plain: bool) -> str:
    """Give what to begin with, from stdin where that is meant.

    Raises `UsageError` where there is neither a prompt nor somebody to type one.
    """
    if prompt == "-" or (plain and not prompt and not sys.stdin.isatty()):
        prompt = sys.stdin.read()
    if plain and not prompt.strip():
        raise UsageError(_NO_TERMINAL)
    return prompt.strip()


async def talk(options: Options) -> bool:
    """Talk as *options* say; tell whether all went well."""
    approver = Approver(options.policy)
    warnings: list[str] = []
    choice, agent = await _agent(options, approver, warnings)
    keeper = Keeper(agent, options.sessions, options.folder)
    try:
        await _open(keeper, options)
        if options.plain:
            warnings += [f"{unknown(call)}; it is not run again" for call in agent.interrupted]
            for warning in warnings:
                say(Console(stderr=True), f"! {warning}", "yellow")
            return await print_answer(keeper, options.prompt)
        await _chat(keeper, approver, choice, options, warnings)
    finally:
        await keeper.close()
        await agent.model.close()
    return True


async def _agent(options: Options, approver: Approver, warnings: list[str]) -> tuple[Choice, Agent]:
    model = model_for(options.choice, os.environ)
    choice = await named(options.choice, model)
    if choice != options.choice:
        await model.close()
        model = model_for(choice, os.environ)
    agent = assemble(
        model,
        options.folder,
        approver,
        rules=options.rules,
        eager=options.eager,
        warn=warnings.append,
    )
    return choice, agent


async def _open(keeper: Keeper, options: Options) -> None:
    if options.session is not None:
        await keeper.open(options.session)
    elif options.resume:
        await keeper.resume()
    else:
        await keeper.begin()


async def _chat(
    keeper: Keeper, approver: Approver, choice: Choice, options: Options, warnings: list[str]
) -> None:
    chat = Chat(keeper, approver, choice, colours=options.colours)
    name = keeper.agent.model.name or "a model"
    chat.page.line(f"penstock chat: {name} in {options.folder}", "bold")
    for warning in warnings:
        chat.page.line(warning, "yellow", "! ")
    if keeper.agent.messages:
        chat.recall()
    await chat.run(options.prompt)
