"""Messages with headers: answers that say of each piece whether it is a thought, text or a call.

A header is read as a body. What it opens is a channel of text or thinking, which the machine shows,
or a call, which goes on in the same body: so a call that is cut or broken is given back from its
header on. Each syntax also says in which state a prompt leaves the answer (`opened_in`): the first
header of an answer, or its beginning, stands in the prompt.
"""

from penstock.parsing.bodies.channels.atem import ATEM
from penstock.parsing.bodies.channels.harmony import Harmony
from penstock.parsing.bodies.channels.inkling import Inkling
from penstock.parsing.bodies.channels.recipients import Recipients
from penstock.parsing.bodies.channels.xtml import XTML

__all__ = ["ATEM", "XTML", "Harmony", "Inkling", "Recipients"]
