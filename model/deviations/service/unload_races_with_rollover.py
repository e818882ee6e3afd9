from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_last_ledger_full
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="unload-races-with-rollover",
    rule="SERVE-01",
    statement="A topic is unloaded while its last ledger, which is full, is being replaced. The next request that loads the topic is answered once with an internal error (BadVersionException).",
    cause="ManagedLedgerImpl.createComplete does not look whether the managed ledger was closed in the meantime. It writes the list of ledgers to the metadata store while the topic is loaded again, which writes that list, too (2.11.0; read in 2.10.1 as well). 3.0.7 and later releases look, but a write that had begun by then still races with the load (read in 3.0.7, 3.3.5, 3.3.6 and 4.0.8).",
    side="broker",
    releases=(">=2.10.1,<=2.11.0",),
    seldom=(">=3.0.7,<=4.2.4",),
    seen=("2.11.0", "4.2.4"),
    occurrence="In 1 of 18 plays on 2.11.0, and once in 40,000 operations on 4.2.4.",
    shadow=Shadow(
        name="test_only_a_rollover_excuses_a_topic_that_is_not_loaded_again",
        by="small history",
        statement="A topic that is loaded again fails with BadVersion although its last ledger has room, or for good, or with another error.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(message=message, topic=topic, is_last=False) if "BadVersionException" in message:
            is_racing = topic in state.service.loading and is_last_ledger_full(state, topic)
            return broken.passing() if is_racing else None
        case _:
            return None
