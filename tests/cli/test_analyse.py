import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu2npu.cli.analyse import DEFAULT_MODES, MODE_NAMES, analyse
from gpu2npu.project.analyse import MODES
from gpu2npu.project.errors import UsageError
from gpu2npu.project.location import Output
from gpu2npu.project.settings import Settings

HEADERS = {
    "unsupported_api.csv": "File,Start Line,End Line,OP,Tips,Severity,Group",
    "unknown_api.csv": "File,Start Line,End Line,OP,Tips,Severity,Group",
    "api_precision_advice.csv": "File,Start Line,End Line,OP,Tips,Severity,Group",
    "api_performance_advice.csv": "File,Start Line,End Line,OP,Tips,Severity,Group",
    "affinity_api_call.csv": "File,Start Line,End Line,Api Type,Api Call Name,Affinity Api Name",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(1, 1).cuda().half()\nopt = torch.optim.AdamW(model.parameters())\n"
        "x = torch.rand(3)\nx[x < 0.5] = 0\nv = torch.linalg.eigvalsh(torch.rand(2, 2))\n"
        "torch.cuda.cudart()\n"
    )
    (folder / "notes.txt").write_text("plain")
    return folder


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(analyse, [str(argument) for argument in arguments])
    if isinstance(done.exception, UsageError):
        return 2, str(done.exception)
    return done.exit_code, done.output


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_the_modes_are_those_there_are() -> None:
    assert set(MODE_NAMES) == set(MODES) and set(DEFAULT_MODES) < set(MODES)


def test_the_tables_and_their_columns(project: Path) -> None:
    code, output = run("-i", project, "-o", project.parent, "-v", "2.1.0")
    folder = project.parent / "proj_analysis"
    assert code == 0 and "affinity_api_call.csv: 2" in output
    for name, header in HEADERS.items():
        assert (folder / name).read_text(encoding="utf-8").startswith(header)
    assert (folder / "cuda_op_list.csv").read_text(encoding="utf-8").startswith("File,Api")
    advice = {(row["Start Line"], row["Affinity Api Name"]) for row in rows(folder / "affinity_api_call.csv")}
    assert advice == {
        ("3", "torch_npu.optim.NpuFusedAdamW"),
        ("5", "torch_npu.contrib.npu_fast_condition_index_put"),
    }
    assert [row["Start Line"] for row in rows(folder / "api_precision_advice.csv")] == ["2"]
    assert "torch.linalg.eigvalsh" in [row["OP"] for row in rows(folder / "api_performance_advice.csv")]
    assert "torch.cuda.cudart" in [row["OP"] for row in rows(folder / "unsupported_api.csv")]  # a rule's finding
    assert "torch_apis" in (folder / "pytorch_analysis.txt").read_text()


def test_one_mode(project: Path) -> None:
    code, _ = run("-i", project / "train.py", "-o", project.parent, "-v", "2.1.0", "-m", "affinity_apis", "-q")
    folder = project.parent / "train_analysis"
    tables = {"affinity_api_call.csv", "api_performance_advice.csv"}
    assert code == 0 and {path.name for path in folder.iterdir()} == tables | {"pytorch_analysis.txt"}


def test_settings_that_make_training_wait_need_no_other_mode(project: Path) -> None:
    (project / "load.py").write_text("from torch.utils.data import DataLoader\nDataLoader(images, 8)\n")
    advised = []
    for modes in (("-m", "affinity_apis"), ("-m", "affinity_apis", "-m", "torch_apis")):
        run("-i", project, "-o", project.parent, "-v", "2.1.0", *modes, "--force", "-q")
        found = rows(project.parent / "proj_analysis" / "api_performance_advice.csv")
        advised.append([row["Start Line"] for row in found if row["File"] == "load.py"])
    assert advised[0] and advised[0] == advised[1]


def test_fix_writes_a_copy(project: Path) -> None:
    code, _ = run("-i", project, "-o", project.parent, "-v", "2.1.0", "-m", "affinity_apis", "--fix")
    copy = project.parent / "proj_analysis" / "fixed"
    assert code == 0 and (copy / "notes.txt").read_text() == "plain"
    before, after = (project / "train.py").read_text(), (copy / "train.py").read_text()
    assert after == before.replace("x[x < 0.5] = 0", "x.masked_fill_(x < 0.5, 0)") != before


def test_bad_input_is_reported_and_never_fatal(project: Path) -> None:
    (project / "broken.py").write_bytes(b"import torch\nx = (\n")
    (project / "deep.py").write_bytes(b"import torch\nx = " + b"(" * 5_000 + b")" * 5_000)
    (project / "null.py").write_bytes(b"import torch\n\0")
    (project / "=bad,'\"\n.py").write_bytes(b"import torch\nopt = torch.optim.SGD(p)\n")
    (project / "long.py").write_bytes(b"import torch; x = [" + b"1," * 5_000_000 + b"]")
    os.mkfifo(project / "pipe.py")
    (project / "loop").symlink_to(project)
    code, output = run("-i", project, "-o", project.parent, "-v", "2.1.0", "-m", "affinity_apis")
    assert code == 1
    for name in ("broken.py", "deep.py", "null.py", "long.py"):
        assert f"Error: {name}: " in output
    files = [row["File"] for row in rows(project.parent / "proj_analysis" / "affinity_api_call.csv")]
    assert "'=bad,'\"\n.py" in files and files.count("train.py") == 2


