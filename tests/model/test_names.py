"""The error messages for names that do not exist."""

from __future__ import annotations

import pytest

from model.rules.names import FEW, listed, nearest, unknown

MACHINES = ("keys", "keys-again", "deduplication", "deduplication-network", "clusters")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Keys", "keys"),
        ("KEYS_AGAIN", "keys-again"),
        ("dedupliaction", "deduplication"),
        ("clus", "clusters"),
        ("dedup", "deduplication"),
        ("k", None),  # two names begin so, and one letter is too little
        ("nope", None),
        ("", None),
        ("-,-", None),
    ],
)
def test_the_nearest_name_is_suggested(written: str, meant: str | None) -> None:
    assert nearest(written, MACHINES) == meant


def test_an_unknown_name_lists_the_names_or_the_command_that_lists_them() -> None:
    assert unknown("machine", "nope", ("a", "b")) == "there is no machine 'nope'; there are: a, b"
    many = [f"machine-{number}" for number in range(FEW + 1)]
    assert unknown("machine", "zz", many, listed_by="list") == "there is no machine 'zz'; `list` lists them"


def test_an_unknown_name_among_many_is_answered_with_the_nearest_only() -> None:
    settings = [f"managedLedgerSetting{number}" for number in range(500)] + ["managedLedgerDefaultQuorum"]
    sentence = unknown("setting", "quorum", settings)
    nearest = "managedLedgerDefaultQuorum, managedLedgerSetting0, managedLedgerSetting1"
    assert sentence == f"there is no setting 'quorum'; of the 501 names the nearest are {nearest}"


def test_names_are_separated_by_single_commas() -> None:
    assert listed("keys, clusters", kind="machine", names=MACHINES) == ("keys", "clusters")
    for text in ("", ",", "keys,", ",keys", "keys,,clusters", "keys, ,clusters"):
        with pytest.raises(ValueError, match="has an empty item"):
            listed(text, kind="machine", names=MACHINES)
