from pathlib import Path

import pytest

from gpu2npu.project.check.baseline import read_baseline
from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings
from gpu2npu.report.check.result import CheckResult

SOURCE = """import torch

def train(model):
    torch.cuda.jiterator._create_jit_fn("a")
    torch.cuda.jiterator._create_jit_fn("a")

class Loop:
    def step(self):
        torch.cuda.jiterator._create_jit_fn("x")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SOURCE)
    return tmp_path / "train.py"


def check(file: Path, update: bool = False, **options: object) -> CheckResult:
    baseline = file.parent / "known.json"
    choice = CheckChoice(baseline=baseline, update_baseline=update, **options)  # type: ignore[arg-type]
    return check_project((file,), Settings("2.7.1"), choice)[0]


def reported(result: CheckResult) -> list[tuple[str, int]]:
    return [(found.finding.api, found.line) for _, found in result.reported()]


def test_known_findings_stay_known_when_lines_move(file: Path) -> None:
    first = check(file, update=True)
    assert first.known >= 3
    assert reported(first) == []
    written = (file.parent / "known.json").read_bytes()
    file.write_text("# one\n# two\n\n" + SOURCE.replace("    torch.cuda.jit", "\n\n    torch.cuda.jit", 1))
    moved = check(file)
    assert moved.known == first.known
    assert reported(moved) == []
    assert moved.expired == 0
    check(file, update=True)
    assert (file.parent / "known.json").read_bytes() == written


def test_what_is_new_is_reported(file: Path) -> None:
    known = check(file, update=True).known
    file.write_text(SOURCE + "\n\ndef more():\n    torch.cuda.jiterator._create_jit_fn('a')\n")
    result = check(file)
    assert result.known == known
    assert [line for _, line in reported(result)] == [13]


def test_one_more_of_the_same_in_the_same_function_is_new(file: Path) -> None:
    check(file, update=True)
    line = '    torch.cuda.jiterator._create_jit_fn("a")\n'
    file.write_text(SOURCE.replace(line, 2 * line, 1))
    assert len(reported(check(file))) == 1


def test_what_was_fixed_expires(file: Path) -> None:
    known = check(file, update=True).known
    file.write_text(SOURCE.replace('        torch.cuda.jiterator._create_jit_fn("x")\n', "        pass\n"))
    result = check(file)
    assert (result.known, result.expired) == (known - 1, 1)
    assert check(file, update=True).expired == 0
    entries = read_baseline(file.parent / "known.json")["train.py"]
    assert len(entries) == known - 1


def test_what_another_check_is_about_stays(file: Path) -> None:
    other = file.parent / "other.py"
    other.write_text(SOURCE)
    check(file, update=True)
    check(other, update=True)
    assert set(read_baseline(file.parent / "known.json")) == {"train.py", "other.py"}
    assert check(file, ignore=("*",)).expired == 0
    other.unlink()
    request = (file.parent,), Settings("2.7.1"), CheckChoice(baseline=file.parent / "known.json")
    assert check_project(*request)[0].expired == check(file).known


def test_a_check_from_elsewhere_meets_the_same_baseline(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = check(file, update=True).known
    inner = file.parent / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert check(file).known == known
    monkeypatch.chdir("/")
    assert check(file).known == known


@pytest.mark.parametrize(
    "content", [None, b"", b"[]", b'{"format": 1}', b'{"format": 2, "findings": {}}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_baseline_is_refused(file: Path, content: bytes | None) -> None:
    if content is not None:
        (file.parent / "known.json").write_bytes(content)
    with pytest.raises(UsageError, match="baseline"):
        check(file)
