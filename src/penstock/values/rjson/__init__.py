"""Robust JSON: `loads` what models and people write, `repair` what they break, `dumps` it."""

from penstock.values.rjson.repairs import closes_text
from penstock.values.rjson.robust import Repaired, dumps, loads, repair

__all__ = ["Repaired", "closes_text", "dumps", "loads", "repair"]
