"""Announces what a run creates on a running cluster, and removes what is left at the end.

The engine removes everything itself. This module does it after an engine that was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conformance.harness_error import HarnessError

if TYPE_CHECKING:
    from rich.console import Console

    from conformance.clients.security.service import Security
    from conformance.tenancy.footprint import Footprint
    from conformance.tenancy.leftovers import Removed


@contextmanager
def on_cluster(broker: str, footprint: Footprint | None, security: Security, *, err: Console) -> Iterator[None]:
    """Run on the cluster that ``broker`` names; without a footprint it is a broker of the suite's own."""
    if footprint is None:
        yield
        return
    for sentence in footprint.sentences():
        err.print(sentence, markup=False, soft_wrap=True)
    try:
        yield
    finally:
        _remove_what_is_left(broker, footprint, security, err)


def described(removed: Removed) -> str:
    """The removed parts in words."""
    from conformance.report.sentences.lists import count

    parts = f"{count(removed.namespaces, 'namespace', 'namespaces')} with {count(removed.topics, 'topic', 'topics')}"
    return f"{parts}; restored: {', '.join(removed.settings)}" if removed.settings else parts


def _remove_what_is_left(broker: str, footprint: Footprint, security: Security, err: Console) -> None:
    """Remove it; a failure here is printed only, because the run's own failure is reported already."""
    from conformance.brokers.select import parse_broker
    from conformance.clients.admin.client import Admin
    from conformance.tenancy.leftovers import remove
    from conformance.tenancy.run_tenant import RunTenant

    try:
        with Admin(parse_broker(broker, security=security).addresses.admin) as admin:
            removed = remove(admin, RunTenant(admin, footprint.name, within=footprint.within))
        if removed.namespaces:
            err.print(f"Removed what the run left: {described(removed)}.", markup=False, soft_wrap=True)
    except HarnessError as harness_error:
        cause = str(harness_error).rstrip(".")
        sentence = f"The run {footprint.name} may have left something: {cause}. pulsar-conformance clean removes it."
        err.print(sentence, markup=False, soft_wrap=True)
