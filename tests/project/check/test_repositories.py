import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu2npu.project.check.choice import DEFAULT_CHOICE
from gpu2npu.project.check.repositories import RepositoryTask, check_repositories, check_repository, read_repositories
from gpu2npu.project.errors import UsageError
from gpu2npu.project.settings import Settings
from gpu2npu.records import FindingKind
from gpu2npu.report.check.json import repository_line
from gpu2npu.report.check.result import CheckedRepository, Verdict

SOURCE = "import torch\ntorch.cuda.jiterator._create_jit_fn('x')\nx = torch.zeros(1).cuda()\n"


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, ...]:
    for name, text in (("one", SOURCE), ("two", "import os\n"), ("broken", "def f(:\n    torch.cuda")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.py").write_text(text)
    (tmp_path / "empty").mkdir()
    return tuple(str(tmp_path / name) for name in ("one", "two", "broken", "empty", "nowhere"))


def check_all(paths: tuple[str, ...]) -> dict[str, CheckedRepository]:
    with ThreadPoolExecutor(2) as executor:
        done = check_repositories(paths, Settings("2.7.1"), jobs=2, executor=executor)
        return {repository.name: repository for repository in done}


def test_each_repository_is_summed_up_and_none_stops_the_others(paths: tuple[str, ...]) -> None:
    done = check_all(paths)
    assert set(done) == {"one", "two", "broken", "empty", "nowhere"}
    one = done["one"]
    assert (one.error, one.files, one.lines, one.changes, one.failures) == (None, 1, 3, 2, 0)
    assert dict(one.counts)[FindingKind.UNSUPPORTED] == 1
    assert one.readiness is not None and one.readiness.verdict is Verdict.BLOCKED
    assert done["two"].readiness is not None and done["two"].readiness.verdict is Verdict.NO_CUDA
    assert done["broken"].failures == 1
    assert "no Python file" in str(done["empty"].error)
    assert "does not exist" in str(done["nowhere"].error)


def test_a_record_is_one_line_of_json(paths: tuple[str, ...]) -> None:
    odd = replace(check_all(paths)["one"], path="a\nb\udcff", error="x\u2028y")
    line = repository_line(odd)
    assert line.isascii() and "\n" not in line
    document = json.loads(line)
    assert document["path"] == "a\nb\udcff"
    assert document["counts"]["unsupported"] == 1


def test_a_worker_of_another_version_refuses(paths: tuple[str, ...]) -> None:
    task = RepositoryTask(paths[0], Settings("2.7.1"), DEFAULT_CHOICE, program="0.0.1")
    assert "install the same version" in str(check_repository(task).error)


def test_the_list(tmp_path: Path) -> None:
    listed = tmp_path / "repos.txt"
    listed.write_bytes(b"\xef\xbb\xbf# ours\n\none\n /abs/two \r\none\nodd\xff\n")
    assert read_repositories(listed) == (f"{tmp_path}/one", "/abs/two", f"{tmp_path}/odd\udcff")
    listed.write_bytes(b"# nothing\n")
    with pytest.raises(UsageError, match="names none"):
        read_repositories(listed)


def test_the_command_prints_a_line_for_each(paths: tuple[str, ...], tmp_path: Path) -> None:
    """In processes of its own, one of which a repository kills."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, gpu2npu.project.check.session as check\n"
        "real = check.check_project\n"
        "def check_project(sources, *rest):\n"
        "    if sources[0].name == 'two': os.kill(os.getpid(), 9)\n"
        "    return real(sources, *rest)\n"
        "check.check_project = check_project\n"
    )
    (tmp_path / "repos.txt").write_text("\n".join(paths))
    command = [
        sys.executable,
        "-m",
        "gpu2npu",
        "check",
        "--repos",
        str(tmp_path / "repos.txt"),
        "-j",
        "2",
        "-v",
        "2.7.1",
    ]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.stderr == ""
    assert done.returncode == 1
    lines = {line["project"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert set(lines) == {"one", "two", "broken", "empty", "nowhere"}
    assert "ended unexpectedly" in lines["two"]["error"]
    assert lines["one"]["error"] is None
    assert lines["one"]["readiness"]["verdict"] == "blocked"
