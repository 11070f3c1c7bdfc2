"""Which formats the calls of an answer are counted under, and what is remembered of them."""

from __future__ import annotations

import pytest

from penstock.events import Event
from penstock.formats import EventParser, get
from penstock.formats.examples import example
from penstock.gateway import tally
from penstock.gateway.tally import AUTO, MAX_HEADS, NATIVE, Tally
