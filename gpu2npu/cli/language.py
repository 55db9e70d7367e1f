"""The language of the command line: the option --lang, what is printed, and the help, whose wide characters take two
columns of a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any
from unicodedata import east_asian_width

import click

from gpu2npu.language import LANGUAGES, exactly, language, shown, use

# Characters of two columns, and those of them that must not begin a line: closing marks and brackets.
_WIDE = r"\u2e80-\u9fff\uff00-\uffee"
_CLOSING = r"[\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f\uff09\u300d\u300f\u201d]*"
# A word of a language with spaces, or one wide character; opening brackets must not end a line.
_UNIT = rf"[\[(\uff08\u201c]*(?:[{_WIDE}]{_CLOSING}|[^\s{_WIDE}]+{_CLOSING})|\s+"  # takes 5 ms to compile
_ADDED = re.compile(r"(.*  |)\[([^\[\]]*)\]", re.DOTALL)
_COLUMNS = re.compile(r"(\s{2,})")
_CHOSEN = "gpu2npu.lang"  # a key of Context.meta, which a command shares with its group


def say(text: str, err: bool = False, **style: Any) -> None:
    """Print a message in the language in use, on stderr if `err`; `style` is that of click.style."""
    click.secho(shown(text), file=sys.stderr if err else sys.stdout, **style)


def prefer(name: str) -> None:
    """Print in the language of a project's settings from now on, unless they name none or --lang chose one."""
    if name and _CHOSEN not in click.get_current_context().meta:
        use(name)


def _chosen(ctx: click.Context, _option: click.Parameter, name: str | None) -> None:
    if name is not None:
        ctx.meta[_CHOSEN] = True
        use(name)


language_option = click.Option(
    ["--lang"],
    type=click.Choice(LANGUAGES),
    is_eager=True,
    expose_value=False,
    callback=_chosen,
    help="The language of what is printed and reported.  [default: that of the locale]",
)


class Help(click.HelpFormatter):
    """As click's, in the language in use."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, f"{shown(prefix or 'Usage:').strip()}{' ' if language() == 'en' else ''}")

    def write_heading(self, heading: str) -> None:
        if language() == "en":
            super().write_heading(heading)
        else:
            self.write(f"{' ' * self.current_indent}{shown(heading)}\uff1a\n")

    def write_text(self, text: str) -> None:
        if language() == "en":
            super().write_text(text)
            return
        self.write("\n\n".join(self._paragraph(part) for part in text.strip().split("\n\n")) + "\n")

    def _paragraph(self, part: str) -> str:
        margin = " " * self.current_indent
        lines = part.strip("\n").split("\n")
        if lines[0].strip() != "\b":
            return "\n".join(margin + line for line in wrapped(shown(" ".join(part.split())), self._room()))
        return "\n".join(margin + columns_shown(line) for line in lines[1:])

    def _room(self) -> int:
        return max(self.width - self.current_indent, 11)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        if language() == "en":
            super().write_dl(rows, col_max, col_spacing)
            return
        rows = list(rows)
        first = min(max((cells(name) for name, _ in rows), default=0), col_max) + col_spacing
        margin = " " * self.current_indent
        for name, text in rows:
            lines = wrapped(described(text), max(self._room() - first - 2, 10))
            fits = cells(name) <= first - col_spacing
            self.write(f"{margin}{name}")
            self.write(" " * (first - cells(name)) if fits else f"\n{margin}{' ' * first}")
            self.write(f"\n{margin}{' ' * first}".join(lines) + "\n")


def described(text: str) -> str:
    """The help of an option, and what click adds to it in brackets: "[default: 20; x>=1]"."""
    match = _ADDED.fullmatch(text)
    if language() == "en" or not match or exactly(text):
        return exactly(text) or shown(text)
    parts = [part.partition(" ") for part in match[2].split("; ")]
    values = "\uff1b".join((exactly(name) or f"{name}{space}") + value for name, space, value in parts)
    return f"{described(match[1].rstrip())}{match[1] and '  '}[{values}]"


def columns_shown(line: str) -> str:
    """A line of examples or exit codes, of whose columns the last may be a message."""
    return "".join(exactly(column) or column for column in _COLUMNS.split(line))


def cells(text: str) -> int:
    """The columns that a text takes on a terminal, without its escape sequences."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in click.unstyle(text))


def padded(text: str, columns: int) -> str:
    """The text with spaces up to a number of columns."""
    return text + " " * (columns - cells(text))


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns; a wide character may end any of them."""
    lines, line, used = [], "", 0
    for unit in (match.group() for match in re.finditer(_UNIT, text)):
        size = cells(unit)
        if used + size > width and line.strip():
            lines.append(line.rstrip())
            line, used = "", 0
            if unit.isspace():
                continue
        line += unit
        used += size
    return [*lines, line.rstrip()]
