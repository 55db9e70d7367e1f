"""`gpu2npu server`: the language server that editors start."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from gpu2npu.cli.rules.options import rule_files
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings

_EPILOG = """\
\b
Examples:
  gpu2npu server --stdio -v 2.7.1         as an editor starts it; docs/editors.md has VS Code and Neovim
  gpu2npu server --stdio -r my_rules.json

The version, rules and exclusions of a project are those of its pyproject.toml or gpu2npu.toml; the command line has
precedence.
"""


@click.command(epilog=_EPILOG)
@click.option("--stdio", is_flag=True, help="Communicate by standard input and output, which is the only way.")
@click.option(
    "-v", "--version", default="", metavar="VERSION", help="The version of PyTorch.  [default: the settings']"
)
@click.option("--torch-npu", default="", metavar="VERSION", help="The release of torch_npu.")
@rule_files("rules")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="error",
    show_default=True,
    help="How much is written to standard error, which editors show as the log of the server.",
)
def server(stdio: bool, version: str, torch_npu: str, rules: tuple[Path, ...], log_level: str) -> None:
    """Show in an editor what `check` finds, as you type: diagnostics, fixes of what a rule edits, and verdicts.

    It speaks the language server protocol.
    """
    if not stdio:
        raise click.UsageError("An editor starts this server, with --stdio: docs/editors.md shows how.")
    try:
        from gpu2npu.editor.server import language_server
    except ModuleNotFoundError as error:
        raise UsageError(f"The server needs {error.name}: pip install 'gpu2npu[editor]'.") from error
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr)
    try:
        language_server(Settings(version, torch_npu, rules)).start_io()
    except (MemoryError, OverflowError):
        raise UsageError("A message on standard input is longer than this machine has memory for.") from None
