import dataclasses
import errno
from pathlib import Path
from typing import ClassVar

import pytest

from gpu2npu.project.analyse import AnalysisChoice, analyse_project
from gpu2npu.project.errors import OutputError, UsageError
from gpu2npu.project.location import Output
from gpu2npu.project.migration import migrate_project, preview_project
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.records import Change, MigratedFile, Operation, Outcome, PathNote, Span
from gpu2npu.report.launcher import LAUNCHER_NAME, MULTI_CARD
from gpu2npu.report.tables import HEADERS


@dataclasses.dataclass(frozen=True)
class CudaToNpu:
    """A migrator of one rule: the word cuda becomes npu; a file with "broken" fails."""

    new_files: ClassVar[dict[str, bytes]] = {}

    def concerns(self, source: bytes, path: str) -> bool:
        return b"cuda" in source or (b"broken" in source and path.endswith(".py"))

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        if b"broken" in source:
            return MigratedFile(path, failure="syntax error at line 1")
        change = Change(Span(1, 0, 1, 4), "word", Operation.MODIFY, "m", "cuda", "npu")
        traits = frozenset({MULTI_CARD} if b"nccl" in source else ())
        return MigratedFile(path, source.replace(b"cuda", b"npu"), (change,), traits=traits)


def prepare(session: Session) -> CudaToNpu:
    return CudaToNpu()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "train.py": b"x.cuda()\r\n",
        "pkg/plain.py": b"import os\n",
        "pkg/bad.py": b"broken",
        "data/table.csv": b"1,2\n",
        "csrc/ops.cpp": b'PYBIND11_MODULE(ops, m) { m.def("nms", &nms); }',
        ".git/HEAD": b"ref",
    }
    for name, content in files.items():
        path = tmp_path / "proj" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "proj"


def migrate(project: Path, **options: object) -> tuple[Outcome, Path]:
    given = {name: options.pop(name) for name in ("force", "log_level", "command") if name in options}
    output = Output(options.pop("output", project.parent / "out"), **given)  # type: ignore[arg-type]
    return migrate_project(project, Settings("2.1.0", **options), output, prepare=prepare)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REPORTS = {*HEADERS, "msFmkTranspltlog.txt"}


def test_the_output_mirrors_the_project(project: Path) -> None:
    before = contents(project)
    outcome, folder = migrate(project)
    assert folder == project.parent / "out" / "proj_msft"
    written = contents(folder)
    assert {name: written[name] for name in written if name not in REPORTS} == {
        "train.py": b"x.npu()\r\n",
        "pkg/plain.py": b"import os\n",
        "pkg/bad.py": b"broken",
        "data/table.csv": b"1,2\n",
        "csrc/ops.cpp": before["csrc/ops.cpp"],
    }
    assert set(written) > REPORTS
    assert written["cuda_op_list.csv"] == b"File,Api,Line,Kind,Called From\r\ncsrc/ops.cpp,ops.nms,1,operator,\r\n"
    assert b"train.py,1,1,MODIFY,m,word,cuda,npu" in written["change_list.csv"]
    assert (
        b"pkg/bad.py: copied as it is, because it could not be migrated: syntax error"
        in written["msFmkTranspltlog.txt"]
    )
    assert not outcome.complete
    assert outcome.copied == ("csrc/ops.cpp", "data/table.csv")
    assert contents(project) == before


def test_the_table_of_cuda_code_is_that_of_an_analysis(project: Path) -> None:
    """With kernels, launches, what builds them and who calls them; without what is excluded."""
    kernel = b"__global__ void scan(int* x) {}\nvoid run(int* x) { scan<<<1, 2>>>(x); }\n"
    for path in ("csrc/scan.cu", "old/scan.cu"):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_bytes(kernel)
    (project / "CMakeLists.txt").write_bytes(b"enable_language(CUDA)\n")
    (project / "build.py").write_bytes(b"SOURCES = ['csrc/scan.cu']\n")
    (project / "use.py").write_bytes(b"import ops\nx.cuda()\nops.nms(x)\n")
    _, folder = migrate(project, exclude=("old/*",))
    request = project, Settings("2.1.0", exclude=("old/*",)), Output(project.parent / "out")
    *_, analysed = analyse_project(*request, AnalysisChoice(("torch_apis",)))
    written = (folder / "cuda_op_list.csv").read_bytes()
    assert written == (analysed / "cuda_op_list.csv").read_bytes()
    assert written.decode().splitlines()[1:] == [
        "CMakeLists.txt,CMake with CUDA,1,build,",
        "build.py,csrc/scan.cu,1,build,",
        "csrc/ops.cpp,ops.nms,1,operator,use.py:3",
        "csrc/scan.cu,scan,1,kernel,",
        "csrc/scan.cu,scan,2,launch,",
    ]


