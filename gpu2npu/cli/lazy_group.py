"""A click group whose subcommands are imported when they are called, so that `--help` stays fast.

What is after `--`, where no subcommand comes before it, is a command of the user's own and no subcommand.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from msgspec import Struct

from gpu2npu.cli.language import language_option
from gpu2npu.language import restored
from gpu2npu.near_names import did_you_mean


class LazyCommand(Struct, frozen=True):
    """The place of a subcommand, and the line that `--help` shows for it without importing it."""

    module: str
    attribute: str
    short_help: str


class LazyGroup(click.Group):
    """A group that knows its subcommands by name and imports one only to run it."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy_commands = dict(lazy_commands)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As click; the language of one command is not that of the next in the same process."""
        if not kwargs.get("standalone_mode", True):  # the caller prints the errors
            return super().main(*args, **kwargs)
        with restored():
            return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click, but the words after `--` stay in `ctx.args`. Raises UsageError if there are none."""
        head, tail = _split_at_dashes(args)
        if tail is None or self.make_parser(ctx).parse_args(list(head))[1]:  # a subcommand's own `--`
            return super().parse_args(ctx, args)
        if not tail:
            raise click.UsageError("After -- the training command is missing, such as: -- python train.py", ctx)
        super().parse_args(ctx, head)
        ctx.args = tail
        return tail

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self.lazy_commands.get(cmd_name)
        if lazy is None:
            return None
        command: click.Command = getattr(import_module(lazy.module), lazy.attribute)
        if language_option not in command.params:
            command.params.append(language_option)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, but an unknown command is answered with the nearest known ones."""
        name = args[0]
        if name not in self.lazy_commands and not ctx.resilient_parsing and not name.startswith("-"):
            hint = (
                did_you_mean(name, self.list_commands(ctx)) or f"the commands are {', '.join(self.list_commands(ctx))}."
            )
            raise click.UsageError(f"There is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy_commands[name].short_help) for name in self.list_commands(ctx)])


def _split_at_dashes(args: list[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in args:
        return args, None
    index = args.index("--")
    return args[:index], args[index + 1 :]
