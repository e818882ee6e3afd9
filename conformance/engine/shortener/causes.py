"""The steps of a recording that may have caused its violation: faults, deeds of administrators, and failed answers.

The model may find a violation without them: an internal error, for example, breaks a rule whatever happened before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, get_args

from conformance.engine.slices import topics_of
from conformance.history.document import Step
from model.cluster_operations import CutLink, HoldLink, LoseCluster, SlowLink
from model.events import Refused, Unknown
from model.operations import (
    CrashProducer,
    CrashSource,
    DeploymentOperation,
    InjectNetworkFault,
    Kill,
    Restart,
    Send,
    SetDeduplication,
    SetFailpoint,
    Terminate,
    Trim,
    Unload,
)
from model.subscription_operations import (
    CrashConsumer,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
)

_FAULTS: Final = (
    *(Unload, Restart, Kill, SetFailpoint, InjectNetworkFault, CrashProducer, CrashSource, CrashConsumer),
    *(CutConnection, CutDuring, CutLink, HoldLink, SlowLink, LoseCluster, *get_args(DeploymentOperation)),
)
_DEEDS: Final = (SetDeduplication, Terminate, Trim, DeleteSubscription, Skip, SkipAll, Expire, ResetCursor, Seek)


def causes(steps: Sequence[Step]) -> Iterator[int]:
    """The places of these steps before the last one, on its topic or on no topic; the last ones first."""
    topics = topics_of([step.operation for step in steps])
    for at in range(len(steps) - 2, -1, -1):
        is_about_it = topics[-1] is None or topics[at] in (None, topics[-1])
        if is_about_it and _may_be_cause(steps[at]):
            yield at


def _may_be_cause(step: Step) -> bool:
    is_interrupted = isinstance(step.operation, Send) and step.operation.interruption is not None
    is_amiss = bool(step.unexpected) or isinstance(step.outcome, Refused | Unknown)
    return isinstance(step.operation, (*_FAULTS, *_DEEDS)) or is_interrupted or is_amiss
