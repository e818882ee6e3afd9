"""The possible next steps in the world of document 003 (:mod:`model.explorations.cursors.world`).

They are the choices that the reference leaves open: when clients ack and send acks, how fast the disk is, when
consumers join and leave, what an administrator does, and when the broker is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from model.cursors import dispatch, reference
from model.cursors.acked import Acked
from model.cursors.dispatch import Dispatch
from model.cursors.log import Place
from model.cursors.reference import CursorSubscription
from model.explorations.cursors.world import (
    FIRST_DELAY,
    NAMES,
    SUBSCRIPTIONS,
    AckingClient,
    HeldBack,
    Nacked,
    Setup,
    Step,
    World,
    append,
    closed,
    in_words,
    is_dirty,
)
from model.judgement import Broken
from model.log import EARLIEST, Position
from model.subscriptions import backoff

T = TypeVar("T")
Next = Iterator[tuple[Step, World]]
"""The possible next steps, each with the world after it."""


def steps(setup: Setup, world: World) -> Next:
    """Every possible next step."""
    if setup.acks == "any":
        yield from any_acks(setup, world)
    else:
        yield from dispatches(world)
        for client in world.clients:
            yield from acks_of(setup, world, client)
            yield from nacks_of(world, client)
        yield from consumers(setup, world)
    yield from persists(setup, world)
    yield from publishes(setup, world)
    yield from loads(setup, world)
    yield from administers(setup, world)
    if setup.trims:
        yield from deletes(world)


# ------------------------------------------------------------------------------------------------------------- acks


def any_acks(setup: Setup, world: World) -> Next:
    """A client acks any message of any subscription, acknowledged or not."""
    for number in range(setup.subscriptions):
        for place in Acked().messages_left(world.log):
            yield _ack(setup, world, number, place, is_cumulative=False)
            if setup.cumulative:
                yield _ack(setup, world, number, place, is_cumulative=True)


def _ack(setup: Setup, world: World, number: int, place: Place, *, is_cumulative: bool) -> tuple[Step, World]:
    up_to = " up to" if is_cumulative else ""
    step = Step(f"acks{up_to}", f"an ack{_of(setup, number)}{up_to or ' of'} {in_words(place)}", number, (place,))
    return step, _acked(setup, world, number, place, is_cumulative=is_cumulative)


def _acked(setup: Setup, world: World, number: int, place: Place, *, is_cumulative: bool) -> World:
    def change(subscription: CursorSubscription) -> CursorSubscription:
        if is_cumulative:
            return reference.acknowledge_up_to(subscription, world.log, place)
        return reference.acknowledge(subscription, world.log, (place,))

    return _changed(setup, world, number, change)


def _changed(
    setup: Setup, world: World, number: int, change: Callable[[CursorSubscription], CursorSubscription]
) -> World:
    """A subscription's state changed, and a write may have begun."""
    after = reference.on_one(world.subscriptions, number, change)
    pairs = zip(world.subscriptions, after, world.persisted_lately, strict=True)
    lately = tuple(was or len(now.writes) > len(then.writes) for then, now, was in pairs)
    return replace(
        world,
        subscriptions=tuple(_settled(setup, one) for one in after),
        persisted_lately=lately if setup.is_limited else world.persisted_lately,
        dispatch=dispatch.released(world.dispatch, after[0].acked),
    )


def _settled(setup: Setup, subscription: CursorSubscription) -> CursorSubscription:
    """What takes no time here is done: without a limit intervals are over at once, and a quick disk has written."""
    while not setup.is_limited and subscription.limited:
        subscription = reference.interval_passed(subscription)
    while setup.is_quick and subscription.writes:
        subscription = reference.written(subscription)
    return subscription


def persists(setup: Setup, world: World) -> Next:
    """Time passes for the rate limiter and the flush, and writes are done."""
    for number, subscription in enumerate(world.subscriptions):
        of = _of(setup, number)
        if world.persisted_lately[number]:
            passed = _with(world, number, reference.interval_passed(subscription))
            after = replace(passed, persisted_lately=_set(world.persisted_lately, number, to=False))
            yield Step("interval", f"the rate limiter's interval{of} ends", number), after
        if setup.is_limited and is_dirty(subscription):
            after = _changed(setup, world, number, reference.flushed)
            yield Step("flush", f"the flush interval{of} ends", number), after
        if subscription.writes:
            after = _with(world, number, reference.written(subscription))
            yield Step("written", f"the state{of} is written", number), after


def _with(world: World, number: int, subscription: CursorSubscription) -> World:
    return replace(world, subscriptions=_set(world.subscriptions, number, to=subscription))


def _set(things: tuple[T, ...], number: int, *, to: T) -> tuple[T, ...]:
    return (*things[:number], to, *things[number + 1 :])


# ------------------------------------------------------------------------------------------------------- consumers


