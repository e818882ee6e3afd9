-- The invariants as SQL, a statement each that counts what is broken, for tests/quality/history_scale.py. They say what the
-- pipeline says of histories of one cluster without seeks, requests to deliver again, and faults but for what is stored
-- after a topic was loaded anew, and leave out what only those need.

-- stored twice, out of order
SELECT count(*) FROM (
    SELECT sequence_id, max(sequence_id) OVER (
        PARTITION BY run, topic, cluster, producer ORDER BY ledger, entry, batch_index
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS highest
    FROM events WHERE kind = 'log' AND chunk_id IS NULL
) WHERE sequence_id <= highest;

-- falsely confirmed
SELECT count(*) FROM events AS send LEFT JOIN (
    SELECT run, topic, cluster, producer, max(sequence_id) AS highest FROM events WHERE kind = 'log' GROUP BY ALL
) AS log USING (run, topic, cluster, producer)
WHERE send.kind = 'send' AND send.outcome = 'duplicate' AND send.sequence_id > coalesce(log.highest, -1);

-- forgotten
WITH send AS (
    SELECT * FROM events WHERE kind = 'send' AND outcome IN ('ok', 'duplicate') AND sequence_id IS NOT NULL
), moved AS (
    SELECT run, topic, cluster, invoked_ns, completed_ns FROM events
    WHERE kind = 'fault' AND fault IN ('kill', 'restart', 'unload') AND topic IS NOT NULL
), confirmed AS (
    SELECT run, topic, cluster, moved.invoked_ns, moved.completed_ns, producer, max(sequence_id) AS highest
    FROM moved JOIN send USING (run, topic, cluster) WHERE send.completed_ns < moved.invoked_ns GROUP BY ALL
)
SELECT count(DISTINCT (run, topic, cluster, ledger, entry, batch_index))
FROM (SELECT * FROM send WHERE outcome = 'ok') AS stored JOIN confirmed USING (run, topic, cluster, producer)
WHERE stored.invoked_ns > confirmed.completed_ns AND stored.sequence_id <= highest;

-- lost
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'send' AND outcome = 'ok') AS send
JOIN (SELECT run, topic, cluster, max(invoked_ns) AS read_ns FROM events WHERE kind = 'log-end' GROUP BY ALL) AS read
USING (run, topic, cluster)
LEFT JOIN (SELECT * FROM events WHERE kind = 'log') AS log USING (run, topic, cluster, ledger, entry, batch_index)
WHERE send.completed_ns <= read_ns AND (
    log.kind IS NULL OR log.producer <> send.producer OR log.sequence_id <> send.sequence_id
    OR (log.chunk_id IS NULL AND log.digest <> send.digest) OR log.key IS DISTINCT FROM send.key
);

-- missed
SELECT count(*) FROM (
    SELECT run, topic, cluster, ledger, entry, batch_index FROM events WHERE kind = 'log' AND chunk_id IS NULL
) AS log JOIN (
    SELECT run, topic, cluster, subscription, (ledger, entry) AS until, completed_ns FROM events WHERE kind = 'drained'
) AS drained USING (run, topic, cluster)
ANTI JOIN (SELECT * FROM events WHERE kind = 'dispatch') AS given
ON (given.run, given.topic, given.cluster, given.subscription, given.ledger, given.entry, given.batch_index)
        = (log.run, log.topic, log.cluster, drained.subscription, log.ledger, log.entry, log.batch_index)
    AND given.invoked_ns <= drained.completed_ns
WHERE (log.ledger, log.entry) <= until;

-- chunks agree
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'send' AND outcome = 'ok') AS send
JOIN (SELECT * FROM events WHERE kind = 'log') AS log USING (run, topic, cluster, ledger, entry, batch_index)
WHERE send.chunks <> log.chunks;

-- chunks agree, stored once in order
SELECT count(*) FROM (
    SELECT chunk_id, chunks, producer, sequence_id,
        lag(chunk_id, 1, -1) OVER one AS before, lag(chunks, 1, chunks) OVER one AS number,
        lag(producer, 1, producer) OVER one AS same_producer, lag(sequence_id, 1, sequence_id) OVER one AS same_id
    FROM events WHERE kind = 'log' AND chunk_uuid IS NOT NULL
    WINDOW one AS (PARTITION BY run, topic, cluster, chunk_uuid ORDER BY ledger, entry, batch_index)
) WHERE chunk_id <> before + 1 OR chunk_id >= chunks OR chunks <> number OR producer <> same_producer
    OR sequence_id <> same_id;

