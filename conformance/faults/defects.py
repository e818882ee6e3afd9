"""Seeded defects of a broker: small bugs switched on and off inside it, for all its topics, without a restart.

A defect that the machines do not find is a hole in the suite. It is gone when the broker's process ends: whoever starts
the broker again switches it on again. Which defects there are is in ``catalogue``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.brokers.interface import AgentAddress
from conformance.faults.byteman import Agent, rule_names
from conformance.faults.catalogue import BrokerDefect


def switch_on(address: AgentAddress, defect: BrokerDefect) -> None:
    """Give the broker a defect; nothing happens if it has it already.

    Raises :class:`~conformance.harness_error.HarnessError` if the agent cannot use its rules; whether they fit the
    broker's code in every respect is known only once they were reached (:func:`was_reached`, :func:`switch_off`).
    """
    if not is_on(address, defect):
        Agent(address).load(_scripts(defect))


def switch_off(address: AgentAddress, defect: BrokerDefect) -> None:
    """Take a defect out of the broker; nothing happens if it does not have it.

    Raises :class:`~conformance.harness_error.HarnessError` if it turned out meanwhile that its rules do not fit the
    broker's code, so that it never had an effect.
    """
    if not is_on(address, defect):
        return
    agent = Agent(address)
    try:
        agent.check(_scripts(defect))
    finally:
        agent.delete(_scripts(defect))


@contextmanager
def switched(address: AgentAddress, defect: BrokerDefect) -> Iterator[None]:
    """Have a defect in the broker for the length of a block."""
    switch_on(address, defect)
    try:
        yield
    finally:
        switch_off(address, defect)


def is_on(address: AgentAddress, defect: BrokerDefect) -> bool:
    """Whether the broker's process has the defect now."""
    return {rule.name for rule in Agent(address).rules()} >= set(rule_names(defect.text))


def was_reached(address: AgentAddress, defect: BrokerDefect) -> bool:
    """Whether the code that a defect changes ran since it was switched on; all of it, if it changes several places."""
    reached = {rule.name for rule in Agent(address).rules() if rule.reached}
    return reached >= set(rule_names(defect.text))


def _scripts(defect: BrokerDefect) -> dict[str, str]:
    return {defect.name: defect.text}
