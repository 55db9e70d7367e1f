"""`gpu2npu rules explain`: what the rules make of one line, and why others make nothing of it; a row of the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from gpu2npu.cli.language import prefer, say
from gpu2npu.cli.rules.options import rule_files_option, usage_errors
from gpu2npu.engine import ProjectContext, scan_project
from gpu2npu.language import shown
from gpu2npu.project.config import CONFIG_NAME, read_config
from gpu2npu.project.errors import UsageError
from gpu2npu.project.explain import Explanation, analysed_line, explain_line
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.discovery import discover
from gpu2npu.project.tree.mirror import read_files
from gpu2npu.rulebook import Rulebook, load_rulebook
from gpu2npu.rulebook.expression import ExpressionTimeError
from gpu2npu.rulebook.load import select_rules
from gpu2npu.support.behaviour import Row, row
from gpu2npu.support.chips import CHIPS
from gpu2npu.support.releases import RELEASES, known_version, unknown_version
from gpu2npu.system import holds

# What a project's folder has at its top.
_TOPS = (CONFIG_NAME, "pyproject.toml", "setup.py", "setup.cfg", ".git")


@click.command()
@click.argument("place", metavar="FILE:LINE")
@rule_files_option
@click.option(
    "-v", "--version", metavar="VERSION", help=f"The PyTorch version of the project.  [default: {RELEASES[0]}]"
)
@click.option(
    "-i",
    "--input",
    "root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="SRC",
    help="The project's folder.  [default: the nearest folder above FILE with a pyproject.toml, a setup.py or .git]",
)
def explain(place: str, files: tuple[Path, ...], version: str | None, root: Path | None) -> None:
    """Show which rules and analyses matched at line LINE of FILE, and why other rules with words on it did nothing.

    FILE is the one before the migration; of a notebook write FILE:cell_4:LINE, as the reports do. In place of
    FILE:LINE, the id of a row of the table of behaviour, which findings and errors of the emulated NPU have in brackets
    at their end, shows the row and its source.

    Example: gpu2npu rules explain train.py:12 -r our_rules.json
    """
    if (of_table := row(place)) is not None:
        _show_row(of_table)
        return
    path, cell, line = _place(place)
    root = (root or _root(path)).resolve()
    resolved = path.resolve()
    if not resolved.is_relative_to(root):
        raise click.UsageError(f"'{path}' is not in the project '{root}'; give another folder with -i.")
    settings = Settings(version or "", rules=files).or_else(read_config(root))
    prefer(settings.lang)
    version = settings.version or RELEASES[0]
    release = known_version(version)
    if release is None:
        raise click.UsageError(f"{unknown_version(version)}.")
    with usage_errors():
        rulebook, context = _open(settings, release, root)
    name = resolved.relative_to(root).as_posix()
    try:
        found = explain_line(source := resolved.read_bytes(), name, line, rulebook, context, cell)
        analysed = analysed_line(source, name, line, context, settings.chips, cell)
    except (ValueError, OSError, ExpressionTimeError) as error:
        raise UsageError(f"'{path}' cannot be explained: {error}.") from error
    say(f"{name}:{f'cell_{cell}:' if cell else ''}{line}, for PyTorch {version}", bold=True)
    _show(replace(found, findings=(*found.findings, *analysed)), {each.id: each.source for each in rulebook.rules})
    for of_row in filter(None, (row(each.row) for each in analysed)):
        _show_row(of_row)


def _show_row(of_table: Row) -> None:
    """Print what a row of the table of behaviour states."""
    click.secho(f"{of_table.id}: {of_table.outcome}", bold=True)
    stated = {
        "Calls": ", ".join((*of_table.apis, *of_table.operators)),
        "When": of_table.when,
        "Chips": "" if of_table.chips == frozenset(CHIPS) else ", ".join(sorted(of_table.chips)),
        "Releases of torch_npu": ", ".join(of_table.releases),
        "Unless torch_npu has": of_table.lacks,
        "Error": of_table.words,
        "What happens": of_table.evidence,
        "Write instead": of_table.advice,
        "Another source": of_table.disagrees,
        "Source": of_table.source,
    }
    for name, text in stated.items():
        if text:
            say(f"{name}: {text}")
    for name, program in (("This fails", of_table.fails), ("This passes", of_table.passes)):
        if program:
            say(f"{name}:")
            click.echo("\n".join(f"    {line}" for line in program.splitlines()))


def _open(settings: Settings, version: str, root: Path) -> tuple[Rulebook, ProjectContext]:
    """The rules that are switched on for a project, and what its files know of each other."""
    rulebook = select_rules(load_rulebook(settings.rules), settings.only_rules, settings.skip_rules)
    sources, _ = read_files(root, discover(root).python)
    return rulebook, scan_project(sources, rulebook, version, lambda path: (root / path).read_bytes(), root)


def _place(place: str) -> tuple[Path, int, int]:
    """The file, the number of a notebook's cell or 0, and the line."""
    name, colon, number = place.rpartition(":")
    before, _, last = name.rpartition(":cell_")
    cell = int(last) if before and last.isdecimal() else 0
    name = before if cell else name
    if not colon or not number.isdecimal() or not holds(Path(name).is_file):
        raise click.UsageError(f"'{place}' is not a file and a line of it; write FILE:LINE, such as train.py:12.")
    return Path(name), cell, int(number)


def _root(path: Path) -> Path:
    folder = path.resolve().parent
    return next((above for above in (folder, *folder.parents) if any((above / top).exists() for top in _TOPS)), folder)


def _show(found: Explanation, sources: Mapping[str, str | None]) -> None:
    click.echo(f"    {found.text.strip()}")
    if found.failure is not None:
        say(f"The file cannot be migrated: {found.failure}", fg="red")
    for change in found.changes:
        say(f"Changed by {click.style(change.rule, fg='green', bold=True)}: {change.message}")
        if change.before:
            click.secho(f"  - {change.before}", fg="red")
        click.secho(f"  + {change.after}", fg="green")
    for finding in found.findings:
        rule = click.style(finding.rule, fg="yellow", bold=True)
        say(f"Reported by {rule} ({shown(finding.kind.value)}): {finding.message}")
        if source := sources.get(finding.rule):
            say(f"Source: {source}")
    by_reason: dict[str, list[str]] = {}
    for rule_, reason in found.others:
        by_reason.setdefault(reason, []).append(click.style(rule_.id, bold=True))
    for reason, rules in by_reason.items():
        say(f"Nothing by {', '.join(rules)}: {reason}.")
    if not (found.changes or found.findings or found.others or found.failure):
        say("No rule has its words on this line.")
