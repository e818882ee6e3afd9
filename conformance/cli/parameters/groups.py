"""The help of commands with many options: a section for each group of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from conformance.clients.security.options import NAMES

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Broker and client": ("listen", "broker", "admin", "brokers", "bookies", "settings", "setting", "defect", "client"),
    "What to run": (
        *("all", "rules", "machines", "budget", "times", "shorten", "lanes", "seed", "known", "coverage", "dry-run"),
        *("good", "bad", "releases", "command", "baseline", "known-failing", "known-flaky"),
        *("minutes", "hours", "clients", "topics", "clusters", "rate", "fault-every", "faults"),
    ),
    "Output": ("report", "output", "results", "json", "history", "verbose"),
    "On a running cluster": ("tenant", "allow-cluster-settings"),
    "TLS and authentication, on a running cluster": (*(name.replace("_", "-") for name in NAMES), "token-env"),
    "Other options": ("help",),
}
"""The names of the options in each section, in their order."""


class GroupedCommand(click.Command):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section that has options of this command."""
        options = {
            parameter.opts[-1].lstrip("-"): parameter
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
        }
        grouped = {name for names in GROUPS.values() for name in names}
        assert options.keys() <= grouped, f"no section of the help has {options.keys() - grouped}"
        for heading, names in GROUPS.items():
            rows = [options[name].get_help_record(ctx) for name in names if name in options]
            shown = [row for row in rows if row is not None]
            if shown:
                with formatter.section(heading):
                    formatter.write_dl(shown)
