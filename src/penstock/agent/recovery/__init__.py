"""Recovery: what an agent does about an answer that failed, and a conversation that grew too long.

Nothing here runs the agent; the loop asks. `faults` says what a failure is and `retrying` when to
try again; `tokens` says how long a conversation is, `compaction` when that is too long, `pruning`
what can be shortened, `cutting` where to cut, `summarizing` what to put in place of the rest, and
`costs` what all of it took. All but the summary is pure.
"""

from penstock.agent.recovery.compaction import Compaction
from penstock.agent.recovery.costs import Cost, Prices, Spending, cost
from penstock.agent.recovery.cutting import Cut, cut_points, plan
from penstock.agent.recovery.faults import (
    empty_answer,
    is_empty,
    is_overflow,
    is_transient,
    overflowed,
)
from penstock.agent.recovery.pruning import Pruned, prune
from penstock.agent.recovery.retrying import AgentRetry
from penstock.agent.recovery.summaries import compacted, summary_message, summary_of
from penstock.agent.recovery.summarizing import SummaryError, summarize
from penstock.agent.recovery.tokens import context_tokens, ratio, tokens_of
from penstock.agent.recovery.usage_limits import is_usage_limit, limit_reason, limit_wait

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
