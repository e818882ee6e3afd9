"""An engine with a script: it writes events where the supervisor expects them, and fails as its scenario says.

Run as ``python -m tests.cli.scripted_engine SCENARIO … --pulsar-events PATH --lifeline FD``. Whatever the scenario, it
starts a child that stays, and leaves both process ids in the report's folder: nothing of it may be there afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from conformance.brokers.startup.runs import GuardedProcess, RunFolder
from conformance.commands.supervision import lifeline
from conformance.events import AnyEvent, HarnessErrorHappened, NotExercisable, Phase, encode
from conformance.history import document
from conformance.history.document import ENOUGH_REPLAYS, History, replay_file
from model.events import Created
from tests.report import samples

FOREVER_S = 600.0
"""Longer than any test waits."""
BEYOND_THE_BUDGET_S = 8.0
"""How long a violation is replayed: longer than the budget of the test, and not as long as it may be."""
A_REPLAY_S = 2.0
ON_TOP_S = 20.0
"""How long it may be replayed, as the engine says."""


class Script:
    """What a scenario has at hand."""

    def __init__(self, events: IO[bytes], report: Path, rules: list[str], times: int, defect: str | None) -> None:
        self._events = events
        self.report = report
        self.rules = rules
        self.times = times
        self.defect = defect

    def tell(self, *events: AnyEvent) -> None:
        """Write events, at once."""
        for event in events:
            self._events.write(encode(event))
        self._events.flush()

    def write(self, raw: bytes) -> None:
        """Write something that may be no event."""
        self._events.write(raw)
        self._events.flush()

    def exercise_all(self) -> None:
        """Exercise every rule asked for, in two examples."""
        half = len(self.rules) // 2
        for at_s, rules in ((6.0, self.rules[:half]), (7.0, self.rules[half:])):
            self.tell(samples.example(at_s, **{rule.replace("-", "_"): 3 for rule in rules}))


def starts_for_ever(script: Script) -> None:
    """The broker does not come up."""
    script.tell(Phase(at_s=0.1, what="Starting the broker"))
    time.sleep(FOREVER_S)


def holds(script: Script) -> None:
    """Every rule is exercised and holds."""
    script.tell(Phase(at_s=0.1, what="Starting the broker"), samples.STARTED)
    script.exercise_all()
    script.tell(samples.finished())


def leaves_out(script: Script) -> None:
    """One rule is not exercised, and the run says why."""
    script.rules.remove("DEDUP-04")
    script.tell(samples.STARTED, NotExercisable(at_s=5.0, rule="DEDUP-04", why="no write can fail in this broker"))
    script.exercise_all()
    script.tell(samples.finished())


def violates(script: Script) -> None:
    """A rule is broken, and its history shortened."""
    _write_histories(script)
    script.tell(samples.STARTED)
    script.exercise_all()
    script.tell(samples.FOUND, samples.MINIMISED, samples.finished())
    sys.exit(1)


def violates_and_works_on(script: Script) -> None:
    """A rule is broken, and there is more to do."""
    _write_histories(script)
    script.tell(samples.STARTED, samples.FOUND, samples.MINIMISED)
    time.sleep(FOREVER_S)


def suspects(script: Script) -> None:
    """A rule is broken, and that never comes back."""
    _write_histories(script)
    script.tell(samples.STARTED)
    script.exercise_all()
    never = msgspec.structs.replace(samples.MINIMISED, tries=ENOUGH_REPLAYS, came_back=0)
    script.tell(samples.FOUND, never, samples.finished())
    sys.exit(1)


def deviates(script: Script) -> None:
    """A known deviation is met and tolerated."""
    script.tell(samples.STARTED)
    script.exercise_all()
    script.tell(samples.example(8.5, deviations=12), samples.finished())


def crashes(script: Script) -> None:
    """The process dies in the middle."""
    print("the last thing it printed", flush=True)
    script.tell(samples.STARTED)
    script.exercise_all()
    os.kill(os.getpid(), signal.SIGSEGV)


def loses_a_process(script: Script) -> None:
    """A process of the release is killed, and the run notices nothing."""
    holds(script)
    run = RunFolder()
    guarded = GuardedProcess(run, "bookie")
    guarded.start([sys.executable, "-c", f"import time; print('its last line', flush=True); time.sleep({FOREVER_S})"])
    pid = guarded.pid()
    assert pid is not None
    while not guarded.output():
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    while guarded.exit_status() is None:
        time.sleep(0.01)
    run.close()


def leaves(script: Script) -> None:
    """It ends in good order but too early."""
    script.tell(samples.STARTED)


def has_harness_error(script: Script) -> None:
    """It tells of a harness error and ends."""
    script.tell(HarnessErrorHappened(at_s=1.0, sentence="The broker did not start within 60 s.", log_tail="<no heap>"))
    sys.exit(2)


def babbles(script: Script) -> None:
    """What it writes is not all events."""
    script.tell(samples.STARTED)
    script.write(b'{"event": "Nonsense"}\nno json \xff\n\n')
    script.exercise_all()
    script.tell(samples.finished())


def fails_silently(script: Script) -> None:
    """It says that all is well and then ends with a failure."""
    holds(script)
    sys.exit(1)


def finds_no_machine(script: Script) -> None:
    """It ends as pytest does when there is nothing to run."""
    del script
    sys.exit(5)


def works_until_stopped(script: Script) -> None:
    """It goes on for ever, and finishes in good order when it is asked to."""
    script.tell(samples.STARTED)
    script.exercise_all()
    try:
        time.sleep(FOREVER_S)
    except KeyboardInterrupt:
        script.tell(samples.finished())


def swallows_the_first_signal(script: Script) -> None:
    """It has to be asked to stop twice."""
    script.tell(samples.STARTED)
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(FOREVER_S)
    script.exercise_all()
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(FOREVER_S)
    script.tell(samples.finished())


def hangs(script: Script) -> None:
    """It cannot be asked to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    script.tell(samples.STARTED)
    time.sleep(FOREVER_S)


