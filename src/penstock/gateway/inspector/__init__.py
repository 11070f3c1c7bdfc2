"""The inspector: a web page that shows every stream of the gateway, and its API.

`static` serves the files of the page (`page`), `handlers` is its API. `analysis` puts together what
is known about one stream: `recording` reads it from the log, `spans` attributes each character to
an event, `remarks` describes what is unusual, `client_view` reconstructs what the client received,
`truncate` limits the size. `playground` parses pasted text and checks the guarantees of the parser
on it. `export` makes test vectors and commands. `live` reports responses in progress.
Analyses run in a process of their own (`workers`), so that they do not slow down responses.
"""
