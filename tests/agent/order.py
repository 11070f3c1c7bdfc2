"""The order law: what every run of an agent tells, in the order in which it may be told."""

from penstock.testing.recorder import RunOrder as Order
from penstock.testing.recorder import check_order

__all__ = ["Order", "check_order"]
