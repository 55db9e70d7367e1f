import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpu2npu.report.diff import unified_diff

LINE = st.sampled_from([b"a", b"b", b"", b"--- x", b"@@", b"\\ No", b"\tx = '\xe4\xbd'", b"y\x0c\x0b\x85", b"\x00"])
CONTENT = st.builds(
    lambda lines, end, final: end.join(lines) + (end if final else b""),
    st.lists(LINE),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.booleans(),
)


def apply(tool: list[str], folder: Path, path: str, before: bytes, diff: bytes) -> bytes:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(before)
    done = subprocess.run(tool, input=diff, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + diff
    return target.read_bytes()


GIT = ["git", "apply", "--whitespace=nowarn", "-"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(CONTENT, CONTENT)
@example(b"x", b"x\n")
@example(b"x\r\n", b"x\n")
@example(b"", b"x")
@example(b"a\n" * 30, b"a\n" * 10 + b"b\n" + b"a\n" * 25)
def test_git_turns_the_source_into_the_migrated_bytes(tmp_path: Path, before: bytes, after: bytes) -> None:
    diff = unified_diff("m.py", before, after)
    if before == after:
        assert diff == b""
    else:
        assert apply(GIT, tmp_path, "m.py", before, diff) == after


@pytest.mark.parametrize(
    "path", ["deep/er/m.py", "with space.py", "caf\u00e9 \u6a21.py", 'quo"te\\.py', "tab\t.py", "caf\udce9.py"]
)
def test_paths(tmp_path: Path, path: str) -> None:
    assert apply(GIT, tmp_path, path, b"a\n", unified_diff(path, b"a\n", b"b\n")) == b"b\n"


def test_the_format() -> None:
    before = b"".join(b"%d\n" % number for number in range(1, 21))
    after = before.replace(b"10\n", b"ten\n")
    assert unified_diff("a.py", before, after) == (
        b"--- a/a.py\n+++ b/a.py\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
    )


def test_a_blank_line_between_two_changes_is_no_change() -> None:
    before = b"".join(b"a%d\n\n" % number for number in range(150))
    diff = unified_diff("a.py", before, before.replace(b"a71\n\na72\n", b"b71\n\nb72\n"))
    assert b"-a71\n+b71\n \n-a72\n+b72\n" in diff


def test_lines_that_are_frequent_are_not_compared_with_each_other(monkeypatch) -> None:
    chosen = []
    matcher = difflib.SequenceMatcher
    monkeypatch.setattr(difflib, "SequenceMatcher", lambda *given, **how: chosen.append(how) or matcher(*given, **how))
    for lines in (b"a\n" * 1000, b"".join(b"%d\n" % number for number in range(1000))):
        unified_diff("a.py", lines, lines + b"b\n")
    assert chosen == [{"autojunk": True}, {"autojunk": False}]


def test_a_missing_final_newline_is_reported() -> None:
    assert unified_diff("a.py", b"x", b"y") == (
        b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
    )


def test_hunks_say_in_which_part_they_differ() -> None:
    before = b"".join(b"%d\n" % number for number in range(40))
    after = before.replace(b"\n12\n", b"\nx\n").replace(b"\n30\n", b"\ny\n")
    diff = unified_diff("a.ipynb", before, after, [(5, "cell 1"), (13, "cell 2"), (35, "cell 3")])
    headers = [line for line in diff.split(b"\n") if line.startswith(b"@@")]
    assert headers == [b"@@ -10,7 +10,7 @@ cell 2", b"@@ -28,7 +28,7 @@ cell 2"]
    assert b"@@ -10,7 +10,7 @@\n" in unified_diff("a", before, after)
