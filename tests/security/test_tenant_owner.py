"""Tests of a role that administers one tenant and may do nothing else, on a cluster with authorization."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.brokers.select import parse_broker
from conformance.clients.admin.client import Admin
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.place import RunPlace
from conformance.tenancy.run_name import RunName
from tests.security.commands import run_for_real
from tests.security.secured_broker import OWNER, TENANT, SecuredBroker
from tests.security.tokens import token


def test_creating_a_tenant_is_refused_in_one_sentence_with_advice(secured: SecuredBroker) -> None:
    broker = parse_broker(secured.text, security=secured.as_role(OWNER))
    broker.start()
    told = rf"^The run has no tenant of its own, because role '{OWNER}' may not create tenants[^\n]*With --tenant NAME "
    with pytest.raises(HarnessError, match=told):
        RunPlace(broker)


def test_a_tenant_of_another_administrator_is_refused_in_one_sentence(secured: SecuredBroker) -> None:
    broker = parse_broker(secured.text, security=secured.as_role(OWNER))
    broker.start()
    footprint = Footprint(name=RunName.new(at_most_s=60), within="public")
    with pytest.raises(
        HarnessError,
        match=rf"^The run cannot make its namespaces, because role '{OWNER}' may not create namespaces [^\n]*$",
    ):
        RunPlace(broker, footprint)


@pytest.mark.parametrize(
    ("within", "role", "status"),
    [((), OWNER, 2), (("--tenant", TENANT), OWNER, 0), (("--tenant", TENANT), "nobody", 2)],
)
def test_a_dry_run_foretells_whether_the_cluster_refuses_the_run(
    secured: SecuredBroker, within: tuple[str, ...], role: str, status: int, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(token(role))
    access = ("--tls-trust-certs", secured.authority.file, "--token-file", str(file))
    asked = ("check", "--broker", secured.text, *access, *within, "--rules", "ACK-01", "--dry-run")
    ran = run_for_real(*asked, folder=tmp_path)
    assert (ran.status, ran.err) == (status, "")
    assert ("The cluster would refuse the run: role" in ran.out) == (status == 2)
    assert ("Can decide 1 of 1 rule." in ran.out) == (status == 0)


def test_everything_is_created_and_removed_in_its_tenant(secured: SecuredBroker) -> None:
    broker = parse_broker(secured.text, security=secured.as_role(OWNER))
    broker.start()
    with Admin(secured.admin) as admin:
        before = sorted(admin.namespaces(TENANT))
        with RunPlace(broker, Footprint(name=RunName.new(at_most_s=60), within=TENANT)) as place:
            world = World(broker, place=place)
            assert world.assumes_settings
            world.namespaces.of_cursors("every-ack", is_trimmed=True)
            world.assert_alive()
            assert world.broker_default == (admin.runtime_configuration()["brokerDeduplicationEnabled"] == "true")
            world.close()
        assert sorted(admin.namespaces(TENANT)) == before
