"""Seeded defects of a broker: small bugs switched on and off in its process, for all topics, without a restart.

A defect that the machines do not find is a hole in the suite. It ends with the broker's process, and must be switched
on again after a restart. ``catalogue`` has all defects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.brokers.interface import AgentAddress
from conformance.faults.byteman import Agent, AgentGone, rule_names
from conformance.faults.catalogue import BrokerDefect


def switch_on(address: AgentAddress, defect: BrokerDefect) -> None:
    """Switch a defect on, unless it is on.

    Raises :class:`~conformance.harness_error.HarnessError` if the agent cannot load its rules. Type errors show only
    after the rules were reached (:func:`was_reached`, :func:`switch_off`).
    """
    if not is_on(address, defect):
        Agent(address).load(_scripts(defect))


def switch_off(address: AgentAddress, defect: BrokerDefect) -> None:
    """Switch a defect off, if it is on. It ended with the process if that has ended.

    Raises :class:`~conformance.harness_error.HarnessError` if its rules had an error, so that it had no effect.
    """
    try:
        if not is_on(address, defect):
            return
    except AgentGone:
        return
    agent = Agent(address)
    try:
        agent.check(_scripts(defect))
    finally:
        agent.delete(_scripts(defect))


@contextmanager
def switched(address: AgentAddress, defect: BrokerDefect) -> Iterator[None]:
    """Switch a defect on for a ``with`` block."""
    switch_on(address, defect)
    try:
        yield
    finally:
        switch_off(address, defect)


def is_on(address: AgentAddress, defect: BrokerDefect) -> bool:
    return {rule.name for rule in Agent(address).rules()} >= set(rule_names(defect.text))


def was_reached(address: AgentAddress, defect: BrokerDefect) -> bool:
    """Whether all code that a defect changes has run since it was switched on."""
    reached = {rule.name for rule in Agent(address).rules() if rule.reached}
    return reached >= set(rule_names(defect.text))


def _scripts(defect: BrokerDefect) -> dict[str, str]:
    return {defect.name: defect.text}
