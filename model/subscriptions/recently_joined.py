"""The classic implementation of Key_Shared (KEY-14): a consumer that joined waits for everything that was read before.

What was read is not known exactly: all up to the last entry that was delivered was, what was sent later was not, and of
what is between nothing is demanded. A consumer may be given what was read before it joined; the rule keeps newer
messages from it. Once it is alone, nobody else can have anything, and it waits for nothing.
"""

from __future__ import annotations

from model.judgement import Broken
from model.log import Position
from model.rules.catalogue import carries
from model.subscriptions.consumers import Key
from model.subscriptions.left import surely_left
from model.subscriptions.state import Consumption


@carries("KEY-14")
def too_soon(state: Consumption, key: Key, name: str, position: Position) -> Broken | None:
    """A consumer that joined is given an entry that is new, while something that was read before is unacknowledged."""
    joined = state.keyed_of(key).joined.get(name)
    if joined is None or position <= joined.last or not state.consumers[name].keeps_keys:
        return None
    before = next((message for message in surely_left(state, key) if message[1].position <= joined.delivered), None)
    if before is None:
        return None
    what = f"{name} received the new entry at {position} while {state.words(before)},"
    return Broken("KEY-14", f"{what} read before it joined, is unacknowledged")


def exercised_by(state: Consumption, key: Key, name: str, position: Position) -> tuple[str, ...]:
    """The rule is put to the test by what is given to a consumer that joined, and was not read before."""
    joined = state.keyed_of(key).joined.get(name)
    return ("KEY-14",) if joined is not None and position > joined.last and state.consumers[name].keeps_keys else ()
