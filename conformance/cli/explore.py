"""The command line of ``explore``."""

from __future__ import annotations

import click

from conformance.cli.parameters.output import consoles
from conformance.cli.parameters.types import VARIANT


@click.command()
@click.option("--variant", type=VARIANT, metavar="NAME", help="Explore the model with one thing done differently.")
@click.option("--list", "only_list", is_flag=True, help="List the variants.")
def explore(variant: str | None, only_list: bool) -> int:
    """Explore every reachable state of the model, in small configurations."""
    from conformance.commands import explore as exploring

    out, _ = consoles()
    if only_list:
        exploring.list_variants(out)
        return 0
    return exploring.explore(variant, out)
