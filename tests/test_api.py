"""The functions for Python programs: what the notebook shows of them, and that they say what the commands write."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
from pandas.testing import assert_frame_equal

import gpu2npu
from tools.run_notebook import printed, stored

ROOT = Path(__file__).parents[1]
FIXTURE = ROOT / "fixtures" / "mixed_package"


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "docs")
    notebook = json.loads((ROOT / "docs" / "python-api.ipynb").read_text(encoding="utf-8"))
    assert printed(notebook) == stored(notebook)


def test_the_tables_are_those_that_are_written(tmp_path: Path) -> None:
    written = gpu2npu.migrate_project(FIXTURE, tmp_path, version="2.1.0", jobs=1)
    assert written.destination is not None
    in_file = pandas.read_csv(written.destination / "change_list.csv", keep_default_na=False)
    assert_frame_equal(written.changes.to_frame(), in_file, check_dtype=False)
    found = written.findings.to_frame()
    for name, kinds in (("unsupported_api", ["unsupported"]), ("unknown_api", ["unknown", "review"])):
        in_file = pandas.read_csv(written.destination / f"{name}.csv", keep_default_na=False)
        ours = found[found["Kind"].isin(kinds)].iloc[:, : in_file.shape[1]].reset_index(drop=True)
        assert_frame_equal(ours, in_file, check_dtype=False)
    assert list(written.failures) == ["mixed_package/legacy/converter.py"]


def test_names_and_parameters_stay() -> None:
    parameters = {
        function.__name__: list(inspect.signature(function).parameters)
        for function in (gpu2npu.migrate_source, gpu2npu.migrate_project, gpu2npu.check_project)
    }
    assert parameters == {
        "migrate_source": ["text", "version", "torch_npu", "rules", "name"],
        "migrate_project": ["source", "output", "version", "torch_npu", "rules", "exclude", "jobs", "force"],
        "check_project": ["sources", "version", "torch_npu", "rules", "exclude", "soc", "cache", "jobs"],
    }
    assert all(getattr(gpu2npu, name) is not None for name in gpu2npu.__all__)
    with pytest.raises(AttributeError, match="no attribute 'migrate'"):
        gpu2npu.migrate  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys; before = set(sys.modules); import gpu2npu; print(set(sys.modules) - before)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "{'gpu2npu'}\n"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"version": "0.4"}, gpu2npu.UsageError, "'0.4' is not known"),
        ({"version": "2.1.0", "rules": ["nowhere.json"]}, gpu2npu.UsageError, "nowhere.json"),
        ({"version": "2.1.0", "name": "picture.png"}, gpu2npu.UsageError, "nor of another kind"),
        ({"version": 2.1}, gpu2npu.UsageError, 'A version is a text, such as "2.7.1", not 2.1'),
        ({"version": "2.1.0", "rules": "nowhere.json"}, gpu2npu.UsageError, "'nowhere.json' does not exist"),
        ({"version": "2.1.0", "rules": Path("nowhere.json")}, gpu2npu.UsageError, "'nowhere.json' does not exist"),
        ({"version": "2.1.0", "name": ""}, gpu2npu.UsageError, "'' cannot be the name of a file"),
        ({"version": "2.1.0", "name": "a\0.py"}, gpu2npu.UsageError, "cannot be the name of a file"),
        ({"version": "2.1.0"}, gpu2npu.SourceError, "source.py: syntax error at line 1"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        gpu2npu.migrate_source("torch.cuda.synchronize(", **arguments)  # type: ignore[arg-type]


def test_one_pattern_may_be_given_alone() -> None:
    found = gpu2npu.migrate_project(FIXTURE, version="2.1.0", exclude="mixed_package/*", jobs=1)
    assert found.changes
    assert not any(path.startswith("mixed_package/") for path, _ in found.changes)
