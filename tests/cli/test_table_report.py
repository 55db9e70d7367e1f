import sys
from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from gpu2npu.cli.main import cli
from gpu2npu.report.frames import frame_of_verification, write_frame


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text("import torch\nx = torch.zeros(1).cuda()\ntorch.cuda.comm.broadcast(x, [0])\n")
    return tmp_path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exit_code in {0, 1}, done.output
    return done.output


def test_a_migration_as_a_workbook(project: Path) -> None:
    run("-i", project / "p", "-o", project / "out", "-v", "2.1.0", "--report", "xlsx")
    sheets = pandas.read_excel(project / "out" / "p_msft_tables.xlsx", sheet_name=None)
    assert {"change_list", "finding_groups", "unsupported_api"} <= set(sheets)
    assert list(sheets["change_list"]["Rule"]) == ["cuda-method", "cuda-method"]


def test_a_check_as_csv_files(project: Path) -> None:
    run("check", project / "p", "-v", "2.1.0", "--no-cache", "--report", "csv", "-o", project / "tables")
    found = pandas.read_csv(project / "tables" / "findings.csv")
    assert list(found["File"]) == ["a.py"] and "Tips" in found


def test_a_missing_package_is_refused_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    arguments = ["-i", str(project / "p"), "-o", str(project / "out"), "-v", "2.1.0", "--report", "xlsx"]
    assert isinstance(CliRunner().invoke(cli, arguments).exception, ValueError)
    assert not (project / "out").exists()


@pytest.mark.parametrize("form", ["xlsx", "parquet", "csv"])
def test_a_verification_as_a_table(tmp_path: Path, form: str) -> None:
    sides = {"original": {"stack": ["a.py:1", "b.py:2"]}, "migrated": {"stack": []}}
    steps = [{"step": 1, "error": 0.5, "tolerance": 0.25, "units": 2.0}, {"step": 2, "error": "inf", "tolerance": 1.0}]
    steps[1]["units"] = "inf"
    place = {"kind": "output", "name": "Net.fc", "steps": [{**step, **sides} for step in steps]}
    write_frame(frame_of_verification({"places": [place]}), tmp_path / f"t.{form}")
    read = {"xlsx": pandas.read_excel, "parquet": pandas.read_parquet, "csv": pandas.read_csv}[form]
    table = read(tmp_path / f"t.{form}")
    assert list(table["Error in Tolerances"].astype(float)) == [2.0, float("inf")]
    assert list(table["Original"]) == ["a.py:1"] * 2
