"""The tools of a workspace, put together."""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.agent.tools.base import AgentTool
from penstock.agent.tools.functions import tool
from penstock.agent.workspace.files import DirectoryListing, Files
from penstock.agent.workspace.sandbox import Folder
from penstock.agent.workspace.shell import SHELL_SECONDS, Shell


def workspace_tools(
    root: str | os.PathLike[str],
    *,
    shell_seconds: float = SHELL_SECONDS,
    env: Mapping[str, str] | None = None,
    read_only: bool = False,
    shell: bool = True,
) -> list[AgentTool]:
    """Make the tools that work in the folder *root*.

    `read_file` and `list_files` run as they are called; `write_file`, `edit_file` and `run_bash`
    run alone and need approval: an agent without `approve` denies them. With *read_only* there are
    only the first two, without *shell* no `run_bash`. The file tools cannot leave *root*; a shell
    can go wherever its user can. Commands run for up to *shell_seconds*, with the variables *env*,
    or those of this process.
    """
    folder = Folder(root)
    files = Files(folder)
    looking = (files.read_file, DirectoryListing(folder).list_files)
    tools: list[AgentTool] = [tool(each, needs_approval=False) for each in looking]
    if not read_only:
        changing = (files.write_file, files.edit_file)
        tools += [tool(each, exclusive=True, needs_approval=True) for each in changing]
    if shell and not read_only:
        run = Shell(folder.root, shell_seconds, env).run_bash
        tools.append(tool(run, exclusive=True, needs_approval=True))
    return tools
