"""The pages of the documentation on releases: releases that were tried, and capabilities that may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from conformance.brokers.tried import Check, Tried
from conformance.lockstep.capabilities import REQUIREMENTS
from conformance.lockstep.questions import (
    AdminRequest,
    AtMost,
    ClientFeature,
    ClientInProcess,
    Dispatcher,
    EntryHeader,
    HasSetting,
    IsOn,
    KnownDispatchers,
    PowerFailure,
    Question,
    StatsField,
    TwoReleases,
)
from conformance.lockstep.settings.dispatchers import DRAINING_FIELD
from conformance.report.docs.markdown import grid, page
from conformance.tenancy.cluster_settings import CLASSIC

_RELEASES = """\
Releases that the suite has obtained and checked for a short while, each with one seed.
[Brokers](../brokers.md#a-release-as-local-processes) says how a release is obtained. `pulsar-conformance releases`
prints the first columns, and says what the cache has. `pulsar-conformance releases 4.0.3` asks Maven Central for a
release that is not in the table.

*Start*, *kill* and *takeover* count until a message that is sent afterwards is confirmed: by a broker that starts, by
one that is killed and started again, and by another broker when a topic's owner is killed. The machine had two cores,
on which other checks ran: the times are upper bounds. Releases without these times were checked earlier, as
a standalone.

A short check exercises a part of the rules only. [Deviations](deviations.md) are known for the releases on which they
were seen, so on another release the same behaviour is a violation until somebody has
[triaged](../extending.md#a-release) it. Exit status 2 without a harness error says that rules were not exercised. *The
rest* is a second check of these rules, as long as the first: its exit status and verdicts.
`python -m tests.quality.releases VERSION ...` writes this table's data."""

_CAPABILITIES = """\
What a release, a client or a deployment may lack, and what needs it. A running broker is asked, and the installed
pulsar-client by its signatures; nothing is decided by a version. Where something is missing, the rules are *not
decidable*, and the operations are left out of every example, so that a seed repeats the others. What can be done to the
broker's process (restart, kill, freeze, failpoints, several clusters) is what a machine needs:
`pulsar-conformance machines` lists it.

A broker whose protocol has no receipts for acknowledgments (before version 17) needs no entry: the wire client sends a
PING after the ack, and waits for the PONG."""


def releases_page(tried: Sequence[Tried]) -> str:
    """The table of releases."""
    times = ("start", "kill", "takeover")
    headings = ("release", "obtained", *times, "exit status", "verdicts", "violated", "the rest", "check")
    return page("Releases", _RELEASES, grid(headings, [_release(one) for one in tried]))


def _release(one: Tried) -> tuple[str, ...]:
    if one.check is None:
        return (one.version, one.why or _obtained(one), "-", "-", "-", "-", "not checked", "-", "-", "-")
    check = one.check
    status = f"{check.exit_status}" + (f" ({check.harness_error})" if check.harness_error else "")
    return (
        one.version,
        _obtained(one),
        *_seconds(one),
        status,
        _verdicts(check),
        ", ".join(check.violated) or "-",
        _rest(one.rest),
        _check(check),
    )


def _rest(rest: Check | None) -> str:
    """What came of the rules that the check did not exercise."""
    if rest is None:
        return "-"
    exercised = f"{rest.rules}: {_verdicts(rest)}"
    return f"{rest.exit_status}; {exercised}" + (f" ({rest.harness_error})" if rest.harness_error else "")


def _verdicts(check: Check) -> str:
    return ", ".join(f"{count} {verdict.replace('-', ' ')}" for verdict, count in check.verdicts.items())


def _seconds(one: Tried) -> tuple[str, str, str]:
    """What a start, a kill and a takeover take."""
    if one.steps is None:
        return ("-", "-", "-")
    steps = one.steps
    return (f"{steps.start:.1f} s", f"{steps.kill:.1f} s", f"{steps.takeover:.1f} s")


def _obtained(one: Tried) -> str:
    if one.how != "assembled":
        return one.how
    own = "" if one.has_own_configuration else "; defaults of its code"
    return f"assembled from {one.jars} jars in {one.seconds:.0f} s{own}"


def _check(check: Check) -> str:
    what = f"{check.rules}, seed {check.seed}, {check.seconds:g} s, {check.operations:,} operations"
    return f"{what}, pulsar-client {check.client}, {check.date}"


def capabilities_page() -> str:
    """The table of capabilities."""
    rows = [(one.name, _asked(one.asks), ", ".join(one.rules) or "-", one.withheld or "-") for one in REQUIREMENTS]
    return page(
        "Capabilities", _CAPABILITIES, grid(("capability", "asked for", "rules that need it", "without it"), rows)
    )


def _asked(question: Question) -> str:
    match question:
        case AdminRequest(path):
            return f"the admin request `TOPIC/{path}`"
        case StatsField(part, name):
            return f"the field `{name}` of `{part}` in a topic's stats"
        case EntryHeader(name):
            return f"the field `{name}` in the response to `TOPIC/ledger/LEDGER/entry/ENTRY`"
        case HasSetting(name):
            return f"the setting `{name}`"
        case IsOn(names):
            return " and ".join(f"`{name}=true`" for name in names)
        case AtMost(limits):
            return " or ".join(f"`{name}` at most {largest:g}" for name, (_, largest) in limits.items())
        case Dispatcher(kind):
            field = f"the field `{DRAINING_FIELD}` in `subscriptions` of a topic's stats"
            return field if kind == "draining" else f"the setting `{CLASSIC}`, or stats without that field"
        case KnownDispatchers():
            return "whether all brokers show draining hashes, or none, or a deployment of separate processes"
        case TwoReleases():
            return "a deployment of separate processes with brokers of two releases, as in `--broker 4.0.8,4.2.4`"
        case PowerFailure():
            return "a deployment of separate processes, with `journalSyncData=true`"
        case ClientFeature(name):
            return f"the feature `{name}` of the client (an option of pulsar-client, or declared by a driver)"
        case ClientInProcess():
            return "pulsar-client, and not a client behind a driver"
        case _:
            assert_never(question)
