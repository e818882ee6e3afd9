"""A cursor whose topic is unloaded while its broker has no session in the metadata store.

Which sessions ended, and for how long, is known elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from model.cursors.cursor import Cursor, Interval, Persisting, killed, only_by_deviation, unloaded
from model.cursors.log import TopicLog
from model.excuses.cursors import UNLOAD_WITHOUT_SESSION_LOSES_ACKS
from model.excuses.ways import by, together
from model.rules.catalogue import carries


@carries("ACK-10")
def unloaded_without_session(cursor: Cursor, at: Interval, persisting: Persisting, log: TopicLog) -> Cursor:
    """In releases that deviate, the unload persists nothing, so that the cursor is recovered as after a kill.

    The state that was persisted before may be in the cursor's ledger.
    """
    after = unloaded(cursor, at)
    by_it = by(UNLOAD_WITHOUT_SESSION_LOSES_ACKS)
    lost = ((state, together(ways, by_it)) for state, ways in killed(cursor, at, persisting, log).labelled())
    deviating = only_by_deviation(after.possible, (*after.deviating.items(), *lost))
    return replace(after, was_opening=True, deviating=deviating, lost_before=deviating)
