"""The checks themselves: each notices what it is there for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.records import Change, MigratedFile
from gpu2npu.rulebook import load_rulebook

BEFORE = "import torch\n\ndef move(x):\n    return x.cuda()  # to cuda\n\n\nmove(torch.cuda.current_device())\n"
RESULT = migrate_source(BEFORE.encode(), "train.py", load_rulebook(), ProjectContext())
AFTER = (RESULT.content or b"").decode()


def test_the_real_result_passes(only_listed_text_changed: Callable[[str, str, Iterable[Change]], None]) -> None:
    assert "return x.npu()  # to cuda" in AFTER
    only_listed_text_changed(BEFORE, AFTER, RESULT.changes)


TAMPERED = {
    "a comment on a listed line": AFTER.replace("# to cuda", "# to npu"),
    "a blank": AFTER.replace("x.npu()  #", "x.npu() #"),
    "a blank line": AFTER.replace("\n\n\n", "\n\n"),
    "a line that is not listed": AFTER.replace("def move(x)", "def move(y)"),
    "the last newline": AFTER[:-1],
    "an import too many": AFTER.replace("def move", "import torch_npu\ndef move"),
}


@pytest.mark.parametrize("after", TAMPERED.values(), ids=TAMPERED)
def test_a_change_that_is_not_listed_is_noticed(
    only_listed_text_changed: Callable[[str, str, Iterable[Change]], None], after: str
) -> None:
    with pytest.raises(AssertionError):
        only_listed_text_changed(BEFORE, after, RESULT.changes)


@pytest.mark.parametrize("left_out", range(len(RESULT.changes)))
def test_a_change_that_is_missing_in_the_list_is_noticed(
    only_listed_text_changed: Callable[[str, str, Iterable[Change]], None], left_out: int
) -> None:
    listed = [change for index, change in enumerate(RESULT.changes) if index != left_out]
    with pytest.raises(AssertionError):
        only_listed_text_changed(BEFORE, AFTER, listed)


def test_what_is_no_program_is_noticed(stays_a_program: Callable[[str, MigratedFile], str]) -> None:
    assert stays_a_program(BEFORE, RESULT) == AFTER
    with pytest.raises(SyntaxError):
        stays_a_program(BEFORE, MigratedFile("train.py", b"x = = 1\n"))
    with pytest.raises(AssertionError, match="why"):
        stays_a_program(BEFORE, MigratedFile("train.py", failure="why"))
