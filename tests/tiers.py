"""The two tiers of the tests.

``make test`` runs the first tier and a seventh of the second, which the date chooses, so that every test runs within a
week. ``make test-all`` runs both.

A test belongs to the second tier if ``WEEKLY`` lists its folder, module or function, or if it has the marker ``weekly``
(some histories of a test that performs each of them) or ``as_typed`` (commands of the documentation, which take minutes
each; only ``make test-all`` selects these).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from zlib import crc32

import pytest

DAYS: Final = 7
RATE: Final = "rate of a race"
"""The property of a test's report that the summary of all tests prints. It is a figure, and fails nothing."""

MARKERS: Final = ("weekly", "as_typed")

WEEKLY: Final = (
    # Campaigns on simulated brokers. Every change runs those on a correct broker.
    "tests/stateful/test_completeness.py::test_a_variant_is_found_by_a_rule_that_it_breaks",
    "tests/stateful/test_completeness.py::test_a_variant_is_found_when_connections_are_cut",
    "tests/stateful/test_completeness.py::test_a_known_deviation_is_tolerated_and_reported_by_name",
    "tests/stateful/test_completeness.py::test_an_unknown_deviation_breaks_its_rule_by_name",
    "tests/stateful/test_completeness_of_cursors.py::test_a_variant_is_found_by_a_rule_that_it_breaks",
    "tests/stateful/test_completeness_of_cursors.py::test_a_variant_is_found_when_consumers_are_cut_off",
    "tests/stateful/test_completeness_of_cursors.py::test_a_known_deviation_is_tolerated_and_reported_by_name",
    "tests/stateful/test_completeness_of_cursors.py::test_an_unknown_deviation_breaks_its_rule_by_name",
    "tests/coverage/test_coverage.py::test_a_run_prefers_what_no_run_before_it_has_drawn",
    "tests/engine/test_recordings.py::test_every_part_makes_sense_and_breaks_the_rule_of_the_whole_with_its_last_step",
    "tests/stateful/test_completeness_of_key_shared.py::test_a_release_variant_is_tolerated_if_known_and_breaks_its_rule_by_name_otherwise",
    "tests/stateful/test_completeness_of_key_shared.py::test_a_variant_is_found_by_a_rule_that_it_breaks",
    "tests/stateful/test_completeness_of_key_shared.py::test_the_classic_implementation_as_written_keeps_its_rule_and_starves_consumers",
    "tests/stateful/test_counts_after_administration.py::test_a_wrong_backlog_right_after_an_operation_is_found",
    "tests/stateful/test_mixed.py",
    "tests/stateful/test_seldom_rules.py",
    "tests/stateful/test_service.py",
    "tests/stateful/test_shadows.py::test_a_shadow_is_found_while_its_deviation_is_known",
    "tests/stateful/test_soundness.py::test_a_broker_with_all_known_deviations_breaks_no_rule",
    "tests/stateful/test_soundness.py::test_a_correct_broker_with_small_snapshots_breaks_no_rule",
    "tests/stateful/test_soundness.py::test_every_history_can_be_replayed",
    "tests/stateful/test_soundness.py::test_judging_a_history_again_gives_the_same_verdict",
    "tests/stateful/test_soundness_of_cursors.py::test_a_broker_with_all_known_deviations_breaks_no_rule",
    "tests/stateful/test_soundness_of_cursors.py::test_a_correct_broker_whose_clients_acknowledge_whole_entries_breaks_no_rule",
    "tests/stateful/test_soundness_of_cursors.py::test_every_history_can_be_replayed",
    "tests/stateful/test_soundness_of_cursors.py::test_judging_a_history_again_gives_the_same_verdict",
    "tests/stateful/test_soundness_of_key_shared.py::test_every_history_can_be_replayed",
    "tests/stateful/test_starvation.py::test_a_message_that_does_not_arrive_is_found",
    # Brokers and clusters of their own, in containers and without.
    "tests/brokers/containers/test_container.py",
    "tests/brokers/containers/test_suite_image.py",
    "tests/brokers/installation/test_assembly.py::test_an_assembled_release_has_the_jars_and_configuration_of_the_distribution",
    "tests/brokers/test_clusters.py",
    "tests/brokers/test_leftovers.py",
    "tests/brokers/test_preparation.py",
    "tests/brokers/test_running_cluster.py",
    "tests/brokers/test_several_brokers.py",
    "tests/brokers/test_standalone.py",
    "tests/clients/test_other_releases.py",
    "tests/drivers/test_drivers_on_a_real_broker.py::test_a_driver_of_the_suite_keeps_its_contract_but_for_known_failures_of_its_client",
    "tests/engine/test_baseline.py::test_a_violation_that_every_broker_shows_is_not_new",
    "tests/engine/test_bisect.py::test_the_first_build_with_a_find_is_named",
    "tests/engine/test_hunt_on_a_real_broker.py",
    "tests/faults/test_replication_defects.py",
    "tests/lockstep/test_takeovers_on_a_real_broker.py",
    "tests/replays/test_upgrades.py",
    "tests/security/test_clients.py",
    "tests/security/test_runs.py",
    "tests/security/test_tenant_owner.py",
    # Whole runs, each in a process of its own.
    "tests/soak/test_soak.py",
    "tests/test_working_directory.py::test_a_check_ignores_the_packages_of_a_project_in_pythonpath",
    "tests/test_working_directory.py::test_a_check_imports_nothing_from_the_working_directory",
    "tests/test_working_directory.py::test_a_replay_and_a_hunt_import_nothing_from_the_working_directory",
    "tests/test_working_directory.py::test_a_soak_imports_nothing_from_the_working_directory",
    "tests/test_working_directory.py::test_verifying_imports_nothing_from_the_working_directory",
    # Installations.
    "tests/cli/test_clients.py",
    "tests/package/test_client.py",
    "tests/package/test_dependencies.py",
    "tests/package/test_wheel.py",
    # Spark on more than the session that the other tests share.
    "tests/pipeline/test_cluster.py",
    "tests/pipeline/test_memory.py",
    "tests/pipeline/test_s3.py",
)
"""The folders, modules and functions of the second tier."""


def today() -> int:
    """The number of the seventh that ``make test`` runs today, from 0 to 6, in UTC: the same everywhere."""
    return datetime.now(UTC).toordinal() % DAYS


def day_of(item: pytest.Item) -> int | None:
    """The day on which ``make test`` runs a test; None if it runs it every day.

    Tests without parameters are on the day of their module, whose fixtures may take longer than they do.
    """
    name, bracket, _ = item.nodeid.partition("[")
    module = name.partition("::")[0]
    if not (_is_listed(name) or any(item.get_closest_marker(marker) for marker in MARKERS)):
        return None
    return crc32((item.nodeid if bracket else module).encode()) % DAYS


def _is_listed(name: str) -> bool:
    return any(name == place or name.startswith((f"{place}/", f"{place}::")) for place in WEEKLY)


def divided(items: Iterable[pytest.Item], day: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that ``make test`` runs on a day, and those that it leaves out."""
    run: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (run if day_of(item) in (None, day) else left_out).append(item)
    return run, left_out