def dispatches(world: World) -> Next:
    """The broker sends an entry to a consumer."""
    for consumer in world.dispatch.receivers:
        position = dispatch.next_entry(world.dispatch, world.subscriptions[0].acked, world.log, consumer.name)
        if position is not None:
            count = world.dispatch.redeliveries(position)
            words = f"{consumer.name} is sent {position}" + (f", redelivery {count}" if count else "")
            after = replace(world, dispatch=dispatch.send(world.dispatch, consumer.name, position))
            yield Step("sent", words, consumer=consumer.name, position=position, number=count), after


def acks_of(setup: Setup, world: World, client: AckingClient) -> Next:
    """An application acks a received message, and its client sends the ack at once or later."""
    subscription, name = world.subscriptions[0], client.name
    nacked = {one.position for one in client.nacked}
    held_back = {one.place for one in client.held_back}
    received = (
        place
        for position in sorted(world.dispatch.consumer(name).pending - nacked)
        for place in world.log.places_at(position)
    )
    for place in received:
        if subscription.acked.has_message(place) or place in held_back or place in client.hidden:
            continue
        for is_cumulative in (False, True) if setup.cumulative else (False,):
            up_to = " up to" if is_cumulative else ""
            if setup.holds_back:
                words = f"{name} acks{up_to} {in_words(place)}, and its client groups the ack"
                held = replace(client, held_back=(*client.held_back, HeldBack(place, is_cumulative)))
                yield Step("holds back", words, 0, (place,), name), world.with_client(held)
            else:
                after = _acked(setup, world, 0, place, is_cumulative=is_cumulative)
                yield Step(f"acks{up_to}", f"{name} acks{up_to} {in_words(place)}", 0, (place,), name), after
    if client.held_back:
        yield Step("sends acks", f"{name}'s client sends its acks", consumer=name), _sent(setup, world, client)


def _sent(setup: Setup, world: World, client: AckingClient) -> World:
    """The client flushed its grouped acks."""
    for ack in client.held_back:
        world = _acked(setup, world, 0, ack.place, is_cumulative=ack.is_cumulative)
    return world.with_client(replace(client, held_back=()))


def nacks_of(world: World, client: AckingClient) -> Next:
    """An application nacks a message. Its client waits, then requests redelivery."""
    name, pending = client.name, world.dispatch.consumer(client.name).pending
    nacked = tuple(one for one in client.nacked if one.position in pending)
    for position in sorted(pending - {one.position for one in nacked}) if world.nacks else ():
        failed = replace(client, nacked=(*nacked, Nacked(position)))
        after = replace(world.with_client(failed), nacks=world.nacks - 1)
        yield Step("nacks", f"{name} nacks {position}", consumer=name, position=position), after
    due = {one: _delay(world, one.position) for one in nacked}
    if any(one.waited < due[one] for one in nacked):
        later = tuple(replace(one, waited=one.waited + 1) for one in nacked)
        yield Step("waits", f"{name} waits", consumer=name), world.with_client(replace(client, nacked=later))
    for one in nacked:
        if one.waited >= due[one]:
            again = dispatch.redeliver(world.dispatch, name, (one.position,))
            left = replace(client, nacked=tuple(other for other in nacked if other != one))
            words = f"{name} requests redelivery of {one.position}, after {one.waited}"
            step = Step("redelivers", words, consumer=name, position=one.position, number=one.waited)
            yield step, replace(world, dispatch=again).with_client(left)


def _delay(world: World, position: Position) -> float:
    """How long the client waits before it requests redelivery of an entry."""
    variant, times = world.dispatch.variant, dict(world.dispatch.redelivered).get(position, 0)
    first = FIRST_DELAY // 2 if variant.back_off_too_short else FIRST_DELAY
    return first if variant.nack_backoff_missing else backoff.delay(first, times)


def consumers(setup: Setup, world: World) -> Next:
    """A consumer joins, or leaves if another one stays or may join."""
    if world.joins:
        name = NAMES[setup.consumers + setup.joins - world.joins]
        after = replace(
            world, dispatch=dispatch.join(world.dispatch, name), clients=(*world.clients, AckingClient(name))
        )
        yield Step("joins", f"{name} joins", consumer=name), replace(after, joins=world.joins - 1)
    for client in world.clients if world.leaves and len(world.clients) + world.joins > 1 else ():
        name = client.name
        closing = world if setup.variant.close_loses_acks else _sent(setup, world, client)
        yield Step("closes", f"{name} closes", consumer=name), _left(closing, name)
        crashing = _pending_acked(setup, world, name) if setup.variant.crash_acknowledges else world
        yield Step("crashes", f"{name} crashes", consumer=name), _left(crashing, name)
    if setup.kind == "Failover" and not world.dispatch.active:
        for client in world.clients:
            after = replace(world, dispatch=dispatch.elect(world.dispatch, client.name))
            yield Step("active", f"{client.name} becomes active", consumer=client.name), after


