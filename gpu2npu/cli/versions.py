"""`gpu2npu versions`: torch, torch_npu, CANN, driver and Python that go together, and the command to install them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from gpu2npu.cli.language import cells as columns
from gpu2npu.cli.language import padded, say
from gpu2npu.language import message, sentence, shown

if TYPE_CHECKING:
    from gpu2npu.support.cann import Pairing

_EPILOG = """\
\b
Examples:
  gpu2npu versions                        the newest torch_npu for each CANN and torch
  gpu2npu versions --cann 8.2.RC1         the torch_npu for a CANN, and the line for pip
  gpu2npu versions --cann 8.3.RC1 -v 2.7  the same for PyTorch 2.7
  gpu2npu versions --all --format json    every published pair

The pairs are those of torch_npu's own table, the Pythons those of its wheels on PyPI, the drivers those that CANN's
documents name; others may work. A torch_npu that no table names yet is not listed.
"""


def _rows(cann: str | None, torch: str, every: bool) -> Iterator[Pairing]:
    """Yield the pairs to show, the newest CANN first, for each the newest torch first."""
    from gpu2npu.support import cann as table

    listed = [each for each in table.pairings() if every or cann or "alpha" not in each.cann]
    for one in [cann] if cann else sorted({each.cann for each in listed}, key=table.cann_key, reverse=True):
        if every:
            yield from (each for each in reversed(listed) if each.cann == one and table.is_for(each, torch))
        else:
            yield from table.pairings_for(one, torch)


@click.command(epilog=_EPILOG)
@click.option("--cann", metavar="VERSION", help="The CANN that the machine has, such as 8.3.RC1.")
@click.option("-v", "--version", "torch", metavar="VERSION", help="The PyTorch to use, such as 2.7.1 or 2.7.")
@click.option("--all", "every", is_flag=True, help="Also superseded releases, and those that PyPI does not have.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def versions(cann: str | None, torch: str | None, every: bool, form: str) -> None:
    """Show which releases of torch, torch_npu, CANN, its driver and Python go together."""
    from gpu2npu.support import cann as table

    known = table.known_cann(cann) if cann is not None else None
    if cann is not None and known is None:
        raise click.UsageError(f"--cann: {table.unknown_cann(cann)}.")
    rows = list(_rows(known, torch or "", every))
    if not rows:
        raise click.UsageError(f"{table.no_pairing(known or '', torch or '')}.")
    if form == "json":
        click.echo(json.dumps([{**asdict(each), "install": each.install} for each in rows], indent=1))
        return
    if known and cann is not None and table.cann_key(known) != table.cann_key(cann.upper().removeprefix("CANN ")):
        say(f"CANN {cann} is listed as {known}.")
    cells = [("CANN", "torch", "torch_npu", "Python", shown(message("driver (Ascend HDK)")))]
    cells += [
        (
            each.cann,
            each.torch,
            each.torch_npu,
            sentence("{} to {}", each.pythons[0], each.pythons[-1]) if each.pythons else shown(message("not on PyPI")),
            ", ".join(each.drivers) or shown(message("not known")),
        )
        for each in rows
    ]
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        click.echo("  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if known and rows[0].install:
        click.echo(f"\n{shown(message('Install:'))}\n  {rows[0].install}")
