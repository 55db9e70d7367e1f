"""A code cell as plain Python: what IPython adds to the language is masked, line by line, and put back later."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from msgspec import Struct, field

from gpu2npu.python.text.edits import Replacement

_SHELL_LINE = re.compile(r"(?P<before>[ \t]*(?:[\w., \[\]'\"]+=[ \t]*)?(?:!!?|%sx[ \t]|%(?=(?:run|pip|conda)\b)))")
_ENV_LINE = re.compile(r"(?P<before>[ \t]*%(?:set_)?env[ \t]+)")
_OTHER_LINE = re.compile(r"[ \t]*(?:%|\?)|[ \t]*[\w.]+[ \t]*=[ \t]*%|.*\?[ \t]*$")
# A magic before a statement of Python.
_STATEMENT = re.compile(
    r"(?P<indent>[ \t]*)(?P<magic>%(?:time|timeit|prun|memit|mprun|lprun)[ \t]+(?:-[nr][ \t]*\d+[ \t]+|-[a-z][ \t]+)*)"
    r"(?P<code>[^\-\s].*)"
)
_CELL_MAGIC = re.compile(r"%%(?P<name>\w+!?)[ \t]*(?P<rest>[^\r\n]*)")
_SHELLS = frozenset({"bash", "sh", "zsh", "!", "system", "sx"})
_PYTHON = frozenset(
    {"time", "timeit", "capture", "prun", "memit", "python", "python3", "pypy", "wandb", "skip", "debug", "matplotlib",
     "snakeviz", "mprun", "lprun", "scalene", "heat", "notify", "px", "rerun"}
)  # fmt: skip


class Cell(Struct, frozen=True):
    """A code cell, the `number`-th of all cells. `lines` keep their ends; `python` is the cell with masks, one line for
    each of its own, or None where it holds no Python that can be read.

    `masked` has the index and the prefix of each masked line: all of it, or the magic before a statement. `shell` are
    the pieces that a shell runs, by their place in the cell's text; `variables` those that set an environment variable.
    `file` is the name of the file that the cell writes from its second line on.
    """

    number: int
    lines: tuple[str, ...]
    python: str | None
    masked: dict[int, str] = field(default_factory=dict)
    shell: tuple[tuple[int, int], ...] = ()
    variables: tuple[tuple[int, int], ...] = ()
    file: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.lines)


def read_cell(text: str, number: int) -> Cell:
    """Sort the lines of a code cell by what they are."""
    lines = tuple(text.splitlines(keepends=True))
    magic = _CELL_MAGIC.match(text)
    if magic is not None and magic["name"] not in _PYTHON:
        body = len(lines[0])
        shell = magic["name"] in _SHELLS or (magic["name"] == "script" and re.match(r"\S*sh\b", magic["rest"]))
        if shell:
            return Cell(number, lines, None, shell=((body, len(text)),))
        written = magic["rest"].split()[-1:] if magic["name"] in ("writefile", "file") else []
        return Cell(number, lines, None, file=written[0].strip("\"'") if written else None)
    if parses(text):
        return Cell(number, lines, text)
    cell = _masked(lines, number)
    return cell if cell.python is not None and parses(cell.python) else Cell(number, lines, None)


def parses(text: str) -> bool:
    """Return whether Python can read the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _masked(lines: tuple[str, ...], number: int) -> Cell:
    python: list[str] = []
    masked: dict[int, str] = {}
    shell: list[tuple[int, int]] = []
    variables: list[tuple[int, int]] = []
    at = 0
    continued = False
    indent = ""
    for index, line in enumerate(lines):
        content = line.rstrip("\r\n")
        end = line[len(content) :]
        command = _SHELL_LINE.match(content)
        variable = _ENV_LINE.match(content)
        statement = _STATEMENT.fullmatch(content)
        hidden = index == 0 and content.startswith("%%")
        if continued:
            shell[-1] = (shell[-1][0], at + len(content))
        elif command is not None:
            shell.append((at + command.end(), at + len(content)))
        elif variable is not None:
            variables.append((at + variable.end(), at + len(content)))
        if statement is not None and parses(statement["code"]) and not continued:
            masked[index] = statement["magic"]
            python.append(f"{statement['indent']}{statement['code']}{end}")
        elif continued or hidden or command is not None or variable is not None or _OTHER_LINE.match(content):
            masked[index] = line
            indent = content[: len(content) - len(content.lstrip(" \t"))] if not continued else indent
            python.append(f"{indent}pass{end}")
        else:
            python.append(line)
        continued = content.endswith("\\") and (continued or command is not None)
        at += len(line)
    return Cell(number, lines, "".join(python), masked, tuple(shell), tuple(variables))


def unmasked(replacements: Iterable[Replacement], cell: Cell) -> list[Replacement]:
    """The edits of a cell's Python as edits of the cell itself."""
    if cell.python is None or not cell.masked:
        return list(replacements)
    starts = list(accumulate(map(len, cell.python.splitlines(keepends=True)), initial=0))
    own = list(accumulate(map(len, cell.lines), initial=0))

    def place(offset: int, is_code: bool) -> int:
        """The place of an offset in the cell; `is_code`: of code, which a magic may be before."""
        index = bisect_right(starts, offset) - 1
        column = offset - starts[index]
        prefix = cell.masked.get(index)
        if prefix is None:
            return own[index] + column
        line = cell.lines[index]
        end = len(line.rstrip("\r\n"))
        if prefix == line:
            return own[index] + (end if column else 0)
        indent = len(line) - len(line.lstrip(" \t"))
        behind = column > indent or (is_code and column == indent)
        return own[index] + min(column + (len(prefix) if behind else 0), end)

    def moved(one: Replacement) -> Replacement:
        is_line = one.start == one.end and one.new.endswith(("\n", "\r"))  # a new one, above that of a magic
        return Replacement(place(one.start, not is_line), place(one.end, one.start == one.end and not is_line), one.new)

    return [moved(one) for one in replacements]
