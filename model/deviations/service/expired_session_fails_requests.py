from __future__ import annotations

from typing import Final

from model.deviation import Deviation, Shadow
from model.example.deployment import with_store
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="expired-session-fails-requests",
    rule="SERVE-01",
    statement="After the session of a broker in the metadata store has expired, and until it has another one, admin requests are answered with an internal error, some of which name the expired session, or with 412 (Can't find owner).",
    cause="The metadata store's client fails all requests of the expired session, with SessionExpired (ZKMetadataStore) or with BKException.ZKException. The broker passes these failures on as internal errors, instead of 503 or of waiting for its next session. Those that it does not handle are answered by the web server (Request failed).",
    side="broker",
    releases=(">=2.11.0,<=4.2.4",),
    seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0"),
    occurrence="In 15 of 16 replays on these releases. Requests that need the owner of a topic, such as trimming, fail for about four seconds with the shipped session timeout.",
    shadow=Shadow(
        name="test_an_expired_session_explains_no_other_error_and_none_later",
        by="small history",
        statement="An admin request is answered with another internal error, or with this one although no session expired.",
    ),
)


MESSAGES: Final = (
    "Session expired",
    "SessionExpired",
    "ZooKeeper error code: -9",
    "Request failed.",
    "Can't find owner",
)
"""The errors of a request that needs the metadata store, in a session that has expired: of Pulsar, of BookKeeper, of
the web server if the broker does not handle the first one, and of a look-up while no broker is registered."""


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(interface="admin", code="500" | "412", message=message):
            is_expired = with_store(state, step.at).service.are_sessions_expired
            return broken.passing() if is_expired and any(words in message for words in MESSAGES) else None
        case _:
            return None
