"""The rules of document 004: Key_Shared and draining hashes."""

from __future__ import annotations

from model.rules.rule import Decided, Rule

STATEMENTS = (
    Rule(
        "KEY-01",
        "004",
        "The invariant: messages of one key are delivered to, and unacknowledged at, one consumer at a time. Always: joins, leaves, disconnects, nacks, unloads and kills included.",
        (Decided.WIRE,),
        "Updated contract of preserving ordering",
    ),
    Rule(
        "KEY-02",
        "004",
        "Without negative acks or redelivery requests, each key's messages are processed in order, across changes of consumers.",
        (Decided.WIRE,),
        "Updated contract of preserving ordering",
    ),
    Rule(
        "KEY-03",
        "004",
        "When a consumer joins or leaves, a key moves only after its pending messages are acknowledged or their consumer disconnected.",
        (Decided.WIRE,),
        "Updated contract of preserving ordering",
    ),
    Rule(
        "KEY-04",
        "004",
        "Only draining hashes are blocked: other keys of the same range are dispatched at once.",
        (Decided.WIRE,),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-05",
        "004",
        "A draining hash counts its pending messages; at zero it is removed and the messages that it blocked are delivered, within the unblocking interval.",
        (
            Decided.WIRE,
            Decided.STATS,
        ),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-06",
        "004",
        "A leaving consumer's pending messages are replayed, before later messages of their keys.",
        (Decided.WIRE,),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-07",
        "004",
        "A hash that goes back to the consumer that is draining it is not blocked, and leaves the set.",
        (
            Decided.WIRE,
            Decided.STATS,
        ),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-08",
        "004",
        "Negative acks and redelivery requests redeliver as soon as possible, without a promise of order; KEY-01 still holds.",
        (Decided.WIRE,),
        "Updated contract of preserving ordering",
    ),
    Rule(
        "KEY-09",
        "004",
        "A message of a hash that waits for replay is not delivered ahead of the replay.",
        (Decided.WIRE,),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-10",
        "004",
        "Nothing is added to the pending messages of a closed consumer, nor of another one while a hash drains, however the calls race.",
        (Decided.FAULT,),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-11",
        "004",
        "Stats: hashes draining, their pending messages, the total cleared, and per consumer the hashes with their counts; all back to zero when drained.",
        (Decided.STATS,),
        "Public-facing changes: stats",
    ),
    Rule(
        "KEY-12",
        "004",
        "Hash range 65535; about 80 bytes a draining hash, 5 MB at worst.",
        (
            Decided.STATS,
            Decided.MODEL,
        ),
        "High-Level implementation plan",
    ),
    Rule(
        "KEY-13",
        "004",
        "A stuck consumer blocks its own keys only; disconnecting it frees them.",
        (Decided.WIRE,),
        "Motivation",
    ),
    Rule(
        "KEY-14",
        "004",
        'The classic implementation can be switched on: its "recently joined consumers" rule holds instead (a new consumer gets nothing until all that was read before it joined is acknowledged).',
        (Decided.WIRE,),
        "Current contract of preserving ordering",
    ),
    Rule(
        "KEY-15",
        "004",
        "STICKY: a consumer receives messages of the hash ranges that it claims, and no others; a hash that no consumer claims is dispatched to none; overlapping claims are refused.",
        (Decided.WIRE,),
        "Updated contract of preserving ordering",
    ),
    Rule(
        "KEY-16",
        "004",
        "With the classic implementation, too, whatever is due is dispatched: no consumer waits for a message that is not blocked.",
        (Decided.WIRE,),
        "Current contract of preserving ordering",
    ),
    Rule(
        "KEY-17",
        "004",
        "The policy belongs to the subscription: a consumer whose policy is not that of the connected consumers (AUTO_SPLIT or STICKY, out-of-order delivery) is refused; any other one is accepted, also one that has the name of another. After all have left, the next one has any policy.",
        (Decided.WIRE,),
        "Updated contract of preserving ordering",
    ),
)
