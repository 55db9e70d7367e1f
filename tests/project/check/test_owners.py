"""The owners of a repository, and what the last run said of it."""

import json
from pathlib import Path

import pytest

from gpu2npu.project.check.repositories import owner_of, read_last_run
from gpu2npu.project.errors import UsageError
from gpu2npu.records import Severity
from gpu2npu.report.check.json import repository_line
from gpu2npu.report.check.result import CheckedRepository, Effort, Readiness, Reason, Verdict
from gpu2npu.report.check.rollup import LastRun


def config(url: str) -> str:
    return f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*\n'


@pytest.mark.parametrize(
    ("files", "owner"),
    [
        ({}, ""),
        ({"CODEOWNERS": "# all\n* @org/team @b # ours\n/docs/ @writers\n"}, "@org/team"),
        ({"CODEOWNERS": "* @first\n* @second\n"}, "@second"),
        ({"docs/CODEOWNERS": "/docs/ @writers\n", ".git/config": config("git@host:org/name.git")}, "org"),
        ({".github/CODEOWNERS": "* @a\n", "CODEOWNERS": "* @b\n"}, "@a"),
        ({".git/config": config("https://host/group/sub/name")}, "group/sub"),
        ({".git/config": config("ssh://git@host:22/org/name.git")}, "org"),
        ({".git/config": config("/srv/name")}, ""),
        ({".git": "gitdir: ../x\n"}, ""),
    ],
)
def test_whose_a_repository_is(tmp_path: Path, files: dict[str, str], owner: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert owner_of(tmp_path) == owner


def test_the_last_run_is_read_from_what_a_run_writes(tmp_path: Path) -> None:
    readiness = Readiness(Verdict.BLOCKED, 1, 0, 3, Effort((Reason("r", 1, 1.0, 10.0, "b"),)))
    done = (
        CheckedRepository("/r/one", "one", readiness=readiness, severities=((Severity.BLOCKER, 3),)),
        CheckedRepository("/r/two", "two", error="gone"),
    )
    file = tmp_path / "last.jsonl"
    file.write_text("".join(f"{repository_line(each)}\n" for each in done) + "\n")
    assert read_last_run(file) == {"/r/one": LastRun("blocked", 3, 10.0), "/r/two": LastRun("", 0, 0.0)}


@pytest.mark.parametrize("line", ["{", "[]", "{}", json.dumps({"format": 1}), "\udcff"])
def test_a_file_that_is_no_run_is_refused_in_a_sentence(tmp_path: Path, line: str) -> None:
    file = tmp_path / "last.jsonl"
    file.write_bytes(line.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"^(Line 1 of|The last run) '.*last.jsonl'"):
        read_last_run(file)
