"""Operations on one of several brokers, and their outcomes, in words."""

from __future__ import annotations

from typing import assert_never

from conformance.report.sentences.lists import count, joined
from model.events import BookiesLeft, Duplicate, FormerAnswer, Refused, Stored, TakenOver, Thawed, Unknown
from model.operations import (
    AcknowledgeAtFrozen,
    Departure,
    DeploymentOperation,
    Disturbance,
    DisturbMetadataStore,
    FreezeOwner,
    LoseBookie,
    Loss,
    RestoreBookies,
    SendToFrozen,
    TakeOver,
    ThawOwners,
)

BROKERS = "brokers"
"""The actor of operations on one of several brokers."""


def action(operation: DeploymentOperation) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case TakeOver(topic, how, release):
            other = (
                "another broker" if release is None else f"another broker, of the {release} release if there are two,"
            )
            return BROKERS, f"the owner of topic {topic}", _leaves(how, other)
        case FreezeOwner(topic, how):
            gone = "is frozen (SIGSTOP)" if how == "freeze" else "is cut off from the metadata store"
            did = f"{gone}, and its session ends; another broker takes over"
            return BROKERS, f"the owner of topic {topic}", did
        case SendToFrozen(session, entries):
            sends = joined([str(entry) for entry in entries])
            return session, f"session {session}", f"sends {sends} to the frozen broker, which it is still connected to"
        case AcknowledgeAtFrozen(consumer, nth):
            which = joined([str(number) for number in nth])
            did = f"acknowledges, at the frozen broker, what it received as no. {which}"
            return consumer, f"consumer {consumer}", did
        case LoseBookie(number, how):
            return BROKERS, f"bookie {number}", _lost(how)
        case RestoreBookies():
            return BROKERS, "the lost bookie", "comes back with the data that it had"
        case ThawOwners():
            return BROKERS, "the frozen broker", "goes on"
        case DisturbMetadataStore(how):
            return BROKERS, "the metadata store", _disturbed(how)
        case _:
            assert_never(operation)


def _lost(how: Loss) -> str:
    match how:
        case "kill":
            return "is killed (SIGKILL)"
        case "freeze":
            return "is frozen (SIGSTOP), and its session ends"
        case "power-failure":
            return "loses power, and what it has not synced"
        case _:
            assert_never(how)


def _leaves(how: Departure, other: str) -> str:
    match how:
        case "kill":
            return f"is killed (SIGKILL); {other} takes over, and it restarts on the same data"
        case "shutdown":
            return f"shuts down gracefully; {other} takes over, and it restarts on the same data"
        case "unload":
            return f"unloads the topic's namespace, which {other} is to take over"
        case _:
            assert_never(how)


def _disturbed(how: Disturbance) -> str:
    match how:
        case "freeze":
            return "is frozen (SIGSTOP), and goes on soon (SIGCONT)"
        case "restart":
            return "is killed (SIGKILL), and starts again on its data"
        case "expire":
            return "ends the sessions of the brokers"
        case _:
            assert_never(how)


def outcome_in_words(outcome: TakenOver | Thawed | BookiesLeft) -> str:
    match outcome:
        case BookiesLeft(number=number):
            return f"{count(number, 'bookie', 'bookies')} left"
        case TakenOver(topics=topics, is_elsewhere=is_elsewhere, releases=releases):
            names = joined([f"topic {name}" for name in topics]) or "no topic"
            of = "" if releases is None else f", {releases[1]} after {releases[0]}"
            return f"another broker owns {names}{of}" if is_elsewhere else f"the same broker owns {names} again"
        case Thawed(answers=()):
            return "nothing was left to answer"
        case Thawed(answers=answers):
            return f"{count(len(answers), 'answer', 'answers')}: " + joined([_answered(one) for one in answers], "; ")
        case _:
            assert_never(outcome)


def _answered(one: FormerAnswer) -> str:
    match one.answer:
        case Stored(position=position):
            what = f"is confirmed at {position}"
        case Duplicate():
            what = "is confirmed as a duplicate"
        case Refused(code=code, message=message):
            what = f"is refused with {code}" + (f" ({message})" if message else "")
        case Unknown(why=why):
            what = f"is unknown, because {why}"
        case _:
            assert_never(one.answer)
    return f"{one.entry} of session {one.session} {what}"
