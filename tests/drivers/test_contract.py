"""The contract test of drivers finds what a driver does wrong, says it in one sentence, and goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from conformance.cli.driver_test import driver_test
from conformance.clients.driver import protocol
from conformance.clients.driver.client import client_version
from conformance.clients.driver.connect import DriverCommand, use
from conformance.clients.driver.process import DriverFailed, DriverProcess
from conformance.clients.wire.client import WireClient
from conformance.drivers.contract.broker import FakeBroker
from conformance.drivers.contract.checks import CHECKS, TIMEOUT_S, Fixture, aborts
from conformance.drivers.contract.run import Result, run
from conformance.harness_error import HarnessError
from conformance.lockstep.settings.client_features import lacking
from model.events import Skipped
from model.subscription_operations import Acknowledge, Nack

BROKEN = (sys.executable, str(Path(__file__).with_name("broken_driver.py")))
KEYS = "sends keys and properties"
PYTHON = (sys.executable, "-m", "conformance.drivers.python")


def results(*command: str) -> list[Result]:
    return list(run(command, name="it", grace_s=1.0, start_timeout_s=60.0))


def test_the_driver_of_pulsar_client_keeps_its_contract() -> None:
    assert [one for one in results(*PYTHON) if one.outcome != "kept"] == []


def test_somebody_elses_driver_keeps_its_contract_and_need_not_have_a_feature() -> None:
    found = results(sys.executable, str(Path(__file__).with_name("somebody_elses_driver.py")))
    assert [one for one in found if one.outcome == "broken"] == []
    assert sum(one.outcome == "kept" for one in found) == sum(one.feature is None for one in CHECKS) + 1


@pytest.mark.parametrize(
    ("fault", "lists", "status", "said"),
    [
        ("loses-keys", {"known-failing": KEYS}, 0, "known         sends keys and properties"),
        ("loses-keys", {"known-flaky": KEYS}, 0, "flaky         sends keys and properties"),
        ("loses-keys", {"known-failing": "cancels"}, 1, "FAILED        sends keys and properties"),
        ("none", {"known-failing": f"{KEYS} # always"}, 1, "STALE         sends keys and properties"),
        ("none", {"known-flaky": KEYS}, 0, "ok            sends keys and properties"),
    ],
)
def test_a_known_failure_fails_nothing_unless_it_is_stale(
    fault: str, lists: dict[str, str], status: int, said: str, tmp_path: Path
) -> None:
    options = []
    for option, text in lists.items():
        (tmp_path / option).write_text(f"# of this client\n{text}\n")
        options += [f"--{option}", str(tmp_path / option)]
    ran = CliRunner().invoke(driver_test, [*options, "--", *BROKEN, fault], standalone_mode=False)
    assert (ran.return_value, said in ran.output) == (status, True), ran.output


def test_a_list_of_known_failures_names_checks(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("send keys and properties\n")
    ran = CliRunner().invoke(driver_test, ["--known-failing", str(tmp_path / "list"), "--", *BROKEN, "none"])
    assert isinstance(ran.exception, HarnessError)
    assert "there is no check of drivers 'send keys and properties'; did you mean" in str(ran.exception)


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (Acknowledge("c", (0,)), None),
        (Acknowledge("c", (0,), cumulative=True), "cumulative-ack"),
        (Nack("c", (0,)), "nack"),
        (Nack("c", None), "redeliver"),
    ],
)
def test_an_operation_that_a_client_does_not_declare_is_not_performed(
    operation: Acknowledge | Nack, why: str | None
) -> None:
    command = (sys.executable, str(Path(__file__).with_name("somebody_elses_driver.py")))
    use(DriverCommand(name="driver:mine", command=command))
    try:
        lack = lacking(operation, None)
    finally:
        use(None)
    assert lack == (None if why is None else Skipped(f"mine {client_version()} does not have {why}"))


@pytest.mark.parametrize(
    ("fault", "check", "sentence"),
    [
        ("hangs", "nacks", "the driver it does not answer 'nack' within 11 s"),
        ("dies", "requests redelivery", "the driver it ended with status 3: Traceback: out of luck"),
        ("prints", "keeps deadlines", "the driver it prints 'no message ...', which is no JSON"),
        ("floods", "cancels", "the driver it floods the suite: more than 10000 events without an answer"),
        ("says-error", "passes refusals on", "the driver it cannot perform 'open-producer': it did not work"),
        ("loses-keys", "sends keys and properties", "the driver it sent the key '' instead of 'key'"),
        ("acks-one", "acknowledges cumulatively", "does not acknowledge cumulatively up to a message"),
        ("lies", "declares itself", "declares features that the protocol does not have: telepathy"),
        ("survives", "aborts", "the driver it does not cut its connections when it is aborted"),
        ("stays", "ends with its standard input", "stays when its standard input ends, and was killed"),
    ],
)
def test_a_fault_of_a_driver_is_one_sentence_and_the_test_goes_on(fault: str, check: str, sentence: str) -> None:
    found = results(*BROKEN, fault)
    broken = [one for one in found if one.outcome == "broken"]
    assert [one.check for one in broken] == [check]
    assert sentence in broken[0].why
    assert len(found) == len(CHECKS) + 1


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("answers-twice", "which does not wait for an answer"),
        ("unknown-answer", "which is no message of the protocol: Invalid value 'whatever'"),
    ],
)
def test_an_answer_that_nobody_waits_for_or_knows_breaks_the_contract(fault: str, sentence: str) -> None:
    assert any(sentence in one.why for one in results(*BROKEN, fault) if one.outcome == "broken")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("/no/such/driver",), "the driver it does not start: No such file or directory"),
        ((sys.executable, "-c", "raise SystemExit('no client here')"), "ended with status 1: no client here"),
        ((sys.executable, "-c", "print('Hello!')"), "prints 'Hello!', which is no JSON"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "does not answer 'hello' within 2 s"),
    ],
)
def test_a_driver_that_does_not_start_is_one_sentence(command: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(DriverFailed, match=sentence.replace(".", r"\.")):
        list(run(command, name="it", grace_s=1.0, start_timeout_s=2.0))


class BesideAnother(FakeBroker):
    """Another client connects before it notices that a connection was cut."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[WireClient] = []

    def gone(self, connection: Any) -> None:
        if connection.topics and not self.others:
            self.others.append(WireClient.connect(self.address(1), timeout_s=TIMEOUT_S))
        super().gone(connection)


def test_a_client_was_aborted_though_another_one_connects() -> None:
    driver = DriverProcess(PYTHON, name="it")
    try:
        with BesideAnother() as broker:
            aborts(Fixture(driver, broker, "persistent://public/default/aborts"))
            assert broker.others
    finally:
        driver.close()


def test_requests_and_answers_fit_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(msgspec.json.decode(protocol.json_schema()))
    for line in (
        protocol.write(protocol.Hello(id=1, protocol=1)),
        protocol.write(protocol.Send(id=2, producer="p", payload=b"x", key="k")),
        protocol.write(protocol.Sent(id=2, ledger=1, entry=2)),
        protocol.write(protocol.Event(what="active")),
    ):
        validator.validate(msgspec.json.decode(line))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"type": "sent", "id": 2})