-- stored once in order
SELECT count(*) FROM (
    SELECT 1 FROM events WHERE kind = 'log' AND chunk_id = 0
    GROUP BY run, topic, cluster, producer, sequence_id HAVING count(DISTINCT chunk_uuid) > 1
);

-- delivered whole
WITH chunk AS (
    SELECT run, topic, cluster, chunk_uuid, chunk_id, min((ledger, entry)) AS place
    FROM events WHERE kind = 'log' AND chunk_uuid IS NOT NULL GROUP BY ALL
), given AS (
    SELECT run, topic, cluster, ledger, entry, batch_index, given.digest, given.chunks,
        count(DISTINCT chunk.chunk_id) FILTER (chunk.chunk_id < given.chunks AND place <= (ledger, entry)) AS number
    FROM (SELECT * EXCLUDE (chunk_id) FROM events WHERE kind = 'dispatch' AND chunks > 1) AS given
    LEFT JOIN chunk USING (run, topic, cluster, chunk_uuid) GROUP BY ALL
)
SELECT count(*) FROM given
LEFT JOIN (SELECT * FROM events WHERE kind = 'send') AS send USING (run, topic, cluster, ledger, entry, batch_index)
WHERE number <> given.chunks OR send.digest <> given.digest;

-- mark delete over a hole
WITH acknowledged AS (
    SELECT run, topic, cluster, subscription, ledger, entry, batch_index,
        min(invoked_ns) FILTER (kind = 'ack') AS alone, min(invoked_ns) FILTER (kind = 'ack-cumulative') AS up_to
    FROM events WHERE kind IN ('ack', 'ack-cumulative') GROUP BY ALL
), due AS (
    SELECT log.run, log.topic, log.cluster, begin.subscription, log.ledger, log.entry, log.batch_index,
        least(alone, min(up_to) OVER (
            PARTITION BY log.run, log.topic, log.cluster, begin.subscription
            ORDER BY log.ledger DESC, log.entry DESC, log.batch_index DESC
        )) AS done
    FROM (SELECT * FROM events WHERE kind = 'log' AND coalesce(chunk_id + 1, 1) = coalesce(chunks, 1)) AS log
    JOIN (SELECT * FROM events WHERE kind = 'begin') AS begin USING (run, topic, cluster)
    LEFT JOIN acknowledged ON (acknowledged.run, acknowledged.topic, acknowledged.cluster, acknowledged.subscription,
        acknowledged.ledger, acknowledged.entry, acknowledged.batch_index)
        = (log.run, log.topic, log.cluster, begin.subscription, log.ledger, log.entry, log.batch_index)
), covered AS (
    SELECT *, max(coalesce(done, 9223372036854775807)) OVER (
        PARTITION BY run, topic, cluster, subscription ORDER BY ledger, entry, batch_index
    ) AS latest FROM due
)
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'cursor') AS reading
JOIN covered USING (run, topic, cluster, subscription, ledger, entry) WHERE latest > reading.completed_ns;

