import re
from pathlib import Path

import pytest

from gpu2npu.records import (
    Change,
    Finding,
    FindingKind,
    MigratedFile,
    NativeKind,
    NativePlace,
    Operation,
    Outcome,
    PathNote,
    Span,
)
from gpu2npu.report.log import LOG_LINE, LOG_NAME, write_log

SPAN = Span(3, 0, 3, 5)
OUTCOME = Outcome(
    "p",
    files=(
        MigratedFile("a.py", b"", (Change(SPAN, "cuda-method", Operation.MODIFY, "moves", "x.cuda()", "x.npu()"),)),
        MigratedFile("b.py", failure="syntax error at line 7"),
        MigratedFile("c.py", findings=(Finding(SPAN, "r", FindingKind.REVIEW, "torch.x", "look\nhere"),)),
    ),
    copied=("data.bin", "data/1.txt", "data/2.txt"),
    skipped=(".git",),
    notes=(PathNote("link", "left out", failed=False), PathNote("odd\nname\udce9", "cannot be read", failed=True)),
    native=(NativePlace("a.cu", 5, NativeKind.OPERATOR, "x.nms"),),
    seconds=1.5,
)


def lines(tmp_path: Path, level: str) -> list[str]:
    """The log's lines without their times."""
    write_log(OUTCOME, tmp_path / LOG_NAME, level, "0.1.0: 'p'")
    text = (tmp_path / LOG_NAME).read_text(encoding="utf-8")
    assert all(LOG_LINE.match(line.encode()) for line in text.splitlines())
    return [re.sub(r"^.{23} gpu2npu ", "", line) for line in text.splitlines()]


def test_everything_done_is_in_the_log(tmp_path: Path) -> None:
    assert lines(tmp_path, "debug") == [
        "INFO 0.1.0: 'p'",
        "INFO .git: left out (version control, caches and virtual environments are not copied)",
        "WARNING link: left out",
        "ERROR odd\\nname\\udce9: cannot be read",
        "INFO a.py: migrated with 1 change",
        "DEBUG a.py:3: cuda-method: 'x.cuda()' -> 'x.npu()': moves",
        "ERROR b.py: copied as it is, because it could not be migrated: syntax error at line 7",
        "INFO c.py: unchanged",
        "WARNING c.py:3: torch.x: look\\nhere",
        "INFO .: 1 file copied",
        "INFO data: 2 files copied",
        "WARNING a.cu:5: CUDA operator x.nms, which needs an NPU version",
        "INFO 3 Python files, 1 change, 1 finding in 1.50 s",
    ]


@pytest.mark.parametrize(("level", "count"), [("info", 12), ("warning", 6), ("error", 3)])
def test_the_level_decides_what_is_logged(tmp_path: Path, level: str, count: int) -> None:
    # The opening line is there at every level.
    assert len(lines(tmp_path, level)) == count


def test_ten_parts_of_one_megabyte_at_most(tmp_path: Path) -> None:
    files = tuple(MigratedFile(f"{number}.py", failure="caf\u00e9 " * 3_000) for number in range(6_000))
    write_log(Outcome("p", files), tmp_path / LOG_NAME, "info", "0.1.0")
    parts = sorted(tmp_path.iterdir())
    assert len(parts) == 10
    assert all(part.stat().st_size <= 1024 * 1024 for part in parts)
    assert "6000 Python files" in (tmp_path / LOG_NAME).read_text(encoding="utf-8")
