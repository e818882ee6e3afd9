"""What a broken topic costs, compared with the same topic while it is sound.

    python -m tests.quality.broken_topic [--entries 20000 --entries 200000]

Each way breaks very many events of a realistic topic. The seconds are those of a core, to judge all invariants; all
known deviations are searched for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conformance.pipeline.explanations import EXPLANATIONS
from conformance.pipeline.files.compacted_files import ROWS_OF_A_BATCH
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.results import NEEDED, TOPICS, judge_batches
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.histories import realistic

TIMES = ("invoked_ns", "completed_ns")


def reversed_in(events: pa.Table, names: tuple[str, ...], kind: str, subscription: str | None = None) -> pa.Table:
    """The events of this kind have their values in these columns in the reversed order."""
    is_meant = pc.equal(events["kind"], kind)
    if subscription is not None:
        is_meant = pc.and_(is_meant, pc.fill_null(pc.equal(events["subscription"], subscription), fill_value=False))
    rows = np.arange(len(events))
    rows[is_meant.to_numpy()] = rows[is_meant.to_numpy()][::-1]
    for name in names:
        column = events[name].take(rows)
        events = events.set_column(events.schema.get_field_index(name), events.schema.field(name), column)
    ledger, entry, completed_ns = (events[name].fill_null(-2).to_numpy() for name in ("ledger", "entry", TIMES[1]))
    return events.take(np.lexsort((completed_ns, entry, ledger)))


WAYS: Mapping[str, Callable[[pa.Table], pa.Table]] = {
    "sound": lambda events: events,
    "an Exclusive subscription reversed": lambda events: reversed_in(events, TIMES, "dispatch", realistic.ORDERED),
    "a Key_Shared subscription reversed": lambda events: reversed_in(events, TIMES, "dispatch", realistic.KEYED),
    "sends reversed": lambda events: reversed_in(events, TIMES, "send"),
    "acks reversed": lambda events: reversed_in(events, TIMES, "ack"),
    "sequence ids of the log reversed": lambda events: reversed_in(events, ("sequence_id",), "log"),
    "other payloads in the log": lambda events: reversed_in(events, ("digest",), "log"),
    "nothing in the log": lambda events: events.filter(pc.not_equal(events["kind"], "log")),
}
"""The topic, sound and broken."""


def judged(events: pa.Table) -> tuple[int, float]:
    """How many times the events break an invariant, and how many seconds of a core it takes to judge them."""
    known = frozenset(explanation.deviation for explanation in EXPLANATIONS)
    batches = events.select(NEEDED).to_batches(ROWS_OF_A_BATCH)
    began = time.process_time()
    results = judge_batches(batches, VerificationSetting(on_its_way_ns=0, known={"r": known}), INVARIANTS)
    seconds = time.process_time() - began
    return sum(row["broken"] for row in results.to_pylist() if row["invariant"] != TOPICS), seconds


@click.command()
@click.option("--entries", multiple=True, type=int, default=(20_000, 200_000), show_default=True)
def main(entries: tuple[int, ...]) -> None:
    """Print what each costs at each size."""
    for number in entries:
        events = realistic.topic_table(1, entries=number)
        sound_s = 0.0
        for name, broken in WAYS.items():
            times, seconds = judged(broken(events))
            sound_s = sound_s or seconds
            cost = f"{seconds:.2f} s of a core, {seconds / sound_s:.1f} of the sound one"
            click.echo(f"{len(events)} events, {name}: broken {times} times, {cost}")


if __name__ == "__main__":
    main()