-- mark delete back
SELECT count(*) FROM (
    SELECT ledger, entry, max((ledger, entry)) OVER (
        PARTITION BY run, topic, cluster, subscription ORDER BY completed_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS furthest FROM events WHERE kind = 'cursor'
) WHERE (ledger, entry) < furthest;

-- positions rise
SELECT count(*) FROM (
    SELECT invoked_ns, min(completed_ns) OVER (
        PARTITION BY run, topic, cluster ORDER BY ledger DESC, entry DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS behind FROM events WHERE kind = 'send' AND outcome = 'ok'
) WHERE behind < invoked_ns;

-- delivered again
WITH acknowledged AS (
    SELECT run, topic, cluster, subscription, ledger, entry, batch_index,
        min(completed_ns) FILTER (kind = 'ack') AS alone, min(completed_ns) FILTER (kind = 'ack-cumulative') AS up_to
    FROM events WHERE kind IN ('ack', 'ack-cumulative') AND outcome = 'ok' GROUP BY ALL
), settled AS (
    SELECT given.invoked_ns, alone, min(up_to) OVER (
        PARTITION BY run, topic, cluster, subscription ORDER BY ledger DESC, entry DESC
    ) AS up_to
    FROM (SELECT * FROM events WHERE kind = 'dispatch') AS given
    LEFT JOIN acknowledged USING (run, topic, cluster, subscription, ledger, entry, batch_index)
)
SELECT count(*) FROM settled WHERE invoked_ns > least(alone, up_to);

-- one consumer at a time
WITH outstanding AS (
    SELECT given.run, given.topic, given.cluster, given.subscription, given.key, given.consumer,
        given.invoked_ns AS start, coalesce(ack.invoked_ns, 9223372036854775807) AS finish
    FROM (SELECT * FROM events WHERE kind = 'dispatch' AND subscription_type = 'Key_Shared') AS given
    LEFT JOIN (SELECT * FROM events WHERE kind = 'ack') AS ack
    USING (run, topic, cluster, subscription, ledger, entry, batch_index)
), compared AS (
    SELECT consumer, start, max({'finish': finish, 'consumer': consumer}) OVER (
        PARTITION BY run, topic, cluster, subscription, key ORDER BY start
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS lasting FROM outstanding
)
SELECT count(*) FROM compared WHERE lasting.finish > start AND lasting.consumer <> consumer;

-- shared one at a time
WITH outstanding AS (
    SELECT given.run, given.topic, given.cluster, given.subscription, given.ledger, given.entry, given.batch_index,
        given.consumer, given.invoked_ns AS start, coalesce(ack.invoked_ns, 9223372036854775807) AS finish
    FROM (SELECT * FROM events WHERE kind = 'dispatch' AND subscription_type = 'Shared') AS given
    LEFT JOIN (SELECT * FROM events WHERE kind = 'ack') AS ack
    USING (run, topic, cluster, subscription, ledger, entry, batch_index)
), compared AS (
    SELECT consumer, start, max({'finish': finish, 'consumer': consumer}) OVER (
        PARTITION BY run, topic, cluster, subscription, ledger, entry, batch_index ORDER BY start
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS lasting FROM outstanding
)
SELECT count(*) FROM compared WHERE lasting.finish > start AND lasting.consumer <> consumer;

-- given in order
SELECT count(*) FROM (
    SELECT taken_ns, chunk_uuid, min(taken_ns) OVER (
        PARTITION BY run, topic, cluster, subscription, producer ORDER BY ledger DESC, entry DESC, batch_index DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS behind FROM (
        SELECT run, topic, cluster, subscription, ledger, entry, batch_index, any_value(producer) AS producer,
            any_value(chunk_uuid) AS chunk_uuid, min(completed_ns) AS taken_ns
        FROM events WHERE kind = 'dispatch' AND subscription_type IN ('Exclusive', 'Failover') GROUP BY ALL
    )
) WHERE behind < taken_ns AND chunk_uuid IS NULL;

-- keys in order
SELECT count(*) FROM (
    SELECT taken_ns, chunk_uuid, min(taken_ns) OVER (
        PARTITION BY run, topic, cluster, subscription, key ORDER BY ledger DESC, entry DESC, batch_index DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS behind FROM (
        SELECT run, topic, cluster, subscription, ledger, entry, batch_index, any_value(key) AS key,
            any_value(chunk_uuid) AS chunk_uuid, min(completed_ns) AS taken_ns
        FROM events WHERE kind = 'dispatch' AND subscription_type = 'Key_Shared' GROUP BY ALL
    )
) WHERE behind < taken_ns AND chunk_uuid IS NULL;

-- chunks in order
SELECT count(*) FROM (
    SELECT chunk_id, max(chunk_id) OVER (
        PARTITION BY run, topic, cluster, chunk_uuid ORDER BY ledger, entry
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS furthest FROM events WHERE kind = 'log' AND chunk_uuid IS NOT NULL
) WHERE chunk_id > coalesce(furthest, -1) + 1;

-- stored whole
WITH chunk AS (
    SELECT run, topic, cluster, chunk_uuid, chunk_id, min((ledger, entry)) AS place
    FROM events WHERE kind = 'log' AND chunk_uuid IS NOT NULL GROUP BY ALL
), whole AS (
    SELECT run, topic, cluster, producer, sequence_id, ledger, entry, chunks
    FROM (SELECT * FROM events WHERE kind = 'log' AND chunk_id = chunks - 1) AS last
    JOIN (SELECT * RENAME (chunk_id AS number) FROM chunk) AS chunk USING (run, topic, cluster, chunk_uuid)
    WHERE number < chunks AND place <= (ledger, entry) GROUP BY ALL HAVING count(*) = chunks
)
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'send' AND outcome IN ('ok', 'duplicate') AND chunks > 1) AS send
ANTI JOIN whole USING (run, topic, cluster, producer, sequence_id);

-- stuck, keys stuck
WITH moved AS (
    SELECT *, max(completed_ns) FILTER (kind IN ('dispatch', 'ack', 'ack-cumulative', 'nack', 'subscribe')) OVER (
        PARTITION BY run, topic, cluster, subscription ORDER BY completed_ns
    ) AS latest FROM events WHERE subscription IS NOT NULL
)
SELECT count(*) FROM (SELECT * FROM moved WHERE kind = 'cursor' AND latest < invoked_ns - 90000000000) AS reading
SEMI JOIN (SELECT * FROM events WHERE kind = 'subscribe') AS join_ USING (run, topic, cluster, subscription)
JOIN (SELECT run, topic, cluster, max((ledger, entry)) AS last FROM events WHERE kind = 'log' GROUP BY ALL) AS log
USING (run, topic, cluster) WHERE (reading.ledger, reading.entry) < log.last;

-- sent by nobody
WITH send AS (SELECT * FROM events WHERE kind = 'send' AND sequence_id IS NOT NULL), lane AS (
    SELECT run, topic, cluster, producer, lane, min(sequence_id) AS lowest, max(sequence_id) AS highest
    FROM send GROUP BY ALL
)
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'log' AND replicated_from IS NULL) AS log
SEMI JOIN lane ON (lane.run, lane.topic, lane.cluster, lane.producer) = (log.run, log.topic, log.cluster, log.producer)
    AND log.sequence_id BETWEEN lowest AND highest
ANTI JOIN send ON (send.run, send.topic, send.cluster, send.producer, send.sequence_id)
        = (log.run, log.topic, log.cluster, log.producer, log.sequence_id)
    AND (log.chunk_id IS NOT NULL OR (send.digest = log.digest AND send.key IS NOT DISTINCT FROM log.key));

-- refused but stored
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'send' AND outcome = 'failed') AS refused
SEMI JOIN (SELECT * FROM events WHERE kind = 'log') AS log USING (run, topic, cluster, producer, sequence_id)
ANTI JOIN (SELECT * FROM events WHERE kind = 'send' AND outcome <> 'failed') AS send
USING (run, topic, cluster, producer, sequence_id);

-- delivered otherwise
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'dispatch') AS given
LEFT JOIN (SELECT * FROM events WHERE kind = 'log') AS log USING (run, topic, cluster, ledger, entry, batch_index)
WHERE log.kind IS NULL OR given.producer <> log.producer OR given.sequence_id <> log.sequence_id
    OR given.key IS DISTINCT FROM log.key OR given.chunk_uuid <> log.chunk_uuid OR given.chunks <> log.chunks
    OR (log.chunk_id IS NULL AND given.digest <> log.digest);

-- read before sent
SELECT count(*) FROM (SELECT * FROM events WHERE kind IN ('dispatch', 'log')) AS read
JOIN (SELECT * FROM events WHERE kind = 'log') AS log USING (run, topic, cluster, ledger, entry, batch_index)
JOIN (
    SELECT run, topic, cluster, producer, sequence_id, min(invoked_ns) AS sent_ns
    FROM events WHERE kind = 'send' GROUP BY ALL
) AS send ON (send.run, send.topic, send.cluster, send.producer, send.sequence_id)
    = (log.run, log.topic, log.cluster, log.producer, log.sequence_id)
WHERE (CASE read.kind WHEN 'log' THEN read.completed_ns ELSE read.invoked_ns END) < sent_ns;

-- beyond the end
SELECT count(*) FROM (SELECT * FROM events WHERE kind IN ('log', 'dispatch', 'cursor') AND entry >= 0) AS one
JOIN (SELECT * FROM events WHERE kind = 'log-end') AS last USING (run, topic, cluster)
WHERE (one.ledger, one.entry) > (last.ledger, last.entry)
    AND (CASE one.kind WHEN 'log' THEN one.invoked_ns ELSE one.completed_ns END) <= last.invoked_ns;

-- lost in part
WITH chunk AS (SELECT * FROM events WHERE kind = 'log' AND chunk_uuid IS NOT NULL), number AS (
    SELECT run, topic, cluster, chunk_uuid, count(DISTINCT chunk_id) AS chunk_ids FROM chunk GROUP BY ALL
)
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'send' AND outcome = 'ok') AS send
JOIN chunk USING (run, topic, cluster, ledger, entry, batch_index)
JOIN number ON (number.run, number.topic, number.cluster, number.chunk_uuid)
    = (chunk.run, chunk.topic, chunk.cluster, chunk.chunk_uuid)
JOIN (SELECT * FROM events WHERE kind = 'topic' AND NOT deduplication) AS topic_
    ON (topic_.run, topic_.topic, topic_.cluster) = (chunk.run, chunk.topic, chunk.cluster)
WHERE chunk_ids < chunk.chunks OR chunk.chunk_id <> chunk.chunks - 1;

-- chunked missed, chunked missed by all
SELECT count(*) FROM (
    SELECT run, topic, cluster, ledger, entry FROM events JOIN (
        SELECT run, topic, cluster, chunk_uuid FROM events WHERE kind = 'log' AND chunk_uuid IS NOT NULL
        GROUP BY run, topic, cluster, chunk_uuid HAVING list(chunk_id ORDER BY ledger, entry) = range(max(chunks))
    ) AS whole USING (run, topic, cluster, chunk_uuid) WHERE kind = 'log' AND chunk_id = chunks - 1
) AS log JOIN (
    SELECT run, topic, cluster, subscription, (ledger, entry) AS until, completed_ns FROM events WHERE kind = 'drained'
) AS drained USING (run, topic, cluster)
ANTI JOIN (SELECT * FROM events WHERE kind = 'dispatch') AS given
ON (given.run, given.topic, given.cluster, given.subscription, given.ledger, given.entry)
        = (log.run, log.topic, log.cluster, drained.subscription, log.ledger, log.entry)
    AND given.invoked_ns <= drained.completed_ns
WHERE (log.ledger, log.entry) <= until;

-- mark delete late
WITH acknowledged AS (
    SELECT run, topic, cluster, subscription, ledger, entry, batch_index,
        min(completed_ns) FILTER (kind = 'ack') AS alone, min(completed_ns) FILTER (kind = 'ack-cumulative') AS up_to
    FROM events WHERE kind IN ('ack', 'ack-cumulative') AND outcome = 'ok' GROUP BY ALL
), done AS (
    SELECT log.run, log.topic, log.cluster, begin.subscription, log.ledger, log.entry, log.batch_index,
        least(alone, min(up_to) OVER (
            PARTITION BY log.run, log.topic, log.cluster, begin.subscription
            ORDER BY log.ledger DESC, log.entry DESC, log.batch_index DESC
        )) AS at_ns
    FROM (SELECT * FROM events WHERE kind = 'log' AND coalesce(chunk_id + 1, 1) = coalesce(chunks, 1)) AS log
    JOIN (SELECT * FROM events WHERE kind = 'begin') AS begin USING (run, topic, cluster)
    LEFT JOIN acknowledged ON (acknowledged.run, acknowledged.topic, acknowledged.cluster, acknowledged.subscription,
        acknowledged.ledger, acknowledged.entry, acknowledged.batch_index)
        = (log.run, log.topic, log.cluster, begin.subscription, log.ledger, log.entry, log.batch_index)
), all_done AS (
    SELECT *, max(coalesce(at_ns, 9223372036854775807)) OVER (
        PARTITION BY run, topic, cluster, subscription ORDER BY ledger, entry, batch_index
    ) AS all_ns FROM done
)
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'cursor') AS reading
SEMI JOIN all_done ON (all_done.run, all_done.topic, all_done.cluster, all_done.subscription)
        = (reading.run, reading.topic, reading.cluster, reading.subscription)
    AND all_ns < reading.invoked_ns AND (all_done.ledger, all_done.entry) > (reading.ledger, reading.entry);

-- redelivered without request
SELECT count(*) FROM (
    SELECT *, lag(invoked_ns) OVER (
        PARTITION BY run, topic, cluster, subscription, ledger, entry, batch_index, consumer ORDER BY invoked_ns
    ) AS before_ns
    FROM events WHERE kind = 'dispatch' AND subscription_type IN ('Shared', 'Key_Shared') AND chunk_uuid IS NULL
) AS given LEFT JOIN (SELECT * FROM events WHERE kind = 'ack') AS ack
USING (run, topic, cluster, subscription, ledger, entry, batch_index)
WHERE before_ns < given.invoked_ns AND given.invoked_ns < coalesce(ack.invoked_ns, 9223372036854775807);

-- delivered before beginning
SELECT count(*) FROM (SELECT * FROM events WHERE kind = 'dispatch') AS given
JOIN (SELECT * FROM events WHERE kind = 'begin') AS begin USING (run, topic, cluster, subscription)
WHERE (given.ledger, given.entry) <= (begin.ledger, begin.entry);

-- one active consumer
SELECT count(*) FROM (
    SELECT consumer, lag(consumer) OVER (PARTITION BY run, topic, cluster, subscription ORDER BY invoked_ns) AS before
    FROM events WHERE kind = 'dispatch' AND subscription_type IN ('Exclusive', 'Failover')
) WHERE consumer <> before;

-- keys stay
SELECT count(*) FROM (
    SELECT consumer, lag(consumer) OVER (PARTITION BY run, topic, cluster, subscription, key ORDER BY invoked_ns) AS before
    FROM events WHERE kind = 'dispatch' AND subscription_type = 'Key_Shared' AND key IS NOT NULL
) WHERE consumer <> before;
