"""Parts for tests of agents: models with known responses, recorded events, and checks.

`ScriptedModel` responds by a script, and `ReplayModel` with recorded streams of providers. Both
need no network and no key. `record_run` reads the events of a run and checks their order.
"""

from penstock.testing.recorder import EventRecorder, RunOrder, check_order, record_run
from penstock.testing.scripted import (
    Disconnect,
    Pause,
    ReplayModel,
    ScriptedModel,
    call,
    cut,
    fail,
    think,
    wait,
)

__all__ = [
    "Disconnect",
    "EventRecorder",
    "Pause",
    "ReplayModel",
    "RunOrder",
    "ScriptedModel",
    "call",
    "check_order",
    "cut",
    "fail",
    "record_run",
    "think",
    "wait",
]
