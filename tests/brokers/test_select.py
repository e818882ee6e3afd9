"""Tests of what may be written after ``--broker``."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from conformance.brokers.container import ContainerBroker
from conformance.brokers.deployment import Deployment
from conformance.brokers.external import ExternalBroker
from conformance.brokers.installation.newest import releases_of_line
from conformance.brokers.interface import Addresses, Capability
from conformance.brokers.name import demand_name, exact_name
from conformance.brokers.select import each_release, parse_broker, releases_of
from conformance.brokers.size import Size
from conformance.clients.security.service import NO_SECURITY, Security
from conformance.harness_error import HarnessError


@pytest.mark.parametrize("text", ["4.0.8", "standalone:4.0.8", "dist:/a,b", "pulsar://a:1,b:1,http://a:2,b:2"])
def test_only_the_name_of_a_rolling_upgrade_names_several_brokers(text: str) -> None:
    assert each_release("3.3.6,4.0.8") == ("3.3.6", "4.0.8")
    assert each_release(text) == (text,)


@pytest.mark.parametrize("text", ["pulsar://h:6650,http://h:8080", "pulsar://h:6650/,http://h:8080/"])
def test_two_addresses_are_a_running_cluster(text: str) -> None:
    broker = parse_broker(text)
    assert isinstance(broker, ExternalBroker)
    assert broker.addresses == Addresses(service_url="pulsar://h:6650", admin_url="http://h:8080")
    assert broker.name == "pulsar://h:6650,http://h:8080"


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        ("4.0.8", ("4.0.8",)),
        ("standalone:5.0.0-M1", ("5.0.0-M1",)),
        ("3.3.6,4.0.8", ("3.3.6", "4.0.8")),
        ("container:4.0.8", ("4.0.8",)),
        ("container:registry.example:5000/mine:4.0.8", ()),
        ("pulsar://127.0.0.1:1,http://127.0.0.1:2", ()),
    ],
)
def test_a_name_tells_the_releases_of_most_brokers(text: str, releases: tuple[str, ...]) -> None:
    assert releases_of(text) == releases


@pytest.mark.parametrize("kind", ["dist:", "standalone:dist:"])
def test_the_jar_of_a_build_tells_its_release(kind: str, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "standalone.conf").touch()
    (tmp_path / "lib" / "org.apache.pulsar-pulsar-broker-4.1.0-SNAPSHOT.jar").touch()
    assert releases_of(f"{kind}{tmp_path}") == ("4.1.0-SNAPSHOT",)


def test_a_container_is_named_by_tag_or_image() -> None:
    official, own = parse_broker("container:4.0.8"), parse_broker("container:registry.example:5000/mine:1")
    assert isinstance(official, ContainerBroker)
    assert isinstance(own, ContainerBroker)
    assert "4.0.8" in official.name
    assert "registry.example:5000/mine:1" in own.name


@pytest.mark.parametrize(
    ("text", "service_url", "admin_url"),
    [
        ("pulsar+ssl://h:6651,https://h:8443", "pulsar+ssl://h:6651", "https://h:8443"),
        ("pulsar+ssl://h:6651,http://h:8080", "pulsar+ssl://h:6651", "http://h:8080"),
        ("pulsar://a:1,b:2,http://c:3,d:4", "pulsar://a:1,b:2", "http://c:3,d:4"),
        ("pulsar://[::1]:1,http://[::1]:2/", "pulsar://[::1]:1", "http://[::1]:2"),
    ],
)
def test_addresses_may_be_several_and_with_tls(text: str, service_url: str, admin_url: str) -> None:
    security = Security(token_file="/t")
    broker = parse_broker(text, security=security)
    assert isinstance(broker, ExternalBroker)
    assert broker.addresses == Addresses(service_url=service_url, admin_url=admin_url, security=security)


def test_a_broker_of_the_suite_accepts_no_token() -> None:
    with pytest.raises(
        HarnessError, match=r"^The broker 4\.0\.8 is started by the suite without TLS .*--token-file[^\n]*$"
    ):
        parse_broker("4.0.8", security=Security(token_file="/t"))


@pytest.mark.parametrize("folder", ["", "nowhere", "{here}"])
def test_a_folder_without_a_distribution_is_refused_in_one_sentence(tmp_path: Path, folder: str) -> None:
    with pytest.raises(HarnessError, match=r"^[^\n]*dist[^\n]*$"):
        parse_broker(f"dist:{folder.format(here=tmp_path)}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest,",
        "4",
        "4.0.8,dist:x",
        "standalone:4.0,4.0.8",
        "standalone:container:4.0.8",
        "rc:",
        "4.0.8\n",
        "v4.0.8",
        "../4.0.8",
        "4.0.8/..",
        "dist:",
        "container:",
        "http://h:8080,pulsar://h:6650",
        "pulsar://h,http://h:8080",
        "pulsar+ssl://h:6651,http+ssl://h:8443",
        "pulsar://a:1,b,http://h:8080",
        "pulsar://h:6650,http://h:80800",
        "pulsar://h:6650,http://h:8080/admin",
    ],
)
def test_any_other_value_is_refused_in_one_sentence_that_lists_the_valid_ones(text: str) -> None:
    with pytest.raises(HarnessError, match=r"^.* names no broker: write a version \(4\.0\.8\), [^\n]*$"):
        demand_name(text)
    with pytest.raises(HarnessError):
        parse_broker(text)


@pytest.mark.parametrize("security", [NO_SECURITY, Security(token_file="/t")])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pulsar://h:6650", "no admin address, .* write pulsar://h:6650,http://host:8080."),
        ("pulsar+ssl://a:1,b:2", "no admin address, .* write pulsar\\+ssl://a:1,b:2,https://host:8443."),
        ("https://h:8443", "no service address, .* write pulsar\\+ssl://host:6651,https://h:8443."),
        ("pulsar://h,http://h:8080", "names no broker"),
    ],
)
def test_a_cluster_of_one_address_is_told_which_one_is_missing(text: str, sentence: str, security: Security) -> None:
    with pytest.raises(HarnessError, match=rf"^[^\n]*{sentence}[^\n]*$"):
        parse_broker(text, security=security)


@pytest.mark.parametrize("text", ["standalone:4.0.8", "container:4.0.8", "pulsar://h:6650,http://h:8080"])
def test_only_separate_processes_can_be_several(text: str) -> None:
    with pytest.raises(HarnessError, match="--brokers and --bookies are for a release or a build"):
        parse_broker(text, size=Size(brokers=2))


@pytest.mark.parametrize("size", [Size(brokers=0), Size(bookies=6)])
def test_a_deployment_has_a_size_that_one_machine_carries(size: Size) -> None:
    with pytest.raises(HarnessError, match="is a number from 1 to 5"):
        parse_broker("4.0.8", size=size)


def test_several_brokers_are_one_broker_to_their_clients() -> None:
    broker = parse_broker("4.0.8", size=Size(brokers=2, bookies=3))
    assert isinstance(broker, Deployment)
    assert {Capability.TAKEOVER, Capability.BOOKIES} <= broker.capabilities
    of_one = parse_broker("4.0.8", size=Size(bookies=3))
    assert {Capability.TAKEOVER, Capability.BOOKIES} & of_one.capabilities == {Capability.BOOKIES}
    assert not {Capability.TAKEOVER, Capability.BOOKIES} & parse_broker("4.0.8").capabilities


def test_versions_with_commas_are_brokers_of_one_deployment() -> None:
    deployment = parse_broker("4.0.8,4.0.8", size=Size(bookies=3))
    assert isinstance(deployment, Deployment)
    assert deployment.size == Size(brokers=2, bookies=3)
    assert [release.version for release in deployment.releases] == ["4.0.8", "4.0.8"]


@pytest.mark.parametrize("text", ["4.0.8", "3.3.6,4.0.8", "dist:/", "container:latest", "pulsar://a:1,http://a:2"])
def test_a_name_of_a_release_or_of_another_broker_is_exact(text: str) -> None:
    demand_name(text)
    assert exact_name(text) == text


def test_a_line_stands_for_its_newest_release_and_latest_for_the_newest_of_all() -> None:
    newest = [max(map(Version, releases_of_line(line))) for line in ("4.0", None)]
    assert newest[0] >= Version("4.0.8")
    assert newest[1] >= Version("5.0.1")
    assert exact_name("4.0") == str(newest[0])
    assert exact_name("standalone:4.0") == f"standalone:{newest[0]}"
    assert exact_name("4.0,4.0.8") == f"{newest[0]},4.0.8"
    broker = parse_broker("4.0")
    assert broker.name == str(newest[0])
    with pytest.raises(HarnessError, match=r"^Maven Central has no release 4\.9\.x of Pulsar\.$"):
        exact_name("4.9")
