import dataclasses
import json
import os
import random
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.engine.context import ProjectContext
from gpu2npu.project import session
from gpu2npu.project.cache.folder import program_facts, prune
from gpu2npu.project.cache.traced import Dependencies
from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.python.project.project import EVERY_FILE, Project
from gpu2npu.report.check.result import CheckResult

# Files whose answers depend on one another: what `cuda` and `Kit` mean in main.py stands elsewhere.
FILES = {
    "main.py": (
        "from lib import cuda, Kit, helper\nfrom lib.more import *\n\n\ndef f(kit: Kit):\n    kit.cuda()\n"
        "    cuda.synchronize()\n    gpu.nvtx.mark('x')\n    helper(device='cuda')\n    x = make()\n    x.cuda()\n"
    ),
    "lib/__init__.py": "from .one import cuda, helper\nfrom .kit import Kit\n",
    "lib/one.py": "from torch import cuda\ndef helper(device): return device\n",
    "lib/kit.py": "class Kit:\n    def cuda(self): return self\n",
    "lib/more.py": "from torch import cuda as gpu\nfrom .make import make\n",
    "lib/make.py": "import torch\ndef make(): return torch.zeros(1)\n",
    "alone.py": "import torch\ntorch.cuda.nvtx.mark('x')\n",
}
# Each edit changes what another file means.
VARIANTS = {
    "lib/one.py": ["cuda = object()\ndef helper(device): return device\n", FILES["lib/one.py"]],
    "lib/kit.py": ["import torch\nclass Kit(torch.nn.Module): pass\n", "class Kit: pass\n", FILES["lib/kit.py"]],
    "lib/more.py": ["gpu = 1\nfrom .make import make\n", "from .make import *\n", FILES["lib/more.py"]],
    "lib/make.py": ["from .kit import Kit\ndef make(): return Kit()\n", "make = 1\n", FILES["lib/make.py"]],
    "lib/__init__.py": ["from .kit import *\ncuda = helper = None\n", FILES["lib/__init__.py"]],
    "alone.py": ["def cuda(): pass\n", FILES["alone.py"]],
    "new.py": ["import torch\nclass New:\n    def cuda(self): pass\n", "from lib import cuda\n"],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "proj" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "proj"


def check(project: Path, cache: bool = True, **options: object) -> CheckResult:
    folder = project.parent / "cache" if cache else None
    options.setdefault("version", "2.7.1")
    choice = CheckChoice(cache=folder, diffs=options.pop("diffs", False))  # type: ignore[arg-type]
    return check_project((project,), Settings(jobs=1, **options), choice)[0].anonymous()  # type: ignore[arg-type]


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the engine is asked about from now on."""
    found: list[str] = []
    migrate = session.migrate_files

    def recording(migrator, sources, *arguments, **options):
        found.extend(sources)
        return migrate(migrator, sources, *arguments, **options)

    monkeypatch.setattr(session, "migrate_files", recording)
    return found


def test_a_second_check_asks_nothing_and_says_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = looked_at(monkeypatch)
    first = check(project)
    assert len(asked) > 3
    asked.clear()
    assert check(project) == first
    assert asked == []
    assert check(project, cache=False) == first


@pytest.mark.parametrize("seed", range(3))
def test_any_edits_give_the_same_answer_with_and_without_the_cache(project: Path, seed: int) -> None:
    chance = random.Random(seed)
    check(project)
    for _ in range(6):
        name = chance.choice(sorted(VARIANTS))
        (project / name).write_text(chance.choice(VARIANTS[name]))
        assert check(project) == check(project, cache=False)


def test_an_edit_that_others_import_from_reaches_them(project: Path) -> None:
    before = check(project)
    (project / "lib/more.py").write_text(VARIANTS["lib/more.py"][0])
    after = check(project)
    assert after == check(project, cache=False)
    changes = [{file.path: file.changes for file in result.files}["main.py"] for result in (before, after)]
    assert len(changes[0]) > len(changes[1])


def test_the_first_file_of_a_project_that_names_torch_reaches_the_others(tmp_path: Path) -> None:
    project = tmp_path / "proj"
    project.mkdir()
    (project / "main.py").write_text("from lib import th\nth.sspaddmm(1, 2, 3)\n")
    (project / "lib.py").write_text("th = None\n")
    assert not any(file.findings for file in check(project).files)
    (project / "lib.py").write_text("import torch as th\n")
    after = check(project)
    assert after == check(project, cache=False)
    assert {file.path: bool(file.findings) for file in after.files}["main.py"]


def test_files_of_other_kinds_and_native_code_are_part_of_what_is_kept(project: Path) -> None:
    contents = {"requirements.txt": "torch==2.7.1\n", "kernel.cu": "__global__ void f() {}\n", "run.sh": "echo\n"}
    for name, text in contents.items():
        check(project)
        (project / name).write_text(text)
        before = check(project)
        assert before == check(project, cache=False)
        (project / name).write_text("export CUDA_VISIBLE_DEVICES=0\n")
        after = check(project)
        assert after == check(project, cache=False) != before
        (project / name).unlink()
        assert check(project) == check(project, cache=False) != before


def test_excluded_files_and_diffs_are_part_of_what_is_kept(project: Path) -> None:
    for options in ({}, {"exclude": ("main.py",)}, {"diffs": True}, {"chips": ("910A",)}):
        assert check(project, **options) == check(project, cache=False, **options)


def test_only_what_may_have_changed_is_looked_at(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    asked = looked_at(monkeypatch)
    (project / "alone.py").write_text("import torch\ntorch.cuda.nvtx.mark('y')\n")
    check(project)
    assert not {"lib/make.py", "lib/kit.py"} & {*asked}
    assert {"alone.py", "lib/one.py"} <= {*asked}  # any file may take `cuda` from one.py


def test_another_release_or_rule_file_is_another_entry(project: Path) -> None:
    check(project)
    assert check(project, version="2.1.0") == check(project, cache=False, version="2.1.0")
    rules = project.parent / "rules.json"
    for word in ("first", "second"):
        document = {
            "rules": [
                {
                    "id": "own",
                    "why": word,
                    "match": {"name": "torch.zeros"},
                    "then": {"report": {"kind": "review", "message": word}},
                    "examples": [{"keep": "import torch\ntorch.zeros(1)\n", "reports": "review"}],
                }
            ]
        }
        rules.write_text(json.dumps(document))
        messages = {found.finding.message for _, found in check(project, rules=(rules,)).reported()}
        assert word in messages


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"depends": {}, "diff": "", "changes": [[]], "findings": []}'])
def test_damaged_entries_are_ignored_and_written_anew(
    project: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = check(project)
    entries = list((project.parent / "cache").rglob("*.json"))
    for entry in entries:
        entry.write_bytes(damage)
    assert check(project) == first
    asked = looked_at(monkeypatch)
    assert check(project) == first
    assert asked == []


def test_a_cache_that_cannot_be_written_is_no_error(project: Path) -> None:
    (project.parent / "cache").write_bytes(b"a file is in the way")
    assert check(project) == check(project, cache=False)


def test_runs_at_the_same_time_do_not_disturb_each_other(project: Path) -> None:
    results: list[CheckResult] = []
    path = list(sys.path)
    threads = [threading.Thread(target=lambda: results.append(check(project))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.path == path
    assert results == [check(project, cache=False)] * 3
    assert [each for each in (project.parent / "cache").rglob("*") if each.name.startswith(".")] == []


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    for number in range(10):
        entry = tmp_path / "ab" / f"{number}.json"
        entry.parent.mkdir(exist_ok=True)
        entry.write_bytes(b"x" * 100)
        os.utime(entry, (number, number))
    prune(tmp_path, largest=2_000)
    assert len(list(tmp_path.rglob("*.json"))) == 10
    prune(tmp_path, largest=500)
    assert len(list(tmp_path.rglob("*.json"))) == 10  # it looked a moment ago
    (tmp_path / "pruned").unlink()
    prune(tmp_path, largest=500)
    assert sorted(path.stem for path in tmp_path.rglob("*.json")) == ["6", "7", "8", "9"]


def test_another_parser_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts_with(version: str) -> list[object]:
        site = tmp_path / version
        (site / "libcst").mkdir(parents=True)
        (site / "libcst/__init__.py").touch()
        (site / f"libcst-{version}.dist-info").mkdir()
        monkeypatch.delitem(sys.modules, "libcst", raising=False)
        monkeypatch.syspath_prepend(str(site))
        return program_facts.__wrapped__()

    assert program_facts.__wrapped__() == program_facts.__wrapped__()
    assert facts_with("1.8.0") != facts_with("1.9.0")


def test_every_fact_that_an_answer_may_depend_on_is_in_the_key() -> None:
    """A new field of the context has to be looked at: does an answer depend on it?"""
    kept = {"version", "files", "own_members", "other_names", "folders", "uses_device", "has_plugin", "imported"}
    found_again = {"read", "root", "project"}
    assert {field.name for field in dataclasses.fields(ProjectContext)} == kept | found_again


def test_what_a_file_leads_to() -> None:
    paths = ["a", "b", "c", "j", "nothing", "x", "y"]

    def leads_to(path: str, *graphs: dict[str, set[str]]) -> set[str] | int:
        bits = Dependencies(paths, graphs).of(path)
        return bits if bits == -1 else {other for place, other in enumerate(paths) if bits >> place & 1}

    graph = {"a": {"b"}, "b": {"c", "a"}, "x": {"y"}, "j": {EVERY_FILE, "a"}}
    assert leads_to("a", graph) == {"b", "c"}
    assert leads_to("a", graph, {"c": {"x"}}) == {"b", "c", "x", "y"}
    assert leads_to("j", graph) == -1
    assert leads_to("nothing", graph) == set()


def test_what_a_file_leads_to_grows() -> None:
    graph = {"a": {"b"}}
    dependencies = Dependencies(["a", "b", "c"], [graph])
    assert dependencies.of("a") == 0b010
    graph["b"] = {"c"}
    graph["a"].add("a")
    assert dependencies.of("a") == 0b110


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.one_of(st.just(EVERY_FILE), st.sampled_from("abcdef")), st.integers(0, 5)),
        max_size=20,
    )
)
def test_what_a_file_leads_to_is_the_same_however_the_graph_grew(steps: list[tuple[int, str, int]]) -> None:
    paths = list("abcdef")
    project = Project()
    graph = project.consulted
    dependencies, by_growth = Dependencies(paths, [graph]), Dependencies(paths, [graph], project.grown)
    for asker, asked, path in steps:
        project.consult(paths[asker], asked)
        expected = Dependencies(paths, [graph]).of(paths[path])
        assert (dependencies.of(paths[path]), by_growth.of(paths[path])) == (expected, expected)


def test_what_leads_to_other_files_need_be_no_file_of_python() -> None:
    dependencies = Dependencies(["a.py", "b.py"], [{"look.ipynb": {"a.py"}, "a.py": {"b.py"}}])
    assert dependencies.of("look.ipynb") == 0b11
    assert dependencies.of("train.yaml") == 0
    assert dependencies.of("a.py") == 0b10


@pytest.mark.parametrize("damage", [b"[]", b"{", b'[["main.py", "0"]]'])
def test_a_damaged_snapshot_proves_nothing(project: Path, damage: bytes) -> None:
    check(project)
    for entry in (project.parent / "cache").rglob("*.json"):
        if isinstance(json.loads(entry.read_bytes()), list):
            entry.write_bytes(damage)
    (project / "lib/more.py").write_text(VARIANTS["lib/more.py"][0])
    assert check(project) == check(project, cache=False)
