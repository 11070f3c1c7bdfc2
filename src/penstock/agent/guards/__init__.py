"""Guards: a call that cannot succeed is stopped while its arguments still arrive."""

from penstock.agent.guards.edit import READING, WRITING, EditGuard
from penstock.agent.guards.files import MAX_FILE, MAX_FILES

__all__ = ["MAX_FILE", "MAX_FILES", "READING", "WRITING", "EditGuard"]
