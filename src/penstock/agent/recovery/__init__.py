"""Recovery: what an agent does about an answer that failed, and a conversation that grew too long.

Nothing here runs the agent; the loop asks. `faults` says what a failure is and `retrying` when to
try again; `tokens` says how long a conversation is, `compaction` when that is too long, `pruning`
what can be shortened, `cutting` where to cut, `summarizing` what to put in place of the rest, and
`costs` what all of it took. All but the summary is pure.
"""

from penstock.agent.recovery.classify import (
    empty_answer,
    is_empty,
    is_overflow,
    is_transient,
    is_usage_limit,
    limit_reason,
    limit_wait,
    overflowed,
)
from penstock.agent.recovery.compaction import Compaction, Cut, Pruned, cut_points, plan, prune
from penstock.agent.recovery.retry import AgentRetry
from penstock.agent.recovery.summarize import (
    SummaryError,
    compacted,
    summarize,
    summary_message,
    summary_of,
)
from penstock.agent.recovery.token_estimate import context_tokens, ratio, tokens_of
from penstock.agent.usage import Cost, Prices, Spending, cost

__all__ = [
    "AgentRetry",
    "Compaction",
    "Cost",
    "Cut",
    "Prices",
    "Pruned",
    "Spending",
    "SummaryError",
    "compacted",
    "context_tokens",
    "cost",
    "cut_points",
    "empty_answer",
    "is_empty",
    "is_overflow",
    "is_transient",
    "is_usage_limit",
    "limit_reason",
    "limit_wait",
    "overflowed",
    "plan",
    "prune",
    "ratio",
    "summarize",
    "summary_message",
    "summary_of",
    "tokens_of",
]
