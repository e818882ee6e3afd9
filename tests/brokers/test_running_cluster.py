"""Tests of runs on a cluster that is somebody else's: a stock standalone is the same after a run as it was before.

With and without TLS, tokens and authorization.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest

from conformance.brokers.release import fetched_release, release_at
from conformance.cli.parameters.output import NAME
from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Security, Service
from conformance.clients.versions import client_versions
from conformance.clients.wire.client import WireClient
from conformance.commands.check import read_events
from conformance.events import RunStarted
from conformance.known import known_of, shipped
from conformance.tenancy.cluster_settings import CLASSIC
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.place import RunPlace
from conformance.tenancy.run_name import GRACE, RunName
from conformance.tenancy.run_tenant import PROCESS, RunTenant
from tests.brokers.stock_standalone import Stock, everything_on, stock_standalone
from tests.security.secured_broker import SUPER_USER, secured_broker
from tests.security.tokens import token
from tests.waits import eventually, given_time

_ENDS_WITHIN_S = 120.0
_CHECK_ENDS_WITHIN_S = 330.0
_SWITCHING = ("--rules", "KEY", "--machines", "keys-switched", "--allow-cluster-settings")
"""Runs the machine that changes a setting of the cluster, from the first example on."""


@pytest.fixture(scope="module", params=["plain", "secured"])
def stock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    kind, _, folder = request.config.getoption("--broker").partition(":")
    if folder and kind != "dist":
        pytest.skip("no distribution is at hand that could be started by its own script")
    release = release_at(Path(folder)) if folder else fetched_release(kind)
    if request.param == "plain":
        with stock_standalone(release) as started:
            yield started
        return
    with secured_broker(tmp_path_factory.mktemp("secured"), release) as secured, Admin(secured.admin) as admin:
        file = secured.folder / "token"
        file.write_text(token(SUPER_USER))
        security = Security(trust_certs_file=secured.authority.file, token_file=str(file))
        yield Stock(service=Service(secured.service_url, security), admin_url=secured.admin_url, admin=admin)


@pytest.fixture(autouse=True)
def _stays_as_it_was(stock: Stock) -> Iterator[None]:
    """Whatever a test does, the cluster is the same before and after."""
    before = everything_on(stock.admin)
    yield
    assert everything_on(stock.admin) == before


def started(stock: Stock, folder: Path, command: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a command of the suite on the cluster."""
    return subprocess.Popen(
        [sys.executable, "-m", "conformance", command, *stock.arguments, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(stock: Stock, folder: Path, command: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command of the suite on the cluster: its status, and what it printed on both streams."""
    process = started(stock, folder, command, *arguments)
    out, err = process.communicate(timeout=_CHECK_ENDS_WITHIN_S)
    return process.returncode, out, err


def test_a_successful_check_leaves_the_cluster_unchanged(stock: Stock, tmp_path: Path) -> None:
    asked = ("check", "--rules", "ACK-01,KEY-01", "--machines", "acknowledgment,keys")
    budget, (status, out, err) = given_time(
        lambda budget: run(stock, tmp_path, *asked, "--budget", budget, "--report", f"report-{budget}"),
        lambda ran: "not exercised" not in ran[1] and "not finished at the end of its budget" not in ran[1],
    )
    assert re.search(
        rf"^Creates the tenant {NAME}-\S+ with namespaces and topics, and removes it at the end\.$", err, re.M
    )
    assert "Changes nothing else on the cluster." in err
    assert status == 0, out
    (started,) = (event for event in read_events(tmp_path / f"report-{budget}") if isinstance(event, RunStarted))
    assert set(started.known) == {one.name for one in known_of(shipped(), [started.release], client_versions())}


def test_a_dry_run_says_what_a_check_would_create_and_creates_nothing(stock: Stock, tmp_path: Path) -> None:
    status, out, err = run(stock, tmp_path, "check", "--rules", "DEDUP,ACK-09", "--dry-run")
    assert (status, err) == (2, ""), "ACK-09 was named, and needs a broker that can be killed"
    text = " ".join(out.split())
    assert "Pulsar 4.0.8" in text
    assert "may read the brokers' configuration" in text
    assert re.search(rf"Creates the tenant {NAME}-\S+ with namespaces and topics", text)
    assert re.search(r"ACK-09 +it needs a broker that the suite starts", text)
    assert not [tenant for tenant in stock.admin.tenants() if RunName.parse(tenant)]
    assert not (tmp_path / "reports").exists()


def test_an_interrupted_check_that_changed_a_setting_leaves_the_cluster_unchanged(stock: Stock, tmp_path: Path) -> None:
    process = started(stock, tmp_path, "check", *_SWITCHING, "--budget", "2m")
    eventually(lambda: CLASSIC in stock.admin.dynamic_configuration(), deadline_s=_ENDS_WITHIN_S)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=_ENDS_WITHIN_S)
    assert process.returncode == 130
    assert f"May change the cluster's dynamic setting {CLASSIC}, and sets it back at the end." in err


def test_cleaning_after_a_killed_check_leaves_the_cluster_unchanged(stock: Stock, tmp_path: Path) -> None:
    process = started(stock, tmp_path, "check", *_SWITCHING, "--budget", "2m")
    eventually(lambda: CLASSIC in stock.admin.dynamic_configuration(), deadline_s=_ENDS_WITHIN_S)
    suite = psutil.Process(process.pid)
    for one in (suite, *suite.children(recursive=True)):
        one.kill()
    process.communicate(timeout=_ENDS_WITHIN_S)
    (left,) = [tenant for tenant in stock.admin.tenants() if RunName.parse(tenant)]
    assert CLASSIC in stock.admin.dynamic_configuration()
    status, out, _ = run(stock, tmp_path, "clean")
    assert status == 0
    assert re.fullmatch(rf"{left}: is over\. Removed: \d+ namespaces with \d+ topics?; restored: {CLASSIC}\.\n", out)
    assert run(stock, tmp_path, "clean") == (0, "No run left anything in the cluster.\n", "")


def test_an_interrupted_soak_leaves_the_cluster_unchanged(stock: Stock, tmp_path: Path) -> None:
    process = started(stock, tmp_path, "soak", "--minutes", "5", "--clients", "1", "--topics", "2", "--rate", "20")
    eventually(lambda: any(map(RunName.parse, stock.admin.tenants())), deadline_s=_ENDS_WITHIN_S)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=_ENDS_WITHIN_S)
    assert process.returncode == 130


def test_a_run_in_an_existing_tenant_creates_namespaces_and_removes_them(stock: Stock) -> None:
    name = RunName.new(at_most_s=60)
    (cluster,) = stock.admin.clusters()
    stock.admin.create_tenant("theirs", clusters=[cluster])
    stock.admin.create_namespace("theirs/kept")
    stock.admin.create_topic("persistent://theirs/kept/kept")
    before = everything_on(stock.admin)
    broker = stock.as_broker()
    with RunPlace(broker, Footprint(name=name, within="theirs")) as place:
        namespace = place.tenant.create_namespace("some")
        assert namespace == f"theirs/{name}-some"
        fill(stock, namespace)
        assert everything_on(stock.admin)["tenants"] == before["tenants"]
    assert everything_on(stock.admin) == before
    stock.admin.delete_topic("persistent://theirs/kept/kept")
    stock.admin.delete_namespace("theirs/kept")
    stock.admin.delete_tenant("theirs")


def fill(stock: Stock, namespace: str) -> None:
    """Have topics of all kinds in a namespace, with what keeps them from being deleted, and a policy of a topic."""
    stock.admin.create_topic(f"persistent://{namespace}/plain")
    stock.admin.create_subscription(f"persistent://{namespace}/plain", "s", earliest=True)
    stock.admin.set_topic_deduplication(f"persistent://{namespace}/plain", enabled=True)
    stock.admin.create_topic(f"persistent://{namespace}/partitioned", partitions=3)
    client = WireClient.connect(stock.service, timeout_s=30)
    client.open_producer(f"non-persistent://{namespace}/n", name=None, timeout_s=30)
    client.abort()


def test_a_changed_setting_is_restored_to_its_previous_value(stock: Stock) -> None:
    stock.admin.set_dynamic_configuration(CLASSIC, "true")
    broker = stock.as_broker()
    with RunPlace(broker, Footprint(name=RunName.new(at_most_s=60), may_change_settings=True)) as place:
        for value in ("false", "true", "false"):
            assert place.settings.change(CLASSIC, value)
            eventually(partial(is_in_force, stock, value))
    assert stock.admin.dynamic_configuration() == {CLASSIC: "true"}
    stock.admin.set_dynamic_configuration(CLASSIC, "false")
    stock.admin.clear_dynamic_configuration(CLASSIC)


def is_in_force(stock: Stock, value: str) -> bool:
    return stock.admin.runtime_configuration()[CLASSIC] == value


def test_settings_are_changed_only_if_allowed(stock: Stock) -> None:
    with RunPlace(stock.as_broker()) as place:
        assert not place.settings.change(CLASSIC, "true")
        assert stock.admin.dynamic_configuration() == {}


def test_a_setting_changed_by_another_run_is_left_alone(stock: Stock) -> None:
    broker = stock.as_broker()
    footprints = [Footprint(name=RunName.new(at_most_s=60), may_change_settings=True) for _ in range(2)]
    with RunPlace(broker, footprints[0]) as one, RunPlace(broker, footprints[1]) as other:
        assert one.settings.change(CLASSIC, "true")
        assert not other.settings.change(CLASSIC, "true")


def test_leftovers_of_a_run_on_another_machine_stay_until_it_must_be_over(stock: Stock, tmp_path: Path) -> None:
    name = RunName.new(at_most_s=60)
    elsewhere = left_by(stock, name, process="another machine 1 1")
    status, out, _ = run(stock, tmp_path, "clean")
    assert (status, "Left alone; --force removes it." in out) == (0, True)
    with RunPlace(stock.as_broker()) as place:  # nor does another run remove it
        assert place.removed == ()
    assert elsewhere.tenant in stock.admin.tenants()
    assert (
        f"{name}: may be running. Removed: 1 namespace with 0 topics.\n" == run(stock, tmp_path, "clean", "--force")[1]
    )


def test_the_next_run_removes_leftovers_of_runs_that_must_be_over(stock: Stock) -> None:
    now = RunName.new(at_most_s=60)
    long_ago = replace(now, began=now.began - GRACE - timedelta(minutes=2))
    left_by(stock, long_ago, process="another machine 1 1")
    with RunPlace(stock.as_broker()) as place:
        assert [one.name for one in place.removed] == [long_ago]


def test_tenants_of_a_live_run_on_this_machine_stay_even_with_force(stock: Stock, tmp_path: Path) -> None:
    with RunPlace(stock.as_broker()) as place:
        assert (
            run(stock, tmp_path, "clean", "--force")[1]
            == f"{place.tenant.name}: is running on this machine. Left alone.\n"
        )
        assert place.tenant.tenant in stock.admin.tenants()


def test_tenants_with_similar_names_are_no_leftovers(stock: Stock, tmp_path: Path) -> None:
    (cluster,) = stock.admin.clusters()
    alike = (NAME, f"{NAME}-of-ours", f"{RunName.new(at_most_s=60)}-copy")
    for tenant in alike:
        stock.admin.create_tenant(tenant, clusters=[cluster])
    assert run(stock, tmp_path, "clean", "--force")[1] == "No run left anything in the cluster.\n"
    for tenant in alike:
        stock.admin.delete_tenant(tenant)


def left_by(stock: Stock, name: RunName, *, process: str) -> RunTenant:
    """Have on the cluster what the run of another process left."""
    tenant = RunTenant(stock.admin, name)
    tenant.create_tenant(stock.admin.clusters()[0])
    tenant.begin_record()
    tenant.write_down({PROCESS: process})
    return tenant
