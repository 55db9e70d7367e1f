"""The page of each command's options, made from the commands themselves: docs/cli.md and docs/cli.zh-CN.md.

python -m tools.cli_pages docs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gpu2npu import language
from gpu2npu.cli.main import cli
from gpu2npu.language import message, shown

NAMES = {"en": "cli.md", "zh": "cli.zh-CN.md"}
_NOT_SHOWN = frozenset({"server"})  # has a page of its own, docs/editors.md


_COMPLETION = """\
eval "$(_GPU2NPU_COMPLETE=bash_source gpu2npu)"    # bash: ~/.bashrc
eval "$(_GPU2NPU_COMPLETE=zsh_source gpu2npu)"     # zsh: ~/.zshrc
_GPU2NPU_COMPLETE=fish_source gpu2npu | source     # fish: ~/.config/fish/config.fish
"""


def main() -> None:
    """Write the pages into the folder that is named."""
    for name in language.LANGUAGES:
        (Path(sys.argv[1]) / NAMES[name]).write_text(page(name), encoding="utf-8")


def page(name: str) -> str:
    """The page in a language."""
    with language.restored():
        language.use(name)
        return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"# {shown(message('The command line'))}\n"
    yield shown(message("Made from the commands by `make docs`; `gpu2npu COMMAND --help` shows the same."))
    yield f"\n{shown(message('A shell completes commands and options after one of these lines in its settings:'))}\n"
    yield f"```\n{_COMPLETION}```"
    for path, context in _commands(cli, "gpu2npu", None):
        command = context.command
        yield f"\n## {path}\n"
        usage = command.collect_usage_pieces(context)
        yield f"```\n{path} {' '.join(usage)}\n```\n"
        for paragraph in (command.help or "").split("\n\n"):
            yield f"{_text(paragraph)}\n"
        yield from _options(command, context)
        yield from _epilog(command)


def _commands(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, click.Context]]:
    settings = {key: value for key, value in command.context_settings.items() if key != "obj"}
    context = click.Context(command, parent, info_name=path, **settings)
    yield path, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and name not in _NOT_SHOWN:
                yield from _commands(found, f"{path} {name}", context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    from gpu2npu.cli.language import described

    yield f"| {shown(message('option'))} | {shown(message('meaning'))} |\n| --- | --- |"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            names, text = (each.replace("|", r"\|") for each in (record[0], described(record[1])))
            yield f"| `{names}` | {text.replace('<', '&lt;')} |"


def _epilog(command: click.Command) -> Iterator[str]:
    from gpu2npu.cli.language import columns_shown

    for paragraph in (command.epilog or "").strip().split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        if lines[0].strip() == "\b":
            yield f"\n{shown(lines[1].strip())}\n\n```"
            yield from (columns_shown(line.removeprefix("  ")).rstrip() for line in lines[2:])
            yield "```"
        elif paragraph:
            yield f"\n{_text(paragraph)}"


def _text(text: str) -> str:
    return shown(re.sub(r"\s*\n\s*", " ", text.strip()))


if __name__ == "__main__":
    main()
