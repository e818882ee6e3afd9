"""The explorations of document 004: their exact results, and that each variant is detected."""

from __future__ import annotations

from dataclasses import replace

from model.explorations import key_shared
from model.explorations.key_shared.world import Setup, merge
from model.explore import explore
from model.key_shared.variants import VARIANTS
from tests.model.explored import ExplorationContract, dead_end, words

ONE_CONSUMER = "messages of one key are pending at one consumer at most"
IN_ORDER = "a message is sent when all before it of its key are acknowledged or pending"
COUNTED = "a draining hash counts the messages of it that are pending"
FOR_A_REASON = "a message is put aside only for its own key's sake, or because its consumer asked for no more"
NOT_AHEAD = "no message that was just read is sent while one before it, of its key, waits for replay"
NOBODY_GONE = "nothing is pending at a consumer that is gone"
RESTS = (
    "the broker does not rest while a message could be sent: nothing of its key is pending elsewhere or waits before "
    "it, and its consumer asked for more"
)
COMES_BACK = "once a message of it is sent, a hash does not drain"
LEAVER = "what was pending at a consumer that leaves comes again"


class TestKeyShared(ExplorationContract):
    """Document 004."""

    document = key_shared.EXPLORED.of_document()
    variants = VARIANTS
    rules = {f"KEY-{number:02}" for number in (*range(1, 12), 13, 14)}
    """What the exploration can show. KEY-12 is about bytes."""
    found = {
        "key-joins": (6188, 21163),
        "key-changes": (38949, 216885),
        "key-back-and-forth": (13021, 56465),
        "key-given-back": (6690, 27020),
        "key-one-hash": (2747, 9191),
        "key-claims": (2627, 8436),
        "key-stuck": (1105, 2819),
        "key-classic-rule": (40848, 156055),
        "key-classic-order": (14133, 49363),
    }
    breaks = {
        "key-classic": (ONE_CONSUMER, 7),
        "key-classic-by-letter": (FOR_A_REASON, 5),
        "key-no-draining": (ONE_CONSUMER, 5),
        "key-never-blocked": (ONE_CONSUMER, 5),
        "key-replay-not-asked": (ONE_CONSUMER, 6),
        "key-range-blocked": (FOR_A_REASON, 4),
        "key-draining-refcount-doubled": (COUNTED, 5),
        "key-counted-down-twice": (ONE_CONSUMER, 8),
        "key-not-counted-down-on-disconnect": (COUNTED, 4),
        "key-never-unblocked": (RESTS, 6),
        "key-own-blocked": (FOR_A_REASON, 5),
        "key-ahead-of-replay": (IN_ORDER, 5),
        "key-replay-reversed": (IN_ORDER, 7),
        "key-leaver-forgotten": (LEAVER, 4),
        "key-closed-given": (NOBODY_GONE, 3),
        "key-closed-dropped": (IN_ORDER, 6),
        "key-moved-not-noticed": (ONE_CONSUMER, 5),
        "key-back-not-noticed": (COMES_BACK, 6),
        "key-replay-not-noticed": (NOT_AHEAD, 5),
        "key-registered-late": (ONE_CONSUMER, 5),
        "key-nack-kept": (ONE_CONSUMER, 6),
    }
    stuck = {
        "key-classic-by-letter",
        "key-range-blocked",
        "key-draining-refcount-doubled",
        "key-not-counted-down-on-disconnect",
        "key-leaver-forgotten",
        "key-closed-dropped",
        "key-nack-kept",
    }
    """The variants in which a message may never be processed."""
    unbroken = {"a consumer that joined recently gets nothing that was read since, until all before is acknowledged"}


def test_without_draining_one_key_is_at_two_consumers_after_a_join() -> None:
    assert words("key-no-draining", ONE_CONSUMER) == [
        "A is chosen for message 1 (x)",
        "A is sent message 1 (x)",
        "B joins, and takes x",
        "B is chosen for message 2 (x)",
        "B is sent message 2 (x)",
    ]


def test_the_classic_implementation_replays_a_pending_key_to_a_recently_joined_consumer() -> None:
    assert words("key-classic", ONE_CONSUMER) == [
        "B joins, and takes x",
        "B is chosen for message 1 (x)",
        "B is sent message 1 (x)",
        "message 2 (x) is read and put aside: its consumer has not asked for more",
        "C joins, and takes x",
        "C is chosen for message 2 (x) for replay",
        "C is sent message 2 (x)",
    ]


def test_the_classic_rule_as_written_makes_a_recently_joined_consumer_wait_forever() -> None:
    assert dead_end("key-classic-by-letter")[-2:] == [
        "message 2 (x) is read and put aside: its consumer joined recently",
        "C joins, and takes x",
    ]


def test_a_hash_that_returned_unnoticed_and_moved_again_never_drains_in_the_listing() -> None:
    assert dead_end("key-draining-refcount-doubled") == [
        "A is chosen for message 1 (x)",
        "A is sent message 1 (x)",
        "B joins, and takes x",
        "B disconnects, A takes over",
        "C joins, and takes x",
    ]


def test_merging_states_hides_no_state() -> None:
    setup = Setup(keys=("x", "y", "x"), joins=1, leaves=1)
    system = key_shared.system(setup)
    merged, whole = explore(system), explore(replace(system, merge=lambda world: world))
    assert whole.complete
    assert whole.states > merged.states
    assert {merge(world) for world in whole.graph} == set(merged.graph)
    assert merged.holds
    assert whole.holds
