"""Detects in a broker's log that its bookie is in a loop of losing and renewing its registration.

A killed standalone broker finds its bookie's registration in the metadata when it starts again. Releases from 3.2 on
delete it on the first read and register again. If the notification of that deletion arrives late, the broker considers
the new registration lost, deletes it and renews it: ``ResourceLockImpl`` finds the stored one unequal to its own,
because ``BookieServiceInfo`` does not define equality. The notification of *this* deletion repeats the loop forever, a
hundred times a second; apache/pulsar issue 17759 is the same loop with another beginning. On two busy cores, about
every third start after a kill was affected. During the loop the broker may find no bookie for a new ledger: a harness
error that says nothing about the rules. A graceful restart ends it.
"""

from __future__ import annotations

_LOST = b" was invalidated"
_ENOUGH = 10
"""How often one start may lose a lock before it is caught: one that gets away has been seen with three."""


def is_caught(log: bytes) -> bool:
    """Whether the log of one start shows the loop; meant to be asked when the broker is ready."""
    return log.count(_LOST) >= _ENOUGH