def replays_on(script: Script) -> None:
    """A violation did not come back yet: it is replayed on, longer than the budget, and then all is over."""
    _write_histories(script)
    script.tell(samples.STARTED)
    script.exercise_all()
    script.tell(samples.FOUND, Phase(at_s=9.0, what="replaying a violation", until_s=9.0 + ON_TOP_S))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    stopped = signal.sigtimedwait([signal.SIGINT], BEYOND_THE_BUDGET_S)
    if stopped is None:
        script.tell(msgspec.structs.replace(samples.MINIMISED, tries=30, came_back=0))
    script.tell(samples.finished())
    sys.exit(1)


def replays_after_the_budget(script: Script) -> None:
    """It is still shortening when its time is up, and then asks for the time of a replay."""
    _write_histories(script)
    script.tell(samples.STARTED)
    script.exercise_all()
    script.tell(samples.FOUND)
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(FOREVER_S)
    script.tell(Phase(at_s=9.0, what="replaying a violation", until_s=9.0 + ON_TOP_S))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    if signal.sigtimedwait([signal.SIGINT], A_REPLAY_S) is None:
        script.tell(msgspec.structs.replace(samples.MINIMISED, tries=30, came_back=0))
    script.tell(samples.finished())
    sys.exit(2)  # as pytest does after an interrupt


def replays_on_for_ever(script: Script) -> None:
    """It asks for more time than there is for anybody, and hangs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    script.tell(samples.STARTED, Phase(at_s=5.0, what="replaying a violation", until_s=FOREVER_S))
    time.sleep(FOREVER_S)


def replays(script: Script) -> None:
    """The violation comes back every second time."""
    script.tell(samples.STARTED)
    for number in range(script.times):
        document.write(_performed_otherwise(number), script.report / replay_file(number + 1))
        script.tell(samples.FOUND if number % 2 == 0 else samples.example())
    script.tell(samples.finished())
    sys.exit(1)


def violates_and_replays_for_ever(script: Script) -> None:
    """A check finds a violation; its replays go on until they are asked to stop."""
    if script.times > 1:
        works_until_stopped(script)
    else:
        violates(script)


def has_a_defect(script: Script) -> None:
    """A defect is switched on; what comes of it depends on which it is."""
    script.tell(samples.STARTED)
    match script.defect:
        case "check-removed":
            script.tell(samples.FOUND, samples.MINIMISED, samples.REPLAYED_SOUNDLY, samples.finished())
            sys.exit(1)
        case "gap-refused":
            blamed_wrongly = msgspec.structs.replace(samples.REPLAYED_SOUNDLY, came_back=6)
            script.tell(samples.FOUND, samples.MINIMISED, blamed_wrongly, samples.finished())
            sys.exit(1)
        case "ack-dropped":
            never = msgspec.structs.replace(samples.MINIMISED, tries=ENOUGH_REPLAYS, came_back=0)
            script.tell(samples.FOUND, never, samples.REPLAYED_SOUNDLY, samples.finished())
            sys.exit(1)
        case "switch-ignored":
            script.tell(samples.example(7.5), samples.finished())
        case _:
            script.tell(samples.FOUND)
            has_harness_error(script)


def replays_known(script: Script) -> None:
    """A known deviation is met every second time."""
    script.tell(samples.STARTED)
    for number in range(script.times):
        script.tell(samples.example(deviations=1 - number % 2))
    script.tell(samples.finished())


SCENARIOS: dict[str, Callable[[Script], None]] = {
    scenario.__name__: scenario
    for scenario in (
        starts_for_ever,
        holds,
        leaves_out,
        violates,
        violates_and_works_on,
        suspects,
        deviates,
        crashes,
        leaves,
        loses_a_process,
        has_harness_error,
        babbles,
        fails_silently,
        finds_no_machine,
        works_until_stopped,
        swallows_the_first_signal,
        hangs,
        replays,
        replays_on,
        replays_after_the_budget,
        replays_on_for_ever,
        violates_and_replays_for_ever,
        replays_known,
        has_a_defect,
    )
}


def _write_histories(script: Script) -> None:
    (script.report / "histories").mkdir(exist_ok=True)
    for path in (samples.FOUND.history, samples.MINIMISED.history):
        document.write(samples.history(), script.report / path)


def _performed_otherwise(number: int) -> History:
    """The sample history, performed again: its first topic has another number of producers in a snapshot."""
    first, *rest = samples.STEPS
    created = Created(deduplication=True, snapshot_room=100 + number)
    return samples.history(msgspec.structs.replace(first, outcome=created), *rest)


def main() -> None:
    """Follow the script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--pulsar-events", required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("--pulsar-report", type=Path, required=True)
    parser.add_argument("--pulsar-rules", required=True)
    parser.add_argument("--pulsar-times", type=int, default=1)
    parser.add_argument("--pulsar-defect")
    given, _ = parser.parse_known_args()
    lifeline.hold(given.lifeline)
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({FOREVER_S})"])
    (given.pulsar_report / "arguments").write_text(shlex.join(sys.argv))
    (given.pulsar_report / "pids").write_text(f"{os.getpid()} {child.pid}\n")
    with Path(given.pulsar_events).open("wb") as events:
        script = Script(
            events, given.pulsar_report, given.pulsar_rules.split(","), given.pulsar_times, given.pulsar_defect
        )
        SCENARIOS[given.scenario](script)


if __name__ == "__main__":
    main()
