"""Rules for variables and command lines with metavariables, and for settings that are in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import RuleError, load_rulebook

VARIABLE = {"match": {"environment": "LIB_GPU_$X"}, "then": {"rename": "LIB_NPU_$X"}}
OPTION = {"match": {"command": "teamrun --gpus $N"}, "then": {"rename": "teamrun --npus $N"}}
MONITOR = {"match": {"command": "nvidia-smi -l $N"}, "then": {"rename": "npu-watch -n $N"}}
SCRIPT = {"match": {"command": "python train.py --gpus $N"}, "then": {"rename": "python train.py --npus $N"}}
SETTING = {"match": {"setting": "trainer.**.accelerator", "values": ["gpu"]}, "then": {"rename": "npu"}}
ENGINE = {"match": {"setting": "trainer.**.engine", "values": ["gpu"]}, "then": {"rename": "npu"}}
TOP = {"match": {"setting": "accelerator", "values": ["gpu"]}, "then": {"rename": "npu"}}


def migrated(tmp_path: Path, rule: dict[str, Any], path: str, text: str) -> MigratedFile:
    file = tmp_path / "own.json"
    entry = {"id": "own", "why": "Because.", "examples": [{"keep": ""}], **rule}
    file.write_text(json.dumps({"rules": [entry]}), encoding="utf-8")
    return migrate_file(text.encode(), path, load_rulebook([file]), ProjectContext())


@pytest.mark.parametrize(
    ("rule", "path", "before", "after"),
    [
        (VARIABLE, "a.py", "os.environ['LIB_GPU_CACHE'] = x\n", "os.environ['LIB_NPU_CACHE'] = x\n"),
        (VARIABLE, "a.py", "dict(env, LIB_GPU_A='1')\n", "dict(env, LIB_NPU_A='1')\n"),
        (VARIABLE, "a.sh", "export LIB_GPU_A=1 LIB_GPUS=2\n", "export LIB_NPU_A=1 LIB_GPUS=2\n"),
        (VARIABLE, "a.yaml", "env:\n  LIB_GPU_A: 1\n", "env:\n  LIB_NPU_A: 1\n"),
        (OPTION, "a.sh", "teamrun -v --gpus 4 job\n", "teamrun -v --npus 4 job\n"),
        (OPTION, "a.sh", "srun bin/teamrun --gpus=\"$N\"\n", "srun bin/teamrun --npus=\"$N\"\n"),
        (OPTION, "a.yaml", "script: teamrun --gpus 4\n", "script: teamrun --npus 4\n"),
        (OPTION, "a.sh", "other --gpus 4\nteamrun --gpu 4\nteamrun --gpus\n", None),
        (OPTION, "a.sh", "teamrun a.py -- --gpus 4\n", None),
        (OPTION, "a.sh", "teamrun --gpus 2 a.py -- --gpus 4\n", "teamrun --npus 2 a.py -- --gpus 4\n"),
        (MONITOR, "a.sh", "which nvidia-smi\n", "which npu-smi\n"),
        (SCRIPT, "a.sh", "python train.py --lr 1 --gpus 2\n", "python train.py --lr 1 --npus 2\n"),
        (SCRIPT, "a.sh", "python test.py --gpus 2\n", None),
        (SETTING, "a.py", "c = {'trainer': {'a': [{'accelerator': 'gpu'}]}}\n",
         "c = {'trainer': {'a': [{'accelerator': 'npu'}]}}\n"),
        (SETTING, "a.py", "c = dict(trainer=dict(accelerator='gpu'))\n", "c = dict(trainer=dict(accelerator='npu'))\n"),
        (SETTING, "a.py", "c = {'trainer': f({'accelerator': 'gpu'}), 'plot': {'accelerator': 'gpu'}}\n", None),
        (SETTING, "a.py", "c = {'trainer': {'accelerator': 'gpu-line'}, k: {'accelerator': 'gpu'}}\n", None),
        (TOP, "a.py", "train(options={'accelerator': 'gpu'})\n", "train(options={'accelerator': 'npu'})\n"),
        (TOP, "a.py", "train(**dict(accelerator='gpu'))\n", "train(**dict(accelerator='npu'))\n"),
        (TOP, "a.py", "train(accelerator='gpu')\n", None),
        (TOP, "a.py", "class A(B, accelerator='gpu'): ...\n", None),
        (TOP, "a.py", "c = {'accelerator': 'gpu', 'x': {'accelerator': 'gpu'}}\n",
         "c = {'accelerator': 'npu', 'x': {'accelerator': 'gpu'}}\n"),
    ],
)  # fmt: skip
def test_what_is_written(tmp_path: Path, rule: dict[str, Any], path: str, before: str, after: str | None) -> None:
    result = migrated(tmp_path, rule, path, before)
    assert (before if result.content is None else result.content.decode()) == (after or before)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("run(['teamrun', '--gpus', '4'])\n", True),
        ("run('teamrun --gpus 4 x', shell=True)\n", True),
        ("run(['teamrun', '--cpus', '4'])\n", False),
    ],
)
def test_a_command_line_in_python_is_reported(tmp_path: Path, text: str, is_found: bool) -> None:
    result = migrated(tmp_path, OPTION, "a.py", text)
    assert result.content is None
    assert [found.rule for found in result.findings] == (["own"] if is_found else [])


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"match": {"environment": "A_*"}, "then": {"rename": "B_$X"}}, "$X is not in the variable"),
        ({"match": {"command": "a --b $X"}, "then": {"rename": "a --b"}}, "has 2 words for 3"),
        ({"match": {"command": "a --b $X"}, "then": {"rename": "a --c $Y"}}, "'$Y' where the match has '$X'"),
        ({"match": {"command": "a $X"}, "then": {"rename": "a $Y"}}, "a metavariable stays in its place"),
    ],
)
def test_refusals(tmp_path: Path, rule: dict[str, Any], reason: str) -> None:
    with pytest.raises(RuleError, match=reason.replace("$", r"\$")):
        migrated(tmp_path, rule, "a.sh", "")


def test_a_command_line_that_is_only_reported(tmp_path: Path) -> None:
    report = {"report": {"kind": "review", "message": "No counterpart."}}
    result = migrated(tmp_path, {"match": {"command": "a --b $X"}, "then": report}, "a.sh", "a --b 2\n")
    assert [found.message for found in result.findings] == ["No counterpart."]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("ok = cfg.trainer.main.engine == 'gpu'\n", True),
        ("self.cfg.trainer.main['engine'] = 'gpu'\n", True),
        ("compose(overrides=['+trainer.main.engine=gpu'])\n", True),
        ("ok = cfg.plot.main.engine == 'gpu'\n", False),
        ("ok = cfg.trainer.main.engine == 'gpu-line'\n", False),
    ],
)
def test_a_setting_that_python_compares_or_sets_is_reported(tmp_path: Path, text: str, is_found: bool) -> None:
    result = migrated(tmp_path, ENGINE, "a.py", text)
    assert result.content is None
    assert [found.rule for found in result.findings] == (["own"] if is_found else [])
