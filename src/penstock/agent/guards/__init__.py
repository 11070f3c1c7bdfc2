"""Guards: a call that cannot succeed is stopped while its arguments still arrive."""

from penstock.agent.guards.edit import CHANGING, EditGuard
from penstock.agent.guards.files import MAX_FILE, MAX_FILES

__all__ = ["CHANGING", "MAX_FILE", "MAX_FILES", "EditGuard"]
