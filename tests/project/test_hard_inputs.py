"""Files that are hard to take: each is migrated, or copied with a sentence that says why not.

Each has a place that must be migrated behind what is hard in it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu2npu.project.analyse import AnalysisChoice, analyse_project
from gpu2npu.project.check.session import check_project
from gpu2npu.project.location import Output
from gpu2npu.project.migration import migrate_project
from gpu2npu.project.settings import Settings
from gpu2npu.project.tree.mirror import LARGEST_OTHER, LARGEST_PYTHON, read_files

IMPORT = "import torch\n"
PLACE = "torch.cuda.synchronize()\n"


def joined(separator: str, part: str, count: int) -> str:
    return separator.join(part.format(number) for number in range(count))


TAKEN = {
    "sum": f"x = {joined(' + ', 'a{}', 3_000)}\n",
    "sum_of_places": f"x = {joined(' + ', 'torch.cuda.device_count()', 1_000)}\n",
    "aliases": "a1 = a2 = torch\n" + "a2 = a1\n" * 3_000,
    "chain": "a0 = torch\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(3_000)) + "a3000.cuda.synchronize()\n",
    "values": "a0 = torch.ones(1)\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(3_000)) + "a3000.cuda()\n",
    "functions": "def f0(): return torch.ones(1)\n"
    + "".join(f"def f{n + 1}(): return f{n}()\n" for n in range(200))
    + "f200().cuda()\n",
    "strings": "x = (" + joined("\n", '"cuda:{}"', 5_000) + ")\n",
    "f_strings": "x = (" + joined("\n", 'f"cuda:{{i}}"', 5_000) + ")\n",
    "form_feed": "\f\n\fx = 1\n\f",
    "long_line": "x = [" + joined(", ", '"cuda"', 3_000) + "]; ",
    "dictionary": "x = {" + joined(", ", '"k{}": "cuda"', 2_000) + "}\n",
    "attributes": f"x = a{'.b' * 5_000}\n",
    "calls": f"x = a{'.b().c()' * 2_500}\n",
    "indexes": f"x = a{'[0]' * 5_000}\n",
    "parentheses": f"x = {'(' * 90}torch.cuda.device_count(){')' * 90}\n",
    "brackets": f"x = {'[' * 90}torch.cuda.device_count(){']' * 90}\n",
    "blocks": "".join(" " * depth + "if x:\n" for depth in range(90)) + " " * 90 + PLACE,
    "elif": "if x: pass\n" + joined("", "elif x == {}:\n    y = 'cuda'\n", 500),
    "negations": f"x = {'not ' * 3_000}1\n",
}
QUOTES_WITHIN = 'print(f"{x:{"cuda"}}")\n'
if sys.version_info >= (3, 12):
    # How deep a tree may be is a constant of these interpreters: what is deeper gets its sentence.
    for deep in ("sum", "sum_of_places", "chain", "values", "functions", "attributes", "calls", "indexes", "negations"):
        del TAKEN[deep]
    TAKEN["quotes_within"] = QUOTES_WITHIN.replace("cuda", "cpu")


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hard") / "project"
    folder.mkdir()
    for name, code in TAKEN.items():
        (folder / f"{name}.py").write_text(IMPORT + code + PLACE)
    latin = f"# coding: latin-1\n{IMPORT}x = 'é'\n{PLACE}".replace("\n", "\r")
    (folder / "carriage_returns.py").write_bytes(latin.encode("latin-1"))
    (folder / "mark.py").write_bytes(b"\xef\xbb\xbf" + (IMPORT + PLACE).encode())
    return folder


def test_what_is_hard_is_migrated(taken: Path, tmp_path: Path) -> None:
    outcome, copy = migrate_project(taken, Settings("2.1.0", jobs=1), Output(tmp_path))
    assert {file.path: file.failure for file in outcome.files if file.failure} == {}
    written = {file.name: file.read_bytes() for file in copy.glob("*.py")}
    assert len(written) == len(TAKEN) + 2
    assert [name for name, content in written.items() if b"torch.npu.synchronize()" not in content] == []
    assert [name for name, content in written.items() if b"torch.cuda." in content] == []
    assert b"\n" not in written["carriage_returns.py"]
    if "chain" in TAKEN:
        assert b"a3000.npu()" in written["values.py"] and b"a3000.npu.synchronize()" in written["chain.py"]


def test_what_is_hard_is_checked(taken: Path) -> None:
    result, _ = check_project((taken,), Settings("2.1.0", jobs=1))
    assert result.failures == ()
    changed = {file.path.rpartition("/")[2] for file in result.files if file.changes}
    assert changed == {path.name for path in taken.iterdir()}


def test_what_is_hard_is_analysed(taken: Path, tmp_path: Path) -> None:
    modes = ("torch_apis", "affinity_apis")
    _, notes, _ = analyse_project(taken, Settings("2.1.0", jobs=1), Output(tmp_path), AnalysisChoice(modes))
    assert notes == []


REFUSED: Mapping[str, tuple[bytes, str]] = {
    "mixed": (b'x = "a" b"b"\n', "syntax error at line 2: cannot mix bytes and nonbytes literals"),
    "later": (b"type X = int\n", "the syntax in line 2 is newer than Python"),
    "quotes_within": (QUOTES_WITHIN.encode(), "the syntax in line 2 is newer than Python"),
    "nested": (b"x = " + b"(" * 5_000 + b")" * 5_000 + b"\n", "nested too deeply to be parsed"),
    "blocks": (
        "".join(" " * depth + "if x:\n" for depth in range(150)).encode() + b" " * 150 + b"x\n",
        "syntax error at line 102: too many levels of indentation",
    ),
    "null": (b"\nx = 1\0\n", "syntax error at line 3: a null byte"),
}
WHOLE: Mapping[str, tuple[bytes, str]] = {
    "utf_16": ((IMPORT + PLACE).encode("utf-16"), "it is UTF-16, which is not an encoding of Python files"),
    "wide": ((IMPORT + PLACE).encode("utf-16-le"), "syntax error at line 1: a null byte"),
    "two_marks": (b"\xef\xbb\xbf" * 2 + (IMPORT + PLACE).encode(), "syntax error at line 1: invalid"),
}
if sys.version_info >= (3, 12):
    REFUSED = {name: refused for name, refused in REFUSED.items() if name not in ("later", "quotes_within")}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A project with one file that can be migrated, and the reason for each other file."""
    folder = tmp_path_factory.mktemp("refused") / "project"
    folder.mkdir()
    (folder / "good.py").write_text(IMPORT + PLACE)
    for name, (code, _) in REFUSED.items():
        (folder / f"{name}.py").write_bytes(IMPORT.encode() + code + PLACE.encode())
    for name, (code, _) in WHOLE.items():
        (folder / f"{name}.py").write_bytes(code)
    with (folder / "large.py").open("wb") as large:
        large.write((IMPORT + PLACE).encode())
        large.truncate(LARGEST_PYTHON + 1)
    reasons = {f"{name}.py": reason for name, (_, reason) in {**REFUSED, **WHOLE}.items()}
    return folder, reasons | {"large.py": "it was not looked at: it is larger than 4 MB, the limit for a Python file"}


