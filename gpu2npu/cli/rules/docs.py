"""`gpu2npu rules docs`: the reference of the built-in rules, as Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from gpu2npu.cli.language import say
from gpu2npu.cli.rules.options import usage_errors
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.reference import reference


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
