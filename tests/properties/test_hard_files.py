"""The same properties over files that are hard to edit (tools.hard_files), and over the fixtures with random damage.

By default 60 of the 500 hard files and 100 of the 2,000 damaged ones; GPU2NPU_TEST_HARD=all takes all.
"""

from __future__ import annotations

import ast
import io
import os
import random
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.records import Change
from gpu2npu.rulebook import load_rulebook
from tools.hard_files import hard_files

RULEBOOK = load_rulebook()
FIXTURES = Path(__file__).parents[2] / "fixtures"
ALL = os.environ.get("GPU2NPU_TEST_HARD") == "all"
HARD_EACH, DAMAGED = (1, 2_000) if ALL else (8, 100)
LARGEST = 6_000  # bytes of a fixture that is damaged; larger ones would take most of the time

Check = Callable[[str, str, Iterable[Change]], None]


def test_hard_files(only_listed_text_changed: Check) -> None:
    files = list(hard_files())
    assert len({content for _, content in files}) == len(files) == 500
    taken = [_holds(name, content, only_listed_text_changed) for name, content in files[::HARD_EACH]]
    assert sum(taken) > 0.6 * len(taken)  # the others are no programs for this Python


def test_damaged_files(only_listed_text_changed: Check) -> None:
    taken = [_holds(name, content, only_listed_text_changed) for name, content in damaged_files()]
    assert len(taken) == DAMAGED and sum(taken) > 0.2 * DAMAGED


def _holds(name: str, source: bytes, only_listed_text_changed: Check) -> bool:
    """Return whether a file is a program; fails unless its migration is one, lists all it changes, and has an end."""
    context = ProjectContext(version="2.1.0")
    result = migrate_source(source, name, RULEBOOK, context)
    try:
        _parse(source)
    except (SyntaxError, ValueError, UnicodeError):
        assert result.content is None and not result.changes, name
        return False
    assert result.failure is None, (name, result.failure)
    after = source if result.content is None else result.content
    try:
        _parse(after)
        only_listed_text_changed(_decoded(source), _decoded(after), result.changes)
    except (SyntaxError, AssertionError) as error:
        pytest.fail(f"{name}: {error}\n{_decoded(source)}\n-----\n{_decoded(after)}")
    again = migrate_source(after, name, RULEBOOK, context)
    assert (again.failure, again.content, again.changes) == (None, None, ()), name
    return True


def _parse(source: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in strings
        ast.parse(source)


def _decoded(source: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source.replace(b"\r", b"\n")).readline)
    return source.decode(encoding)


def damaged_files() -> Iterator[tuple[str, bytes]]:
    """Names and contents of fixtures with one to three lines or words that are not what they were."""
    paths = [path for path in sorted(FIXTURES.rglob("*.py")) if path.stat().st_size < LARGEST]
    texts = [path.read_text(encoding="latin-1") for path in paths]
    words = sorted({word for text in texts for word in text.split()})
    for number in range(DAMAGED):
        chance = random.Random(number)
        index = chance.randrange(len(paths))
        lines = texts[index].split("\n")
        for _ in range(chance.randint(1, 3)):
            _damage(lines, words, chance)
        encoding = "utf-8" if texts[index].isascii() else "latin-1"
        yield f"{number}_{paths[index].name}", "\n".join(lines).encode(encoding)


def _damage(lines: list[str], words: list[str], chance: random.Random) -> None:
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    line = lines[at]
    column = chance.randrange(len(line) + 1)
    kind = chance.randrange(10)
    if kind == 0:
        del lines[at : at + chance.randint(1, 3)]
        lines.append("")
    elif kind == 1:
        lines.insert(other, line)
    elif kind == 2:
        lines[at], lines[other] = lines[other], line
    elif kind == 3:
        lines[at] = (
            line[:column]
            + chance.choice(["(", ")", "'", '"', "\\", "#", ":", ";", "\t", "\f", ",", "."])
            + line[column:]
        )
    elif kind == 4:
        lines[at] = line[:column] + line[column + chance.randint(1, 8) :]
    elif kind == 5:
        lines[at] = " " * chance.choice([1, 2, 4]) + line
    elif kind == 6:
        del lines[chance.randint(1, len(lines)) :]
    elif kind == 7:
        lines[at] = line + "\r"
    else:
        pieces = line.split(" ")
        pieces[chance.randrange(len(pieces))] = chance.choice(words)
        lines[at] = " ".join(pieces)