def unlike(found: Mapping[str, str], reasons: Mapping[str, str]) -> dict[str, str]:
    return {path: found.get(path, "") for path in reasons if reasons[path] not in found.get(path, "")}


def test_what_is_refused_is_copied_and_listed(refused: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    project, reasons = refused
    outcome, copy = migrate_project(project, Settings("2.1.0", jobs=1), Output(tmp_path))
    found = {file.path: file.failure for file in outcome.files if file.failure}
    found |= {note.path: note.reason for note in outcome.notes if note.failed}
    assert unlike(found, reasons) == {} and found.keys() == reasons.keys()
    assert not outcome.complete
    assert all((copy / path).read_bytes() == (project / path).read_bytes() for path in reasons)
    assert "torch.npu.synchronize()" in (copy / "good.py").read_text()


def test_what_is_refused_fails_a_check_and_an_analysis(refused: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    project, reasons = refused
    result, _ = check_project((project,), Settings("2.1.0", jobs=1))
    found = {path.rpartition("/")[2]: reason for path, reason in result.failures}
    assert unlike(found, reasons) == {} and found.keys() == reasons.keys()
    request = project, Settings("2.1.0", jobs=1), Output(tmp_path)
    _, notes, _ = analyse_project(*request, AnalysisChoice(("torch_apis",)))
    assert unlike({note.path: note.reason for note in notes if note.failed}, reasons) == {}


@pytest.mark.parametrize(("name", "fails"), [("a.py", True), ("a.ipynb", True), ("data.json", False)])
def test_a_file_of_gigabytes_is_not_read(tmp_path: Path, name: str, fails: bool) -> None:
    with (tmp_path / name).open("wb") as large:
        large.truncate(2**36)  # more than there is memory
    contents, (note,) = read_files(tmp_path, [name])
    assert contents == {} and note.failed == fails
    assert f"larger than {(LARGEST_PYTHON if name == 'a.py' else LARGEST_OTHER) // 1_000_000} MB" in note.reason
