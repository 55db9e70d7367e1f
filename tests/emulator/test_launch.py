import os
import sys
from pathlib import Path

import pytest

from gpu2npu.emulator.launch import SITE, LaunchError, emulating, missing_requirements, prepare, real_torch_npu
from gpu2npu.emulator.machine.filesystem import PROGRAMS

PYTHON = "/venv/bin/python"


def launched(*command, environment=None):
    return prepare(command, environment or {"PATH": os.environ["PATH"]}, python=PYTHON)


def test_our_folders_come_first_and_the_users_stay():
    environment = emulating({"PYTHONPATH": "/mine", "PATH": "/usr/bin:/bin", "HOME": "/h"}, python=PYTHON)
    assert environment["PYTHONPATH"] == f"{SITE}{os.pathsep}/mine"
    assert environment["PATH"] == os.pathsep.join(["/venv/bin", str(PROGRAMS), "/usr/bin", "/bin"])
    assert environment["HOME"] == "/h"


@pytest.mark.parametrize("before", [{}, {"PYTHONPATH": ""}])
def test_no_empty_entry_that_would_mean_the_current_directory(before):
    assert emulating(before, python=PYTHON)["PYTHONPATH"] == str(SITE)


def test_an_inner_run_does_not_repeat_folders_nor_inherit_settings():
    outer = emulating({"PATH": "/bin"}, python=PYTHON, strict=True, op_report=Path("/tmp/r.csv"), npus=2)
    inner = emulating(outer, python=PYTHON)
    assert inner == emulating({"PATH": "/bin"}, python=PYTHON)


def test_settings_reach_the_emulator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = emulating(
        {"ASCEND_RT_VISIBLE_DEVICES": "1,2"},
        python=PYTHON,
        npus=3,
        strict=True,
        op_report=Path("ops.csv"),
        torch_npu="2.7.1.post2",
    )
    assert environment["GPU2NPU_NPUS"] == "3"
    assert environment["GPU2NPU_STRICT"] == "1"
    assert environment["GPU2NPU_OP_REPORT"] == str(tmp_path / "ops.csv")
    assert environment["GPU2NPU_TORCH_NPU"] == "2.7.1.post2"
    assert environment["ASCEND_RT_VISIBLE_DEVICES"] == "1,2"


def test_the_callers_environment_is_not_changed():
    before = {"PATH": "/bin"}
    emulating(before, python=PYTHON, strict=True)
    assert before == {"PATH": "/bin"}


def test_python_in_its_forms_is_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    for command, argv in [
        (["train.py", "--npus", "1"], [PYTHON, "train.py", "--npus", "1"]),
        (["-m", "pkg.train", "-x"], [PYTHON, "-m", "pkg.train", "-x"]),
        (["-c", "print()"], [PYTHON, "-c", "print()"]),
        (["python", "-u", "missing.py"], [PYTHON, "-u", "missing.py"]),
        (["python3", "train.py"], [PYTHON, "train.py"]),
    ]:
        launch = launched(*command)
        assert (launch.program, list(launch.argv)) == (PYTHON, argv)


def test_other_commands_run_as_they_are():
    launch = launched("sh", "run.sh", "--epochs", "1")
    assert Path(launch.program).name == "sh"
    assert Path(launch.program).is_absolute()
    assert launch.argv == ("sh", "run.sh", "--epochs", "1")


def test_programs_beside_our_python_win(tmp_path):
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "torchrun").write_text("#!/bin/sh\n")
        (tmp_path / folder / "torchrun").chmod(0o755)
    python = str(tmp_path / "ours" / "python")
    environment = emulating({"PATH": str(tmp_path / "theirs")}, python=python)
    assert prepare(["torchrun"], environment, python=python).program == str(tmp_path / "ours" / "torchrun")


def test_what_cannot_be_started_says_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text("#!/bin/sh\n")
    for command, exit_code, words in [
        ("no-such-command", 127, "no-such-command"),
        ("no_such_script.py", 127, "no_such_script.py"),
        (".", 127, "PATH"),
        ("./run.sh", 126, "chmod"),
    ]:
        with pytest.raises(LaunchError, match=words) as error:
            launched(command)
        assert error.value.exit_code == exit_code


def test_requirements_are_looked_up_in_the_given_paths(tmp_path):
    assert missing_requirements(sys.path) == ()
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").touch()
    assert missing_requirements([str(tmp_path)]) == ("torch", "ml_dtypes")


def test_a_real_torch_npu_is_found_and_ours_is_not(tmp_path):
    assert real_torch_npu([*sys.path, str(SITE)]) is None
    package = tmp_path / "package" / "torch_npu"
    package.mkdir(parents=True)
    assert real_torch_npu([str(package.parent)]) is None  # an empty folder is not an installation
    (package / "__init__.py").touch()
    assert real_torch_npu([str(SITE), str(package.parent)]) == package


def test_an_editable_torch_npu_is_found_by_its_metadata(tmp_path):
    info = tmp_path / "torch_npu-2.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.1.0\n")
    assert real_torch_npu([str(tmp_path)]) == tmp_path / "torch_npu"


def test_ranks_share_the_cores_and_the_users_own_choices_stay() -> None:
    shared = emulating(
        {"PATH": "/bin", "GPU2NPU_STRICT": "1", "GPU2NPU_SOC": "Ascend310P"}, python="/v/bin/python", npus=10**6
    )
    assert shared["OPENBLAS_NUM_THREADS"] == "1"
    assert shared["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "GPU2NPU_STRICT" not in shared
    assert shared["GPU2NPU_SOC"] == "Ascend310P"
    own = emulating({"PATH": "/bin", "OPENBLAS_NUM_THREADS": "7", "OMP_WAIT_POLICY": "ACTIVE"}, python="/v/bin/python")
    assert own["OPENBLAS_NUM_THREADS"] == "7"
    assert own["OMP_WAIT_POLICY"] == "ACTIVE"