def _pending_acked(setup: Setup, world: World, name: str) -> World:
    for position in world.dispatch.consumer(name).pending:
        world = _acked(setup, world, 0, Place(position), is_cumulative=False)
    return world


def _left(world: World, name: str) -> World:
    clients = tuple(client for client in world.clients if client.name != name)
    return replace(world, clients=clients, dispatch=dispatch.leave(world.dispatch, name), leaves=world.leaves - 1)


# ------------------------------------------------------------------------------------------------- the topic's log


def publishes(setup: Setup, world: World) -> Next:
    """An entry is published."""
    if not world.publishes:
        return
    position = world.ledgers.next_position
    if setup.variant.entries_go_on and position.entry == 0:
        position = Position(position.ledger, world.ledgers.used)
    longer = append(world.log, position, 1)
    after = replace(
        world,
        log=world.log if isinstance(longer, Broken) else longer,
        ledgers=world.ledgers.after_append(),
        publishes=world.publishes - 1,
    )
    yield Step("published", f"{position} is published", position=position), after


def loads(setup: Setup, world: World) -> Next:
    """The topic is unloaded or its broker is killed. Then it is reloaded, and its consumers reconnect."""
    if world.unloads:
        choices = [reference.unloaded(one, world.log, setup.stored_ranges) for one in world.subscriptions]
        for after in _products(choices):
            stored = all(one.stored is not None for one in after)
            where = " to the metadata store" if stored else " to the cursor's ledger"
            words = f"the topic is unloaded, its state is stored{where}"
            yield Step("unload", words, number=stored), _loaded(setup, world, after, unloads=world.unloads - 1)
    if world.kills:
        choices = [reference.killed(one, world.log) for one in world.subscriptions]
        for after in _products(choices):
            yield Step("kill", "the broker is killed"), _loaded(setup, world, after, kills=world.kills - 1)


def _products(choices: list[tuple[CursorSubscription, ...]]) -> list[tuple[CursorSubscription, ...]]:
    """One choice for each, without repetitions."""
    found: list[tuple[CursorSubscription, ...]] = [()]
    for several in choices:
        found = [(*before, one) for before in found for one in dict.fromkeys(several)]
    return found


def _loaded(setup: Setup, world: World, subscriptions: tuple[CursorSubscription, ...], **left: int) -> World:
    to = world.dispatch
    again = Dispatch(variant=to.variant, kind=to.kind, active=to.active)
    for client in world.clients:
        again = dispatch.join(again, client.name)
    after = replace(
        world,
        subscriptions=subscriptions,
        ledgers=world.ledgers if setup.variant.ledger_reopened else world.ledgers.taken_over(),
        dispatch=again,
        clients=tuple(_connected_again(setup, client) for client in world.clients),
        persisted_lately=(False,) * len(subscriptions),
        is_reopened=setup.is_terminated,
    )
    return replace(after, **left)


def _connected_again(setup: Setup, client: AckingClient) -> AckingClient:
    """A client that lost its connection, and with it its grouped acks."""
    hidden = client.hidden
    if setup.variant.lost_ack_filters_redelivery:
        hidden |= {ack.place for ack in client.held_back}
    return AckingClient(client.name, hidden=hidden)


def administers(setup: Setup, world: World) -> Next:
    """An administrator skips, clears or expires messages of the first subscription, or resets its cursor."""
    if not world.administration:
        return
    log, before = world.log, replace(world, administration=world.administration - 1)

    def after(change: Callable[[CursorSubscription], CursorSubscription]) -> World:
        return _changed(setup, before, 0, change)

    for count in (1, 2):
        skipping = partial(reference.skip, log=log, count=count, is_reopened=world.is_reopened)
        yield (
            Step("skip", f"{count} {'entry is' if count == 1 else 'entries are'} skipped", number=count),
            after(skipping),
        )
    yield Step("skip all", "the backlog is cleared"), after(partial(reference.skip_all, log=log))
    for position in log.all_after(EARLIEST):
        expiring = partial(reference.expire, log=log, up_to=position)
        yield Step("expire", f"everything up to {position} expires", position=position), after(expiring)
        resetting = partial(reference.reset, log=log, to=position)
        yield Step("reset", f"the cursor is reset to {position}", position=position), after(resetting)


def deletes(world: World) -> Next:
    """Ledgers that no subscription needs are deleted."""
    deletable = reference.deletable(world.log, closed(world), world.subscriptions)
    if len(deletable) > world.deleted:
        gone = deletable[world.deleted :]
        words = f"ledger {' and '.join(map(str, gone))} is deleted"
        yield Step("deletes", words, number=len(deletable)), replace(world, deleted=len(deletable))


def _of(setup: Setup, number: int) -> str:
    return f" of {SUBSCRIPTIONS[number]}" if setup.subscriptions > 1 else ""
