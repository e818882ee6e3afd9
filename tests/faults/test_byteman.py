"""The client of the Byteman agent, with the agent of a real broker and with peers that are no agents."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conformance.brokers.interface import AgentAddress
from conformance.faults.byteman import Agent
from conformance.harness_error import HarnessError
from tests.faults.topic_fixture import TopicFixture, is_stored
from tests.waits import eventually

DEDUPLICATION = "org.apache.pulsar.broker.service.persistent.MessageDeduplication"


def rule(name: str, *, location: str = "AT ENTRY", body: str = 'IF true\nDO debug("reached")') -> dict[str, str]:
    """A script with one rule on the check for duplicates."""
    text = f"RULE {name}\nCLASS {DEDUPLICATION}\nMETHOD isDuplicate\n{location}\n{body}\nENDRULE\n"
    return {name: text}


def loaded(agent: Agent, name: str) -> bool:
    return name in [each.name for each in agent.rules()]


def test_a_rule_is_loaded_reached_and_deleted(fixture: TopicFixture) -> None:
    agent, producer = Agent(fixture.agent), fixture.producer()
    agent.load(rule("test: loaded"))
    assert is_stored(fixture.send(producer, 1))
    seen = next(each for each in agent.rules() if each.name == "test: loaded")
    assert seen.injected
    assert seen.reached
    assert seen.problem is None
    agent.delete(rule("test: loaded"))
    assert not loaded(agent, "test: loaded")


def test_an_unparsable_rule_is_a_harness_error_with_the_agents_message_and_is_not_kept(fixture: TopicFixture) -> None:
    agent = Agent(fixture.agent)
    fixture.producer()
    with pytest.raises(HarnessError, match=r"'test: unparsable'.*line 6 : invalid expression"):
        agent.load(rule("test: unparsable", body="IF true\nDO new String().length()"))
    assert not loaded(agent, "test: unparsable")


def test_a_rule_that_does_not_fit_the_code_is_a_harness_error_and_is_not_kept(fixture: TopicFixture) -> None:
    agent = Agent(fixture.agent)
    fixture.producer()
    with pytest.raises(HarnessError, match="no matching injection point"):
        agent.load(rule("test: nowhere", location="AFTER WRITE nosuchfield"))
    assert not loaded(agent, "test: nowhere")


def test_a_badly_typed_rule_is_found_once_it_was_reached(fixture: TopicFixture) -> None:
    agent, producer = Agent(fixture.agent), fixture.producer()
    script = rule("test: badly typed", body="IF true\nDO RETURN 5")
    agent.load(script)
    agent.check(script)
    assert is_stored(fixture.send(producer, 1)), "a rule that is badly typed does nothing"
    with pytest.raises(HarnessError, match=r"'test: badly typed'.*type"):
        agent.check(script)
    agent.delete(script)


def test_text_that_is_no_rule_is_a_harness_error_with_the_agents_message(fixture: TopicFixture) -> None:
    with pytest.raises(HarnessError, match="invalid text outside of RULE/ENDRULE"):
        Agent(fixture.agent).load({"test": "hello"})


def test_deleting_a_missing_rule_is_a_harness_error(fixture: TopicFixture) -> None:
    with pytest.raises(HarnessError, match="failed to find loaded rule with name test: absent"):
        Agent(fixture.agent).delete(rule("test: absent"))


def test_properties_are_set_read_and_removed(fixture: TopicFixture) -> None:
    agent = Agent(fixture.agent)
    agent.set_properties({"test:a": "1 = one", "test:b": "2"})
    assert {"test:a": "1 = one", "test:b": "2"}.items() <= agent.properties().items()
    agent.set_properties({"test:a": "", "test:b": ""})
    assert not any(name.startswith("test:") for name in agent.properties())


def test_a_line_break_cannot_inject_a_second_command(fixture: TopicFixture) -> None:
    with pytest.raises(ValueError, match="line break"):
        Agent(fixture.agent).set_properties({"test": "1\nDELETEALL"})


def test_an_unreachable_agent_is_a_harness_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = AgentAddress(host="127.0.0.1", port=server.getsockname()[1])
    with pytest.raises(HarnessError, match="cannot be reached"):
        Agent(address).rules()


@contextmanager
def listening(*, backlog: int = 1) -> Iterator[tuple[socket.socket, AgentAddress]]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server, AgentAddress(host="127.0.0.1", port=server.getsockname()[1])


def test_an_agent_that_never_answers_is_a_harness_error_after_the_deadline() -> None:
    with listening() as (_, address):
        began = time.monotonic()
        with pytest.raises(HarnessError, match=r"did not answer within 0\.2 s"):
            Agent(address, timeout_s=0.2).rules()
        assert time.monotonic() - began > 0.15


def test_a_paused_broker_is_a_harness_error_until_it_is_resumed(fixture: TopicFixture) -> None:
    agent = Agent(fixture.agent, timeout_s=0.3)
    fixture.broker.pause()
    try:
        with pytest.raises(HarnessError, match="did not answer"):
            agent.properties()
    finally:
        fixture.broker.resume()
    eventually(agent.properties)
