"""Replays histories in lanes, side by side, unless they concern more than their own topics and clusters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from conformance.engine.lanes.lanes import STOP_TIMEOUT_S, Lanes, Taken, Task
from conformance.engine.lanes.protocol import Replayed, ReplayHistory, RoundEnded
from conformance.engine.shortener.attempt import Operations
from conformance.harness_error import HarnessError
from model.operations import (
    AcknowledgeAtFrozen,
    AnyOperation,
    CreateTopic,
    DisturbMetadataStore,
    FreezeOwner,
    Kill,
    LoseBookie,
    Restart,
    RestoreBookies,
    SendToFrozen,
    TakeOver,
    ThawOwners,
    Unload,
)


def can_share_broker(operations: Iterable[AnyOperation]) -> bool:
    """Whether a history leaves alone what lanes share: the processes and settings of one cluster."""
    return not any(map(_is_of_the_deployment, operations))


def has_further_clusters(operations: Iterable[AnyOperation]) -> bool:
    """Whether a history has topics in several clusters, which each lane starts for itself."""
    return any(isinstance(one, CreateTopic) and (one.clusters > 1 or one.home is not None) for one in operations)


def _is_of_the_deployment(operation: AnyOperation) -> bool:
    match operation:
        case Restart(cluster=str()) | Kill(cluster=str()):
            return False  # of a lane's own
        case Restart() | Kill() | TakeOver() | FreezeOwner() | SendToFrozen() | AcknowledgeAtFrozen() | ThawOwners():
            return True
        case LoseBookie() | RestoreBookies() | DisturbMetadataStore():
            return True
        case Unload(classic=classic):
            return classic is not None
        case _:
            return False


def replay_in_lanes(
    lanes: Lanes, histories: Sequence[Operations], machine: str, until: float | None = None
) -> list[Replayed | None]:
    """What came of these histories of a machine, in their order; HarnessError if one fails.

    None: it has not ended by ``until``, on the monotonic clock, and its lane is of no use any more. An interrupt ends
    none: its caller passes no more histories than there are lanes.
    """
    waiting = [ReplayHistory(number, machine, tuple(operations)) for number, operations in enumerate(histories)]
    replayed: dict[int, Replayed] = {}
    failures: list[str] = []

    def take(task: Task, taken: Taken) -> None:
        match task, taken:
            case ReplayHistory(number=number), Replayed():
                replayed[number] = taken
            case _, RoundEnded(failure=str(why)):
                failures.append(why)
            case _:
                raise AssertionError(f"{taken} is not the answer to {task}")

    def is_late() -> bool:
        return until is not None and time.monotonic() >= until

    lanes.run(
        lambda: waiting.pop(0) if waiting else None,
        lambda _: bool(failures) or is_late(),
        take,
        lambda: 0.0 if is_late() else STOP_TIMEOUT_S,
    )
    if failures:
        raise HarnessError(failures[0])
    return [replayed.get(number) for number in range(len(histories))]
