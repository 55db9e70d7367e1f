"""Every row of the table of behaviour: its programs on the emulated NPU, and what `check` says of them.

A row for chips or releases other than the usual is tried on one that it is for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import jsonschema

from gpu2npu.emulator.launch import emulating
from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.rulebook import load_rulebook
from gpu2npu.support.behaviour import HANGS, RAISES, TABLE, Row, rows
from gpu2npu.support.chips import DEFAULT_CHIP
from gpu2npu.support.releases import known_version, torch_npu_versions

VERSION = known_version("2.7.1") or ""
CHIPS = {"910A": "Ascend910A", "910B": "Ascend910B", "910_93": "Ascend910_93", "310P": "Ascend310P", "950": "Ascend950"}
HEAD = (
    "import torch\nimport torch_npu\nimport torch.distributed as dist\nfrom torch import nn\n"
    "from torch.nn import functional as F\n"
)
RUNNER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, torch_npu
import torch.distributed as dist
from gpu2npu.emulator.device.dispatch import limits

dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
results = {}
for name, text in json.load(open(sys.argv[1])).items():
    torch.set_default_dtype(torch.float32)
    before = dict(limits.met)
    try:
        exec(text, {})
        results[name] = [None, [each for each in limits.met if limits.met[each] != before.get(each)]]
    except Exception as error:
        results[name] = [f"{type(error).__name__}: {error}", []]
dist.destroy_process_group()
json.dump(results, open(sys.argv[2], "w"))
"""
# What PyTorch does itself in the release that is installed.
OF_OLDER_PYTORCH = {"complex-hccl-point-to-point"}
Setting = tuple[str, str]


def where(row: Row) -> Setting:
    """A version and a family of chips that a row is for."""
    chips = [chip for chip in (DEFAULT_CHIP, *CHIPS) if chip in row.chips]
    versions = (VERSION, *reversed([each for each in torch_npu_versions() if "rc" not in each]))
    return next((version, chip) for chip in chips for version in versions if row.is_for(version, chip))


def by_setting() -> dict[Setting, list[Row]]:
    found = defaultdict(list)
    for row in rows():
        if row.fails:
            found[where(row)].append(row)
    return found


def run_programs(torch_python: list[str | Path], folder: Path) -> dict[str, list[object]]:
    """By a row's id and "fails" or "passes": the error of the program, and the rows that it met without one."""
    found: dict[str, list[object]] = {}
    for (version, chip), some in by_setting().items():
        programs = {f"{row.id} {kind}": HEAD + getattr(row, kind) for row in some for kind in ("fails", "passes")}
        (folder / "programs.json").write_text(json.dumps(programs))
        (folder / "runner.py").write_text(RUNNER)
        environment = emulating(os.environ, python=sys.executable, soc=CHIPS[chip], torch_npu=version)
        command = [*torch_python, "runner.py", "programs.json", "results.json"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        found |= json.loads((folder / "results.json").read_text())
    return found


def test_files_are_of_the_schema() -> None:
    schema = json.loads(Path(TABLE.parent, "behaviour.schema.json").read_text())
    for path in TABLE.glob("*.json"):
        jsonschema.validate(json.loads(path.read_text()), schema)


def test_every_row_has_programs() -> None:
    assert [row.id for row in rows() if not (row.fails and row.passes)] == []


def test_the_emulator_does_what_each_row_says(torch_python: list[str | Path], tmp_path: Path) -> None:
    """It refuses what raises or hangs, computes and counts the rest, and takes every program beside a row."""
    results = run_programs(torch_python, tmp_path)
    refused = [row.id for row in rows() if row.outcome in (RAISES, HANGS) and row.id not in OF_OLDER_PYTORCH]
    computed = [row for row in rows() if row.outcome not in (RAISES, HANGS)]
    counted = [row for row in computed if row.fails and row.operators]
    assert [name for name in refused if results[f"{name} fails"][0] is None] == []
    assert {name: each for name, each in results.items() if name.endswith("passes") and each[0] is not None} == {}
    assert [row.id for row in counted if row.id not in results[f"{row.id} fails"][1]] == []  # type: ignore[operator]
    assert [row.id for row in counted if row.id in results[f"{row.id} passes"][1]] == []  # type: ignore[operator]
    assert [row.id for row in computed if results[f"{row.id} fails"][0] is not None] == []


def test_check_reports_what_fails_and_nothing_beside_it(tmp_path: Path) -> None:
    """A row that has the id of a rule is about a name that this rule replaces everywhere: nothing is left to report."""
    wrong, replaced = [], {rule.id for rule in load_rulebook().rules}
    for (version, chip), some in by_setting().items():
        folder = tmp_path / f"{version} {chip}"
        folder.mkdir()
        for row in some:
            for kind in ("fails", "passes"):
                (folder / f"{row.id} {kind}.py").write_text(f"{HEAD}{getattr(row, kind)}\n")
        result, _ = check_project((folder,), Settings(version, jobs=1, chips=(chip,)))
        messages = {file.path: " ".join(each.finding.message for each in file.findings) for file in result.files}
        for row in some:
            is_reported = f"[{row.id}]" in messages.get(f"{row.id} fails.py", "")
            is_expected = not row.at_run_time and row.id not in replaced
            if row.apis and row.outcome != "ignored" and is_reported is not is_expected:
                wrong.append(f"{row.id} fails")
            if f"[{row.id}]" in messages.get(f"{row.id} passes.py", ""):
                wrong.append(f"{row.id} passes")
    assert wrong == []
