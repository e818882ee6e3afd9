"""Tests of the removal of namespaces, on a broker that fails at it."""

from __future__ import annotations

import uuid

import pytest

from conformance.brokers.interface import Broker, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.faults.byteman import Agent
from conformance.tenancy.removal import remove_namespaces
from tests.brokers.contract import needs

FAILS = {
    "test: policies stay": """
RULE test: policies stay
CLASS org.apache.pulsar.broker.resources.NamespaceResources
METHOD deletePoliciesAsync
AT ENTRY
IF true
DO THROW new java.lang.IllegalStateException("test")
ENDRULE
"""
}
"""A deletion fails when everything is deleted but the policies, which say then that the namespace is deleted."""


def test_a_namespace_whose_deletion_failed_half_way_is_removed(broker: Broker) -> None:
    needs(broker, Capability.DEFECTS)
    (agent,) = map(Agent, broker.load_agents())
    namespace = f"public/{uuid.uuid4().hex}"
    with Admin(broker.addresses.admin) as admin:
        admin.create_namespace(namespace)
        admin.create_topic(f"persistent://{namespace}/t")
        agent.load(FAILS)
        try:
            admin.delete_topic(f"persistent://{namespace}/t", force=True)
            with pytest.raises(AdminError):
                admin.delete_namespace(namespace)
        finally:
            agent.delete(FAILS)
        with pytest.raises(AdminError, match="is deleted"):
            admin.topics(namespace, domain="non-persistent")
        remove_namespaces(admin, [namespace])
        assert namespace not in admin.namespaces("public")
