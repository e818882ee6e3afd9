from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, reloads
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, StoredAgain

ENTRY = Deviation(
    name="recovery-ignores-replicator-positions",
    aliases=("replay-forgets-replicators",),
    rule="REPL-01",
    statement="With deduplication, a message that a replicator sends again after the remote topic was reloaded is stored twice. Messages that producers send again are recognized.",
    cause="MessageDeduplication.isDuplicateReplV2 compares positions of the source, kept under the replicator's name with _LID and _EID. When a topic is loaded, replayCursor reads the log after the snapshot and counts every entry by its original producer's name and sequence id only. So what replicators stored since the last snapshot is lost (4.0.8, lines 239 to 258). 3.3.2 and 4.0.1 have no such positions.",
    upstream=("apache/pulsar#25861",),
    side="broker",
    releases=(">=3.3.5,<4.0.0", ">=4.0.4,<=4.0.8", "==4.2.4", "==5.0.1"),
    seen=("4.0.8", "3.3.6", "3.3.5", "4.2.4", "5.0.1"),
    fixed=("4.0.0",),
    shadow=Shadow(
        name="test_a_reload_excuses_one_more_copy_of_what_a_replicator_had_sent",
        by="small history",
        statement="A third copy of a message after one reload is found, and a second copy of one that was published after the reload, or by the cluster's own producers.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def is_explained(found: Findings, about: object) -> bool:
        """Whether each further copy of a message has its own reload, after the first copy and before the last."""
        if not isinstance(about, StoredAgain) or not about.is_sent_again:
            return False
        log = found.logs[about.cluster]
        copies = [index for index, entry in enumerate(log.entries) if entry.message == about.message]
        loads = reloads(state, found.name, about.cluster)
        between = [one for one in loads if one.may_follow(log, copies[0]) and one.may_precede(log, copies[-1])]
        return len(copies) - 1 <= len(between)

    return explaining(ENTRY, broken, is_explained)