ODD_NAMES = (b"a,b", b'a "quoted" name', b"two\nlines", b"=1+1", b"+x", b"-x", b"@x", b"\tx", b"'=x", b"caf\xe9\xff")
EVERY_TABLE = """import torch, ops
def unsupported(x):
    torch.cuda.cudart()
    torch.no_such_function(x)
    ops.nms(x)
    torch.linalg.eigvalsh(torch.rand(2, 2))
    torch.rand(2, 2).double() @ torch.rand(2, 2).double()
    return torch.optim.AdamW(torch.nn.Linear(1, 1).cuda().half().parameters())
def reaches(x):
    return unsupported(x)
"""
KERNEL = b'__global__ void k(int* x) {}\nPYBIND11_MODULE(ops, m) { m.def("nms", &r); }\n'


def test_odd_names_stay_cells_of_every_table(tmp_path: Path) -> None:
    """A row has the columns of its header, and no cell is a formula to a spreadsheet."""
    for folder in (tmp_path / "lib", tmp_path / "lib" / os.fsdecode(b'=1,"\n\xe9')):
        folder.mkdir()
        for name in map(os.fsdecode, ODD_NAMES):
            (folder / f"{name}.py").write_text(EVERY_TABLE)
            (folder / f"{name}.cu").write_bytes(KERNEL)
    modes = [word for mode in ("torch_apis", "third_party", "affinity_apis") for word in ("-m", mode)]
    code, _ = run("-i", tmp_path / "lib", "-o", tmp_path, "-v", "2.1.0", "-j", 1, *modes)
    tables = {}
    for file in (tmp_path / "lib_analysis").glob("*.csv"):
        with file.open(newline="", encoding="utf-8") as opened:
            tables[file.name] = list(csv.reader(opened))
    assert code == 0 and len(tables) == 12
    for name, table in tables.items():
        assert len(table) > 1, f"{name} shows nothing"
        assert {len(row) for row in table} == {len(table[0])}, name
        assert not [cell for row in table for cell in row if cell.startswith(tuple("=+-@\t\r"))], name
    by_file = [table for table in tables.values() if table[0][0] == "File"]
    assert [len({row[0] for row in table[1:]}) for table in by_file] == [2 * len(ODD_NAMES)] * len(by_file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-v", "9.9.9"), "not known"),
        ((), "-v/--version is missing"),
        (("-v", "2.1.0", "-m", "nonsense"), "nonsense"),
    ],
)
def test_wrong_usage(project: Path, arguments: tuple[str, ...], message: str) -> None:
    code, output = run("-i", project, "-o", project.parent, *arguments)
    assert code == 2 and message in output
    assert not (project.parent / "proj_analysis").exists()


def test_an_existing_output_needs_force(project: Path) -> None:
    arguments = ("-i", project, "-o", project.parent, "-v", "2.1.0", "-m", "affinity_apis", "-q")
    assert run(*arguments)[0] == 0
    assert run(*arguments)[0] == 2
    assert run(*arguments, "--force")[0] == 0


def test_a_migration_tells_the_same(project: Path) -> None:
    from gpu2npu.project.migration import migrate_project

    run("-i", project, "-o", project.parent, "-v", "2.1.0", "-q")
    _, migrated = migrate_project(project, Settings("2.1.0"), Output(project.parent))
    analysed = project.parent / "proj_analysis"
    for name in HEADERS:
        found = re.sub(rb" Written by --affinity [\w,-]+\.", b"", (analysed / name).read_bytes())
        assert (migrated / name).read_bytes() == found, name


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['gpu2npu', 'analyse', '--help']\nfrom gpu2npu.cli.main import main\n"
    code += "try: main()\nexcept SystemExit: pass\nprint(sorted({'libcst', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n") and "Examples:" in done.stdout


def test_advice_says_which_kind_writes_it(project: Path) -> None:
    text = "import torch\nimport torch.nn.functional as F\n\ndef gate(x):\n    a, b = x.chunk(2, dim=-1)\n"
    text += "    return F.silu(a) * b\n\ndef kept(x):\n    a, b = x.chunk(2, dim=-1)\n    a.mul_(2)\n"
    text += "    return F.silu(a) * b\n\ndef total(x: torch.Tensor):\n    return x[x > 0].sum()\n"
    (project / "gate.py").write_text(text)
    run("-i", project, "-o", project.parent, "-v", "2.7.1", "-m", "affinity_apis", "-q")
    found = rows(project.parent / "proj_analysis" / "affinity_api_call.csv")
    written = {(row["File"], row["Start Line"]): row["Tips"].rpartition(" Written by ")[2] for row in found}
    assert written["gate.py", "6"] == "--affinity swiglu."
    assert written["gate.py", "14"] == "--affinity masked-sum."
    assert written["train.py", "5"] == "--affinity masked-store."
    assert not any("Written by" in row["Tips"] for row in found if row["Start Line"] == "11")
