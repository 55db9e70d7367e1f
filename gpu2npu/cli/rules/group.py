"""`gpu2npu rules`: what the rules are, and everything that writing one takes. Each subcommand is loaded when called."""

from __future__ import annotations

import click

from gpu2npu.cli.lazy_group import LazyCommand, LazyGroup

_COMMANDS = {
    "list": LazyCommand("gpu2npu.cli.rules.list", "list_rules", "List the rules, in the order in which they apply."),
    "show": LazyCommand("gpu2npu.cli.rules.list", "show", "Show one rule with its examples."),
    "new": LazyCommand("gpu2npu.cli.rules.learn", "new", "Write a rule file to start from."),
    "learn": LazyCommand(
        "gpu2npu.cli.rules.learn", "learn", "Propose rules from a project before and after a migration by hand."
    ),
    "schema": LazyCommand("gpu2npu.cli.rules.learn", "schema", "Print the JSON Schema of rule files."),
    "validate": LazyCommand(
        "gpu2npu.cli.rules.check", "validate", "Check rule files, and list the rules that conflict."
    ),
    "test": LazyCommand("gpu2npu.cli.rules.check", "test", "Run the examples of rule files."),
    "explain": LazyCommand("gpu2npu.cli.rules.explain", "explain", "Show which rules are for a line of code, and why."),
    "docs": LazyCommand("gpu2npu.cli.rules.list", "docs", "Write the reference of the built-in rules."),
}

_EPILOG = """\
\b
Examples:
  gpu2npu rules new move-to-gpu -o our_rules.json   a file to change into your own rule
  gpu2npu rules test our_rules.json                 run its examples
  gpu2npu -i resnet -o migrated -v 2.1.0 -r our_rules.json
"""


@click.group(cls=LazyGroup, lazy_commands=_COMMANDS, epilog=_EPILOG)
def rules() -> None:
    """Look at the rules of the migration, write rules of your own and try them."""
