"""Announces what a run leaves on a running cluster while it goes on, and sees to it that nothing is left at the end.

The process that runs removes everything itself. If it was killed, because it was asked to stop twice or did not stop,
it is done here.
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
    """Run something on the cluster that ``broker`` names; without a footprint it is a broker of the suite's own."""
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
    """What was removed, in words."""
    from conformance.report.sentences.lists import count

    told = f"{count(removed.namespaces, 'namespace', 'namespaces')} with {count(removed.topics, 'topic', 'topics')}"
    return f"{told}; set back: {', '.join(removed.settings)}" if removed.settings else told


def _remove_what_is_left(broker: str, footprint: Footprint, security: Security, err: Console) -> None:
    """Whatever is the matter has been told already, so that what fails here is only added."""
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
