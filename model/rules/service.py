"""The rules of the family SERVE: what a broker owes its clients, whichever document a topic is about."""

from __future__ import annotations

from model.rules.rule import Decided, Rule

STATEMENTS = (
    Rule(
        "SERVE-01",
        "service",
        "A legal request of a client or an administrator is answered within a bound, with success or a documented error: never with an internal error, never by silence.",
        (Decided.WIRE,),
        "Binary protocol: Command; admin API: HTTP status codes",
    ),
    Rule(
        "SERVE-02",
        "service",
        "A connection that did nothing wrong is closed only for a reason (unload, restart, takeover, seek); what was closed can be opened again within a bound.",
        (Decided.WIRE,),
        "Binary protocol: Producer, Consumer",
    ),
    Rule(
        "SERVE-03",
        "service",
        "In every type of subscription, after every operation (an administrator's among them), a connected consumer with permits is given what is due, within a bound.",
        (Decided.WIRE,),
        "Binary protocol: Flow control",
    ),
    Rule(
        "SERVE-04",
        "service",
        "The stats agree with the operations, after each of them: backlog, unacknowledged messages of subscription and consumer, blocked flags, draining hashes, permits.",
        (Decided.STATS,),
        "Admin API: topic stats",
    ),
    Rule(
        "SERVE-05",
        "service",
        "Incompatible subscriptions and policies are refused, compatible ones are not; limits that are configured (unacknowledged messages, consumers, pending chunks) hold, and are lifted when their cause is gone.",
        (Decided.WIRE,),
        "Subscriptions: subscription types; admin API: namespace policies",
    ),
    Rule(
        "SERVE-06",
        "service",
        "One owner: of two brokers only the owner of a topic stores and confirms. What a broker confirms after it lost ownership (frozen, cut off from the metadata store) was stored before. A takeover loses nothing confirmed and stores nothing twice.",
        (Decided.FAULT,),
        "Architecture: brokers",
    ),
    Rule(
        "SERVE-07",
        "service",
        "Losing as many bookies as the write and ack quorum allow loses nothing confirmed, and the topic continues after the ensemble changed.",
        (Decided.FAULT,),
        "Architecture: persistent storage",
    ),
    Rule(
        "SERVE-08",
        "service",
        "Reading is only reading: no request that asks (stats, internal stats, backlog analysis, a message by id or time, peek, look-ups) changes what clients get, and each is answered, also for what does not exist.",
        (Decided.WIRE,),
        "Admin API: topics; binary protocol: topic lookup",
    ),
    Rule(
        "SERVE-09",
        "service",
        "Access modes of producers: Shared, Exclusive, ExclusiveWithFencing, WaitForExclusive: who is admitted, fenced and activated, also when the holder closes, dies, or its topic is reloaded.",
        (Decided.WIRE,),
        "Messaging: access mode (PIP-68, PIP-161)",
    ),
    Rule(
        "SERVE-10",
        "service",
        "A policy (retention, TTL, backlog quota, limits on producers, consumers, subscriptions and message size, deduplication, delayed delivery, dispatch rates) is in force at the level where it was set, topic before namespace before broker, within a bound, over reloads, kills and takeovers; what it refuses is refused with the documented error, and admitted again when the cause is gone.",
        (Decided.FAULT,),
        "Admin API: topic policies, namespace policies",
    ),
    Rule(
        "SERVE-11",
        "service",
        "Requests for a whole namespace or for an unloaded bundle (clear backlog, unsubscribe, unload) do what they answered. Two administrators at once: each request has its effect or is refused.",
        (Decided.WIRE,),
        "Admin API: namespaces, subscriptions",
    ),
    Rule(
        "SERVE-12",
        "service",
        "Operations while sends are unanswered (terminate, unload, trim, delete, kill): what is confirmed can be read, what is refused is not stored after the end, and the topic serves again.",
        (Decided.FAULT,),
        "Messaging: topic termination; admin API: topics",
    ),
    Rule(
        "SERVE-13",
        "service",
        "No more than asked: a dispatch goes beyond a consumer's permits by less than one batch; consumers are blocked and unblocked as the limits say.",
        (Decided.WIRE,),
        "Binary protocol: Flow control",
    ),
    Rule(
        "SERVE-14",
        "service",
        "A lost machine: what was confirmed survives the power failure of any bookies within the quorum, with the journal synced (unsynced bytes are lost), a torn or flipped byte of a bookie's files, a full disk; what cannot be served is an error, never other bytes.",
        (Decided.FAULT,),
        "BookKeeper: bookie administration; bookkeeper.conf: journalSyncData",
    ),
    Rule(
        "SERVE-15",
        "service",
        "Upgrade and rollback, broker by broker, between two adjacent supported releases, on the same data: every rule holds throughout; state written by the newer release is read by the older one, or the release notes say that it is not.",
        (Decided.FAULT,),
        "Upgrade guide; release notes",
    ),
)
