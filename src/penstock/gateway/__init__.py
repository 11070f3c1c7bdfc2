"""The gateway: clients of three APIs on one side, any model on the other, tool calls correct.

A request comes in by `caller`, is let in by `admission`, finds its way by `paths`, `asking` and
`routing`, is asked and read by `manners`, and answered by `answering` in a `dialect`. Beside it the
`journal` keeps the account. `config` says what is served, `building` makes it, `server` runs it.
"""
