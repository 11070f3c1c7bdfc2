"""The inspector: a page on which people see every stream, and what it asks of the gateway.

`page` is what a browser gets (`files`), and `handlers` is what it asks for. Behind them,
`colouring` says which character became what, `recorded` takes a logged stream apart, `telling`
writes again what the client got, `analysis` puts all of it together, and `showing` says how much of
it is shown. `playing` reads pasted text and `laws` are held to it; `replays` reads a logged stream
anew, `exporting` makes vectors and commands of one, `recording` makes one of a file. `board` knows
what is on its way. Nothing here stands in the way of an answer: what is heavy is done on threads of
its own (`heavy`), and given up where nobody waits for it any more (`jobs`).
"""
