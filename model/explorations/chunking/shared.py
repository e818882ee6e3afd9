"""The explorations of the two options of document 002 for shared subscriptions, with their statements.

Option 1 fails as soon as anything is redelivered (CHUNK-11); option 2 holds with crashes at every point (CHUNK-12).
"""

from __future__ import annotations

from functools import partial

from model.chunking.chunks import Chunk
from model.chunking.shared_proposals import Marker
from model.chunking.variants import VARIANTS, ChunksVariant
from model.explorations.chunking.shared_world import Setup, Step, World, initial, kinds, steps
from model.explorations.configured import Configurations
from model.explore import Always, EveryStep, System

SETUPS: dict[str, tuple[str, Setup]] = {
    "chunk-option-1-calm": (
        "option 1 without redelivery: two messages of three and two chunks",
        Setup(markers=False, messages=(3, 2)),
    ),
    "chunk-option-1-sorted": (
        "option 1 with redelivery in the log's order: two messages of two chunks; a consumer and the broker crash",
        Setup(markers=False, messages=(2, 2), sorted_replay=True, leaves=1, backs=1, crashes=1),
    ),
    "chunk-option-2": (
        "option 2: two messages of two chunks; a consumer crashes",
        Setup(markers=True, messages=(2, 2), leaves=1),
    ),
    "chunk-option-2-crashes": (
        "option 2: one message of three chunks, which is nacked; its producer, a consumer and the broker crash",
        Setup(markers=True, messages=(3,), leaves=1, backs=1, deaths=1, crashes=1),
    ),
}
"""The configurations in which an option must hold."""

GIVEN_UP: dict[str, tuple[str, Setup]] = {
    "chunk-option-1": (
        "option 1 with redelivery in any order: one message of three chunks; a consumer may crash",
        Setup(markers=False, messages=(3,), leaves=1),
    ),
    "chunk-option-1-forgetful": (
        "the same with consumers that do not request redelivery of incomplete messages, like pulsar-client's",
        Setup(markers=False, messages=(3,), leaves=1, variant=ChunksVariant(discarded_not_redelivered=True)),
    ),
}
"""The configurations in which option 1 does not hold, as the document says (CHUNK-11)."""

_LITTLE = Setup(markers=True, leaves=1)
_VARIANT_SETUPS = {"chunk-mapping-not-kept": Setup(markers=False)}
_OF_SHARING = (
    "chunk-mapping-not-kept",
    "chunk-chunks-not-skipped",
    "chunk-marker-too-early",
    "chunk-chunks-acknowledged-first",
    "chunk-marker-acknowledged-first",
)
"""The variants of the two options."""


def _at_one_consumer(world: World) -> bool:
    shared = world.shared
    unacknowledged = [{shared.log[position].uuid for position in member.pending} for member in shared.members]
    return sum(map(len, unacknowledged)) == len(set().union(*unacknowledged))


def _acknowledged_together(world: World) -> bool:
    shared = world.shared
    return all(
        len(shared.acknowledged.intersection((*item.positions, position))) in (0, len(item.positions) + 1)
        for position, item in enumerate(shared.log)
        if isinstance(item, Marker)
    )


def _behind_its_predecessors(before: World, step: Step, _: World) -> bool:
    item = before.shared.log[step.position]
    assert isinstance(item, Chunk)
    member = before.shared.member(step.consumer)
    there = {
        one.chunk_id
        for position in before.shared.pending_of(item.uuid, member)
        if isinstance(one := before.shared.log[position], Chunk)
    }
    return there >= set(range(item.chunk_id))


def _with_its_marker(before: World, _: Step, __: World) -> bool:
    return before.shared.sending is not None


def _whole_with_its_marker(_: World, step: Step, __: World) -> bool:
    return step.whole is not None


AT_ONE_CONSUMER = Always(("CHUNK-11", "CHUNK-12"), "a message is pending at one consumer at most", _at_one_consumer)
BEHIND_ITS_PREDECESSORS = EveryStep(
    ("CHUNK-11",),
    "a chunk is sent to the consumer that was sent all earlier chunks of its message",
    frozenset({"sends"}),
    _behind_its_predecessors,
)
WITH_ITS_MARKER = EveryStep(
    ("CHUNK-12",), "a chunk is sent with its marker only", frozenset({"sends"}), _with_its_marker
)
WHOLE_WITH_ITS_MARKER = EveryStep(
    ("CHUNK-12",),
    "a consumer that was sent the marker has the complete message",
    frozenset({"sends marker"}),
    _whole_with_its_marker,
)
ACKNOWLEDGED_TOGETHER = Always(
    ("CHUNK-12",), "the chunks of a message and its marker are acknowledged together", _acknowledged_together
)


def good_ending(world: World) -> bool:
    """Every producer has finished and its last message and marker are acknowledged; or no consumer is connected."""
    shared = world.shared
    stored = {position for one in world.producers for position in one.stored}
    markers = {position for position, item in enumerate(shared.log) if isinstance(item, Marker)}
    is_through = all(one.is_through for one in world.producers)
    return not shared.members or (is_through and shared.acknowledged >= stored | markers)


def system(setup: Setup) -> System[World, Step]:
    """The system to explore in a configuration."""
    by_option = (WITH_ITS_MARKER, WHOLE_WITH_ITS_MARKER) if setup.markers else (BEHIND_ITS_PREDECESSORS,)
    return System(
        initial=(initial(setup),),
        steps=partial(steps, setup),
        always=(AT_ONE_CONSUMER, ACKNOWLEDGED_TOGETHER) if setup.markers else (AT_ONE_CONSUMER,),
        every_step=by_option,
        kinds=kinds(setup),
        good_ending=good_ending,
    )


EXPLORED = Configurations(
    system=system,
    holding=SETUPS,
    given_up=GIVEN_UP,
    variants=tuple(named for named in VARIANTS if named.name in _OF_SHARING),
    little=_LITTLE,
    for_variants=_VARIANT_SETUPS,
)
