"""Reads broken JSON: containers, strings, words, and the look ahead that tells quotes apart."""

from penstock.values.rjson.mending.blanks import skip_blank
from penstock.values.rjson.mending.containers import Mender
from penstock.values.rjson.mending.lookahead import QUOTES, LookAhead
from penstock.values.rjson.mending.strings import CLOSING
from penstock.values.rjson.mending.words import take_word

__all__ = ["CLOSING", "QUOTES", "LookAhead", "Mender", "skip_blank", "take_word"]
