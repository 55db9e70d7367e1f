"""The wheel and the sdist hold what they should, and nothing else."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FROM_THE_PROJECT = (
    "Makefile", "README.md", "LICENSE", "constraints.txt", "tests/conftest.py", "fixtures/mnist_cnn/train.py",
    "rules/torch_cuda.json", "tools/stress/__main__.py", "docs/check.md", "action.yml",
)  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def names_of_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("gpu2npu-")}


def test_wheel_is_the_package_and_the_rules(built: Path) -> None:
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "gpu2npu").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    rules = {f"gpu2npu/rules/{path.name}" for path in (ROOT / "rules").iterdir()}
    assert names_of_wheel(built) == package | rules


def test_wheel_carries_its_license_and_commands(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (points,) = (name for name in archive.namelist() if re.fullmatch(r"gpu2npu-[^/]*/entry_points.txt", name))
    commands = dict(line.split(" = ") for line in archive.read(points).decode().splitlines() if " = " in line)
    assert commands == {
        "gpu2npu": "gpu2npu.__main__:main",
        "pytorch_gpu2npu.sh": "gpu2npu.cli.vendor_commands:pytorch_gpu2npu",
        "pytorch_analyse.sh": "gpu2npu.cli.vendor_commands:pytorch_analyse",
    }
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_sdist_is_enough_to_run_the_suite(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(FROM_THE_PROJECT) <= names
    assert not any(name.split("/")[0] in {".git", ".venv", ".ci", ".site", "demo-output"} for name in names)
