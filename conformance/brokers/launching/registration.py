"""Detects in a broker's log that its bookie is in a loop of losing and renewing its registration.

A standalone broker that was killed finds the registration of its bookie in its metadata when it starts again. Releases
from 3.2 on delete it when they first look at it, and register anew. If the notice of that deletion comes late, it is
taken for the loss of the new registration, which is then deleted and renewed (``ResourceLockImpl`` finds the one there
not equal to its own, because ``BookieServiceInfo`` does not define equality), and the notice of *that* deletion keeps
it going for ever, a hundred times a second; apache/pulsar issue 17759 is the same loop after another beginning. About
every third start after a kill was caught on two busy cores. While it lasts, the broker may find no bookie for a new
ledger: a harness error that says nothing about the rules. A graceful restart ends it.
"""

from __future__ import annotations

_LOST = b" was invalidated"
_ENOUGH = 10
"""How often one start may lose a lock before it is caught: one that gets away has been seen with three."""


def is_caught(log: bytes) -> bool:
    """Whether the log of one start shows the loop; meant to be asked when the broker is ready."""
    return log.count(_LOST) >= _ENOUGH
