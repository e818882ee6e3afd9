"""Holds a driver against its contract. Each check has a broker of its own.

A driver that failed is started again; so is one that cannot abort its clients, after each check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from conformance.clients.driver.process import START_TIMEOUT_S, DriverFailed, DriverProcess
from conformance.clients.driver.protocol import PROTOCOL, Hello, HelloAnswer
from conformance.clients.outcomes import CLIENT_ERRORS
from conformance.drivers.contract.broker import FakeBroker
from conformance.drivers.contract.checks import CHECKS, OF_END, TIMEOUT_S, Broken, Check, Fixture
from conformance.harness_error import HarnessError

Outcome = Literal["kept", "broken", "not declared"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a check. ``why``: for a broken one, in a sentence."""

    check: str
    outcome: Outcome
    why: str = ""


def run(
    command: Sequence[str],
    *,
    name: str,
    start_timeout_s: float = START_TIMEOUT_S,
    grace_s: float = TIMEOUT_S,
    on_start: Callable[[DriverProcess], None] = lambda _: None,
) -> Iterator[Result]:
    """The results, one after the other. Raises :class:`DriverFailed` if it does not start."""
    driver = DriverProcess(command, name=name, start_timeout_s=start_timeout_s, grace_s=grace_s)
    try:
        on_start(driver)
        for number, check in enumerate(CHECKS):
            if driver.failure is not None:
                driver = driver.another()
            if check.feature is not None and check.feature not in driver.hello.features:
                yield Result(check.name, "not declared")
            else:
                yield _result(check, driver, f"persistent://public/default/contract-{number}")
        if driver.failure is not None:
            driver = driver.another()
        driver.close()
        yield _of_end(driver)
    finally:
        driver.close()


def _result(check: Check, driver: DriverProcess, topic: str) -> Result:
    with FakeBroker() as broker:
        fixture = Fixture(driver, broker, topic)
        try:
            check.run(fixture)
            # A line that nobody waits for may still be on its way, and is this check's.
            driver.ask(Hello(id=driver.new_id(), protocol=PROTOCOL), HelloAnswer, timeout_s=TIMEOUT_S)
        except Broken as broken:
            return Result(check.name, "broken", f"the driver {driver.name} {broken}")
        except DriverFailed as failed:
            return Result(check.name, "broken", str(failed))
        except CLIENT_ERRORS as error:
            return Result(check.name, "broken", f"the driver {driver.name} reports a failure that none caused: {error}")
        finally:
            if "abort" not in driver.hello.features:
                driver.kill()
            for client in fixture.clients:
                with suppress(HarnessError):
                    client.abort()
    return Result(check.name, "kept")


def _of_end(driver: DriverProcess) -> Result:
    if driver.ended_by_itself:
        return Result(OF_END, "kept")
    return Result(OF_END, "broken", f"the driver {driver.name} stays when its standard input ends, and was killed")
