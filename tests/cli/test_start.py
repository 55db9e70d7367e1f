"""A command imports what it uses: libraries that take long to import, and rooms of the program, stay out of others."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "importlib.metadata",
    "libcst",
    "numpy",
    "pandas",
    "jinja2",
    "nbformat",
    "jsonschema",
    "rich",
    "torch",
)
# Without these a check of what was checked before does all that it has to.
NOT_FOR_STORED_RESULTS = (
    "gpu2npu.analysis.file_analysis",
    "gpu2npu.codemods.project_plan",
    "gpu2npu.engine",
    "gpu2npu.kinds",
    "gpu2npu.project.migrator",
    "gpu2npu.rulebook.load",
)
SMALL = "import torch\nx = torch.randn(3).cuda()\ntorch.cuda.synchronize()\n"

_PROGRAM = """
import sys
from gpu2npu.cli.main import main
sys.argv[0] = "gpu2npu"
try:
    main()
finally:
    print("\\nLOADED", *sys.modules)
"""


def loaded_by(*arguments: str | Path) -> set[str]:
    """The modules that are imported when a command ends, which must end well."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED ")[2].split())


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "small").mkdir()
    (tmp_path / "small/train.py").write_text(SMALL)
    return tmp_path / "small"


def test_help_imports_nothing_of_the_migrator() -> None:
    loaded = loaded_by("--help")
    assert "gpu2npu.cli.main" in loaded
    assert loaded.isdisjoint({*HEAVY, *NOT_FOR_STORED_RESULTS, "gpu2npu.records", "gpu2npu.rulebook"})


def test_a_check_of_what_was_checked_before_imports_no_migrator(small: Path) -> None:
    first, second = (loaded_by("check", small, "-v", "2.1.0", "--fail-on", "never") for _ in range(2))
    assert first.issuperset(NOT_FOR_STORED_RESULTS) and first.isdisjoint(HEAVY)
    assert "gpu2npu.project.check.stored_tree" in second
    assert second.isdisjoint({*HEAVY, *NOT_FOR_STORED_RESULTS})


def test_a_migration_imports_the_codemods_that_it_needs(small: Path, tmp_path: Path) -> None:
    loaded = loaded_by("-i", small, "-o", tmp_path / "out", "-v", "2.1.0", "-j", "1")
    assert {"gpu2npu.engine", "libcst"} <= loaded
    assert loaded.isdisjoint({*HEAVY, "gpu2npu.codemods.part_plan"} - {"libcst"})
    (small / "train.py").write_text(SMALL + "model = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())\n")
    assert "gpu2npu.codemods.part_plan" in loaded_by("-i", small, "-o", tmp_path / "again", "-v", "2.1.0", "-j", "1")


@pytest.mark.parametrize(
    ("name", "message", "code"), [("SIGTERM", "Ended by SIGTERM.", 143), ("SIGINT", "Interrupted.", 130)]
)
def test_a_signal_during_the_imports_ends_with_a_sentence(name: str, message: str, code: int) -> None:
    program = f"""
import os, signal, sys
from gpu2npu.__main__ import main
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.{name})
sys.meta_path.insert(0, Finder())
main()
"""
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (code, f"Error: {message}\n", "")
