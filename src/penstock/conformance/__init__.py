"""One checker per API: lists every way in which a stream breaks the API's grammar.

The checkers share no code with the encoders, so that they can test them.
"""
