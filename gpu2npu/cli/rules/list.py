"""`gpu2npu rules list`, `show` and `docs`: the rules as a table, as JSON, one of them in full, and as pages."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import click

from gpu2npu.cli.language import say
from gpu2npu.cli.rules.options import rule_files_option, usage_errors
from gpu2npu.language import message, sentence, shown
from gpu2npu.rulebook import Rule, load_rulebook
from gpu2npu.rulebook.describe import limit_texts, one_line, then_texts
from gpu2npu.rulebook.entries import encode_rule
from gpu2npu.rulebook.load import select_rules
from gpu2npu.rulebook.packs import PREFIX, Pack, installed_packs
from gpu2npu.rulebook.reference import reference
from gpu2npu.rulebook.rule import Example
from gpu2npu.support.releases import known_version, unknown_version


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the rules as one JSON list.")
@rule_files_option
@click.option("-v", "--version", metavar="VERSION", help="Only the rules for this PyTorch version.")
def list_rules(as_json: bool, files: tuple[Path, ...], version: str | None) -> None:
    """List the rules, in the order in which they apply, and where they come from: yours, then the built-in ones.

    Packs of rules that installed packages offer and that are not applied are named at the end.
    """
    release = known_version(version) if version is not None else None
    if version is not None and release is None:
        raise click.UsageError(f"{unknown_version(version)}.")
    with usage_errors():
        rules = load_rulebook(files).rules
    rules = tuple(rule for rule in rules if release is None or rule.applies_to(release))
    if as_json:
        entries = [{**encode_rule(rule), "file": rule.file, "builtin": rule.builtin} for rule in rules]
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    packs = installed_packs()
    width = max((len(rule.id) for rule in rules), default=0)
    for _, found in groupby(rules, key=lambda rule: rule.file):
        group = list(found)
        click.secho(f"# {shown(origin(group[0], packs))}", dim=True)
        for rule in group:
            say(f"{click.style(rule.id.ljust(width), bold=True)}  {one_line(rule)}")
    for pack in packs:
        if not set(map(str, pack.files)) & {rule.file for rule in rules}:
            left = f"{PREFIX}{pack.name} of {pack.distribution} is not applied: -r {PREFIX}{pack.name}"
            click.secho(f"# {shown(left)}", dim=True)


def origin(rule: Rule, packs: Iterable[Pack]) -> str:
    """The place that a rule comes from: the built-in rules, a pack, or a file of the user's."""
    if rule.builtin:
        return f"built in, in {rule.file}"
    for pack in packs:
        if rule.file in map(str, pack.files):
            return f"{PREFIX}{pack.name} of {pack.distribution}, in {Path(rule.file).name}"
    return sentence("in {}", rule.file)


@click.command()
@click.argument("rule_id", metavar="ID")
@rule_files_option
def show(rule_id: str, files: tuple[Path, ...]) -> None:
    """Show the rule ID: what it matches, what it does and why, and its examples."""
    with usage_errors():
        rule = select_rules(load_rulebook(files), [rule_id]).rules[0]
    say(rule.id, bold=True)
    say(rule.why)
    say("")
    where = sentence("It is {}.", origin(rule, installed_packs()))
    for text in (f"Matches {rule.match.text}.", *then_texts(rule.then), *limit_texts(rule), where):
        click.echo(f"  {shown(text)}")
    for example in rule.examples:
        say("")
        for line in _example_lines(example):
            click.echo(line)


def _example_lines(example: Example) -> Iterator[str]:
    notes = [sentence("for PyTorch {}", example.version)] if example.version else []
    if example.file != "example.py":
        notes.append(sentence("in {}", example.file))
    if example.reports is not None:
        notes.append(sentence("reported: {}", example.reports.value))
    verb = message("Keeps") if example.before == example.after else message("Changes")
    yield f"  {shown(verb)}{' (' + ', '.join(notes) + ')' if notes else ''}:"
    before, after = example.before.splitlines(), example.after.splitlines()
    for line in difflib.ndiff(before, after):
        colour = {"+": "green", "-": "red"}.get(line[0])
        if line[0] != "?":
            yield click.style(f"    {line}", fg=colour) if colour else f"    {line}"


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("docs/rules"),
    show_default=True,
    metavar="DIR",
    help="The folder to write. Pages in it of rule files that no longer exist are removed.",
)
def docs(output: Path) -> None:
    """Write the reference of the built-in rules: one page for each rule file, one for the roles, and an index."""
    with usage_errors():
        pages = reference(load_rulebook())
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (output / name).write_text(text, encoding="utf-8", newline="\n")
        for old in output.glob("*.md"):
            if old.name not in pages and old.read_text(encoding="utf-8").startswith(f"# {old.stem}.json\n"):
                old.unlink()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"'{output}' cannot be written: {error}.") from error
    say(f"Wrote {len(pages)} pages to {output}.")