def test_one_file(project: Path) -> None:
    outcome, folder = migrate(project / "train.py")
    assert folder.name == "train_msft"
    assert set(contents(folder)) == {"train.py", *REPORTS}
    assert outcome.complete


def test_force_replaces_the_whole_output(project: Path) -> None:
    _, folder = migrate(project)
    (folder / "stale.txt").write_text("")
    with pytest.raises(UsageError):
        migrate(project)
    migrate(project, force=True)
    assert not (folder / "stale.txt").exists()


def test_the_same_reports_for_any_number_of_jobs(project: Path) -> None:
    for number in range(12):
        (project / f"m{number}.py").write_bytes(b"x.cuda()\n" * 1_000)
    trees = []
    for jobs in (1, 2, 5):
        _, folder = migrate(project, output=project.parent / f"out{jobs}", jobs=jobs)
        tree = contents(folder)
        del tree["msFmkTranspltlog.txt"]  # it has times in it
        trees.append(tree)
    assert trees[0] == trees[1] == trees[2]


def test_a_launcher_for_a_project_on_several_cards(project: Path) -> None:
    (project / "dist.py").write_bytes(b"cuda nccl")
    _, folder = migrate(project)
    assert (folder / LAUNCHER_NAME).stat().st_mode & 0o111
    filled = (folder / LAUNCHER_NAME).read_bytes().replace(b"please input your shell script here", b"python dist.py")
    (project / LAUNCHER_NAME).write_bytes(filled)
    _, folder = migrate(project, force=True)
    assert (folder / LAUNCHER_NAME).read_bytes() == filled


def test_files_of_the_project_that_are_called_like_reports_stay(project: Path) -> None:
    (project / "change_list.csv").write_bytes(b"the project's own")
    _, folder = migrate(project)
    assert (folder / "change_list.csv").read_bytes() == b"the project's own"
    assert (folder / "gpu2npu_change_list.csv").read_bytes().startswith(b"File,Start Line")


def test_migrating_an_output_again_replaces_its_reports(project: Path) -> None:
    _, first = migrate(project)
    _, second = migrate(first)
    assert second.name == "proj_msft_msft"
    assert set(contents(second)) == set(contents(first))
    assert (second / "change_list.csv").read_bytes().count(b"\r\n") == 1


def test_a_file_that_cannot_be_read_is_listed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = Path.open

    def refuse(path: Path, *args: object, **kwargs: object) -> object:
        if path.name in ("table.csv", "plain.py"):
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *args, **kwargs)  # type: ignore[call-overload]

    def refuse_bytes(path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read()

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "read_bytes", refuse_bytes)
    outcome, folder = migrate(project)
    reason = "the file cannot be read: Permission denied"
    assert outcome.notes == (PathNote("data/table.csv", reason, True), PathNote("pkg/plain.py", reason, True))
    assert outcome.copied == ("csrc/ops.cpp",)
    assert not (folder / "data" / "table.csv").exists()


def test_a_full_disk_leaves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copy2", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        migrate(project)
    assert not (project.parent / "out").exists()


def test_an_unexpected_error_leaves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("gpu2npu.project.migration.write_tables", fail)
    with pytest.raises(ZeroDivisionError):
        migrate(project)
    assert not (project.parent / "out").exists()


def test_progress_counts_every_file(project: Path) -> None:
    seen: list[tuple[int, int]] = []
    request = project, Settings("2.1.0"), Output(project.parent / "out")
    migrate_project(
        *request,
        lambda done, total, verb="done": seen.append((done, total)) if verb == "done" else None,
        prepare=prepare,
    )
    assert seen == [(2, 3), (3, 3)]


