"""Built-in tools that work on the files of one folder."""

from penstock.agent.workspace.assembly import workspace_tools

__all__ = ["workspace_tools"]
