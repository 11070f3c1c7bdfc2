"""The tools of a workspace: files and a shell in one folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from penstock.agent.tools.base import AgentTool, ToolOutput
from penstock.agent.tools.functions import tool
from penstock.workspace.apply_patch import PatchApplier
from penstock.workspace.files import Files
from penstock.workspace.grep import Grep
from penstock.workspace.sandbox import Folder
from penstock.workspace.shell import SHELL_SECONDS, Shell


def workspace_tools(
    root: str | os.PathLike[str],
    *,
    shell_seconds: float = SHELL_SECONDS,
    env: Mapping[str, str] | None = None,
    read_only: bool = False,
    shell: bool = True,
    apply_patch: bool = False,
) -> list[AgentTool]:
    """Make the tools that work in the folder *root*.

    `read_file`, `list_files` and `grep` need no approval. `write_file`, `edit_file` and `run_bash`
    need it, and run alone. With *read_only* there are only the first three, without *shell* no
    `run_bash`, and with *apply_patch* there is a tool for the patches of OpenAI's models. The file
    tools cannot leave *root*; a shell can access everything that its user can. Commands run for at
    most *shell_seconds*, with the variables *env*, by default those of this process.
    """
    folder = Folder(root)
    files = Files(folder)
    looking = (files.read_file, files.list_files, Grep(folder).grep)
    tools: list[AgentTool] = [tool(each, needs_approval=False) for each in looking]
    if not read_only:
        changing: list[Callable[..., ToolOutput]] = [files.write_file, files.edit_file]
        if apply_patch:
            changing.append(PatchApplier(folder).apply_patch)
        tools += [tool(each, exclusive=True, needs_approval=True) for each in changing]
    if shell and not read_only:
        run = Shell(folder.root, shell_seconds, env).run_bash
        tools.append(tool(run, exclusive=True, needs_approval=True))
    return tools
