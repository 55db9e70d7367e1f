import dataclasses
import json
import random
import sqlite3
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gpu2npu.engine.context import ProjectContext
from gpu2npu.project import migrator, session
from gpu2npu.project.cache.store import Store
from gpu2npu.project.check.choice import CheckChoice
from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.report.check.result import CheckResult

# Files whose answers depend on one another: what `cuda` and `Kit` mean in main.py is elsewhere.
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
    "settings.json": '{"device": "cuda", "kinds": {"cuda": 1}}\n',
    "reader.py": "import json\nimport torch\nread = json.load(open('settings.json'))\n"
    "x = torch.ones(1, device=read['device'])\nn = [n for kind, n in read['kinds'].items() if kind == 'cuda']\n",
}
# Each edit changes what another file means.
VARIANTS = {
    "lib/one.py": ["cuda = object()\ndef helper(device): return device\n", FILES["lib/one.py"]],
    "lib/kit.py": ["import torch\nclass Kit(torch.nn.Module): pass\n", "class Kit: pass\n", FILES["lib/kit.py"]],
    "lib/more.py": ["gpu = 1\nfrom .make import make\n", "from .make import *\n", FILES["lib/more.py"]],
    "lib/make.py": ["from .kit import Kit\ndef make(): return Kit()\n", "make = 1\n", FILES["lib/make.py"]],
    "lib/__init__.py": ["from .kit import *\ncuda = helper = None\n", FILES["lib/__init__.py"]],
    "alone.py": ["def cuda(): pass\n", FILES["alone.py"]],
    "settings.json": ['{"device": "cuda", "kinds": {"cpu": 1}}\n', '{"device": "cuda"}\n', FILES["settings.json"]],
    "reader.py": ["read = None\n", "import json\nread = json.load(open('settings.json'))\n", FILES["reader.py"]],
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
    result, _ = check_project((project,), Settings(jobs=1, **options), choice)  # type: ignore[arg-type]
    return replace(result, root="", shown_root="", seconds=0.0)  # what differs from run to run


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the engine is asked about from now on."""
    found: list[str] = []
    migrate = session.migrate_files

    def recording(migrator, sources, *arguments, **options):
        found.extend(sources)
        return migrate(migrator, sources, *arguments, **options)

    monkeypatch.setattr(session, "migrate_files", recording)
    return found


def test_a_second_check_looks_at_nothing_and_reports_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examined = looked_at(monkeypatch)
    first = check(project)
    assert len(examined) > 3
    examined.clear()
    assert check(project) == first
    assert examined == []
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


def test_files_of_other_kinds_and_native_code_are_part_of_what_is_stored(project: Path) -> None:
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


def test_excluded_files_and_diffs_are_part_of_what_is_stored(project: Path) -> None:
    for options in ({}, {"exclude": ("main.py",)}, {"diffs": True}, {"chips": ("910A",)}):
        assert check(project, **options) == check(project, cache=False, **options)


def test_only_what_may_have_changed_is_looked_at(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    examined = looked_at(monkeypatch)
    (project / "alone.py").write_text("import torch\ntorch.cuda.nvtx.mark('y')\n")
    check(project)
    assert not {"lib/make.py", "lib/kit.py"} & {*examined}
    assert {"alone.py", "lib/one.py"} <= {*examined}  # any file may take `cuda` from one.py


def test_a_comment_reaches_no_other_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    examined = looked_at(monkeypatch)
    (project / "lib/one.py").write_text(FILES["lib/one.py"] + "# cuda\n")
    check(project)
    assert examined == ["lib/one.py"]


def test_a_file_of_data_that_changed_reaches_its_readers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = check(project)
    examined = looked_at(monkeypatch)
    (project / "settings.json").write_text(VARIANTS["settings.json"][0])
    after = check(project)
    assert "reader.py" in examined and not {"lib/make.py", "lib/kit.py"} & {*examined}
    assert after == check(project, cache=False) != before


@pytest.mark.parametrize(
    ("path", "text", "is_known"),
    [
        ("lib/one.py", FILES["lib/one.py"] + "# cuda\n", True),
        ("reader.py", FILES["reader.py"].replace("settings", "others"), False),
        ("settings.json", VARIANTS["settings.json"][0], False),
    ],
)
def test_who_reads_a_device_from_a_file_is_found_once(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: str, text: str, is_known: bool
) -> None:
    check(project, version="2.1.0")
    found: list[object] = []
    find = migrator.device_readers
    monkeypatch.setattr(migrator, "device_readers", lambda *given: found.append(given) or find(*given))
    (project / path).write_text(text)
    after = check(project, version="2.1.0")
    assert bool(found) != is_known
    assert after == check(project, cache=False, version="2.1.0")


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


def change_records(project: Path, statement: str, *values: object) -> int:
    """Execute a statement in the file of the cache; return how many records it was for."""
    with sqlite3.connect(Store(project.parent / "cache").file) as connection:
        changed = connection.execute(statement, values).rowcount
    connection.close()
    return changed


def is_snapshot(content: bytes) -> bool:
    return "alone.py" in msgspec.msgpack.decode(content)


@pytest.mark.parametrize("damage", [b"", b"{", msgspec.msgpack.encode([]), msgspec.msgpack.encode({"depends": {}}), 7])
def test_damaged_records_are_ignored_and_written_anew(
    project: Path, damage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = check(project)
    assert change_records(project, "UPDATE records SET content = ?", damage) > 5
    assert check(project) == first
    examined = looked_at(monkeypatch)
    assert check(project) == first
    assert examined == []


def test_answers_that_depend_on_files_hold_only_with_their_snapshot(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(project)
    (project / "alone.py").write_text("import torch\ntorch.cuda.nvtx.mark('y')\n")
    with sqlite3.connect(Store(project.parent / "cache").file) as connection:
        snapshots = [
            name for name, content in connection.execute("SELECT name, content FROM records") if is_snapshot(content)
        ]
        assert len(snapshots) == 1
        connection.execute("DELETE FROM records WHERE name = ?", snapshots)
    connection.close()
    examined = looked_at(monkeypatch)
    assert check(project) == check(project, cache=False)
    assert "main.py" in examined


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
    assert [each.name for each in (project.parent / "cache").iterdir()] == ["answers.sqlite"]


def test_every_fact_that_an_answer_may_depend_on_is_in_the_key() -> None:
    """A new field of the context has to be looked at: does an answer depend on it?"""
    in_key = {"version", "files", "project_members", "other_names", "folders", "uses_device", "has_plugin", "imported"}
    in_key |= {"data", "writes"}  # of which the second is what `diffs` asks for
    found_again = {"read", "root", "project", "facts"}
    assert {field.name for field in dataclasses.fields(ProjectContext)} == in_key | found_again


def test_a_comment_that_names_an_enum_is_no_use_of_it(tmp_path: Path) -> None:
    project = tmp_path / "proj"
    project.mkdir()
    kinds = "import enum\nclass Device(str, enum.Enum):\n    CPU = 'cpu'\n    CUDA = 'cuda'\n"
    (project / "a.py").write_text(f"{kinds}def go(m, d: Device): return m.to(d.value)\n")
    (project / "b.py").write_text("def pick(x):\n    # see\n    return x == 'cuda'\n")
    check(project)
    (project / "b.py").write_text("def pick(x):\n    # Device\n    return x == 'cuda'\n")
    assert check(project) == check(project, cache=False)


@pytest.mark.parametrize(
    ("a", "b", "before", "after"),
    [
        (
            "from b import make\ndef f(r):\n    x = make(r, 'k')\n    x.cuda()\n",
            "import torch\nclass Net(torch.nn.Module): pass\nclass Own:\n    def cuda(self): pass\n"
            "def make(reg, k):\n    # type: (dict, str) -> Net\n    return reg[k]\n",
            "Net\n",
            "Own\n",
        ),
        (
            "from torch import cuda\nprint(cuda.is_available())\n",
            "import importlib\nm = importlib.import_module('a')  # x\n",
            "# x",
            "# cuda",
        ),
    ],
)
def test_what_a_comment_decides_is_the_same_with_and_without_the_cache(
    tmp_path: Path, a: str, b: str, before: str, after: str
) -> None:
    project = tmp_path / "proj"
    project.mkdir()
    (project / "a.py").write_text(a)
    (project / "b.py").write_text(b)
    check(project)
    (project / "b.py").write_text(b.replace(before, after))
    assert check(project) == check(project, cache=False)


MOVE = "import torch\n\n\ndef move(xs, device):\n    return map(lambda x: x.to(device), xs)\n"
MOVED = "import torch\nfrom main import move\n\n\ndef f(x, xs):\n    move(xs, {})\n"


@pytest.mark.parametrize(
    ("main", "before", "after"),
    [
        (
            "class Config:\n    device = 'cuda'\n",
            "from main import Config\nprint(Config.device)\n",
            "from main import Config\nif Config.device == 'CUDA':\n    print()\n",
        ),
        (
            "import accelerate\nif str(accelerate.state) == 'MULTI_GPU':\n    print()\n",
            "import torch\n",
            "import torch\nKINDS = ['MULTI_NPU']\n",
        ),
        (MOVE, MOVED.format("x.device"), MOVED.format("torch.cuda.current_device()")),
        ("def move(batch):\n    return batch.cuda()\n", "import main\n", "import main\nimport torch_geometric\n"),
        (
            "class Config:\n    device = 'cuda'\n",
            "import main\nkind = 'CUDA'\n",
            "import main\nkind = 'CUDA'\nif main.Config.device == kind:\n    print(1)\n",
        ),
        (
            "import numpy\nkind = numpy.bool\n",
            "import numpy\nrows = 3\n",
            "import numpy\nrows = 3\nnumpy.bool = bool\n",
        ),
        (
            "import torch\ndef f(o):\n    o.place(torch.ones(1), 'cuda')\n",
            "class A:\n    def place(self, x, y): ...\n",
            "class A:\n    def place(self, x, device): ...\n",
        ),
    ],
    ids=["in-capitals", "npu-member", "current-device", "joined", "imported", "assigned", "method"],
)
def test_a_name_that_appears_in_any_file_reaches_the_answers_it_decides(
    tmp_path: Path, main: str, before: str, after: str
) -> None:
    """No import leads from main.py to the other file, and a third one has the same imports before and after."""
    project = tmp_path / "proj"
    project.mkdir()
    third = "import torch\nimport torch_geometric\n\ntorch.ones(1).cuda()\n"
    for name, text in {"main.py": main, "other.py": before, "third.py": third}.items():
        (project / name).write_text(text)
    first = check(project, version="2.1.0")
    (project / "other.py").write_text(after)
    second = check(project, version="2.1.0")
    assert second == check(project, cache=False, version="2.1.0")
    assert {file.path: file for file in second.files}["main.py"] != {file.path: file for file in first.files}["main.py"]


def test_a_name_that_no_answer_depends_on_reaches_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "proj"
    project.mkdir()
    member = "import accelerate\nif str(accelerate.state) == 'MULTI_GPU':\n    print()\n"
    device = "import torch\n\n\ndef make(place='cuda'):\n    return torch.ones(1, device=place)\n"
    placed = "import torch\n\n\ndef place(o, x):\n    o.place_on(x, 'cuda')\n"
    texts = {"a.py": member, "b.py": device, "c.py": placed, "other.py": "import torch\nrows = 7\n"}
    for name, text in texts.items():
        (project / name).write_text(text)
    check(project)
    examined = looked_at(monkeypatch)
    (project / "other.py").write_text("import torch\nrows = 7\nclass A:\n    def f(self, x): ...\n")
    check(project)
    assert examined == ["other.py"]
    (project / "other.py").write_text("import torch\nrows = 7\nmake = 'MULTI_NPU'\n")
    check(project)
    assert examined == ["other.py", "a.py", "other.py"]