def test_a_preview_writes_nothing(project: Path) -> None:
    everything = contents(project.parent)
    preview = preview_project(project, Settings("2.1.0"), prepare=prepare)
    assert preview.before == {"train.py": b"x.cuda()\r\n"}
    assert [file.path for file in preview.outcome.files if file.content is not None] == ["train.py"]
    assert contents(project.parent) == everything


def test_a_rule_file_that_cannot_be_used(project: Path) -> None:
    rules = project.parent / "rules.json"
    rules.write_text("{")
    with pytest.raises(UsageError, match=r"rules\.json"):
        migrate_project(project, Settings("2.1.0", rules=(rules,)), Output(project.parent / "out"))
    assert not (project.parent / "out").exists()


def test_other_files_are_migrated_with_the_code(project: Path) -> None:
    (project / "run.sh").write_bytes(b"cuda\n")
    (project / "tool").write_bytes(b"#!/bin/sh\ncuda\n")
    (project / "notes.txt").write_bytes(b"cuda\n")
    (project / "plain.yaml").write_bytes(b"a: 1\n")
    outcome, folder = migrate(project)
    written = contents(folder)
    assert written["run.sh"] == b"npu\n" and written["tool"] == b"#!/bin/sh\nnpu\n"
    assert written["notes.txt"] == b"cuda\n"
    others = [file.path for file in outcome.files if not file.path.endswith(".py")]
    assert others == ["run.sh", "tool"]
    assert outcome.copied == ("csrc/ops.cpp", "data/table.csv", "notes.txt", "plain.yaml")
    assert b"run.sh,1,1,MODIFY" in written["change_list.csv"]


def test_kinds_and_paths_that_are_left_out(project: Path) -> None:
    for name in ("run.sh", "a.yaml", "sub/b.yaml"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(b"cuda\n")
    outcome, folder = migrate(project, skip_kinds=("shell",), exclude=("sub",))
    assert (folder / "a.yaml").read_bytes() == b"npu\n"
    assert (folder / "run.sh").read_bytes() == (folder / "sub/b.yaml").read_bytes() == b"cuda\n"
    assert {"run.sh", "sub/b.yaml"} < set(outcome.copied)
    with pytest.raises(UsageError, match="no kind of files 'shel'"):
        migrate(project, skip_kinds=("shel",), force=True)


def test_a_file_that_is_not_python_and_a_project_of_notebooks(project: Path) -> None:
    (project / "run.sh").write_bytes(b"cuda\n")
    _, folder = migrate(project / "run.sh")
    assert set(contents(folder)) == {"run.sh", *REPORTS}
    assert (folder / "run.sh").read_bytes() == b"npu\n"
    (project / "books").mkdir()
    (project / "books" / "a.ipynb").write_bytes(b"cuda")
    assert preview_project(project / "books", Settings("2.1.0"), prepare=prepare).before == {"a.ipynb": b"cuda"}


TRAINS = """import torch
import torch.distributed
from torch.nn.parallel import DataParallel

net = DataParallel(torch.nn.Linear(2, 2)).cuda()
net.load_state_dict(torch.load('last.pt'))
first = torch.load('first.pt')
net(torch.ones(4, 2)).mean().backward()
"""


def test_a_checkpoint_that_a_codemod_loads_on_the_cpu_is_not_reported_besides(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    (file,) = preview_project(tmp_path, Settings("2.1.0", jobs=1)).outcome.files
    assert b"torch.load('last.pt', map_location='cpu')" in (file.content or b"")
    assert [each.span.start_line for each in file.findings if each.rule == "load-on-every-rank"] == [7]


@pytest.mark.parametrize("module", ["torch.nn", "torch.nn.parallel", "torch.nn.parallel.data_parallel"])
def test_a_wrap_that_stays_is_reported_once_however_it_is_imported(tmp_path: Path, module: str) -> None:
    wraps = f"from {module} import DataParallel\ndef wrap(net):\n    return DataParallel(net)\nloss.backward()\n"
    (tmp_path / "wraps.py").write_text(wraps)
    (tmp_path / "train.py").write_text("import wraps\ngetattr(wraps, name)(net)\n")
    findings = [
        each for file in preview_project(tmp_path, Settings("2.1.0", jobs=1)).outcome.files for each in file.findings
    ]
    assert len([each for each in findings if each.span.start_line == 3]) == 1
