"""The hook of .pre-commit-hooks.yaml, its command run as pre-commit runs it: in the root of the repository, the `entry`
followed by the `args`, which are the user's own if there are any."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
GUIDE = (ROOT / "docs" / "ci.md").read_text()
# The keys of a hook: https://pre-commit.com/#creating-new-hooks, of which pre-commit requires the first four.
REQUIRED = {"id", "name", "entry", "language"}
KEYS = {
    *REQUIRED,
    *("files", "exclude", "types", "types_or", "exclude_types", "always_run", "fail_fast", "verbose"),
    *("pass_filenames", "require_serial", "description", "language_version", "minimum_pre_commit_version"),
    *("args", "stages", "additional_dependencies", "log_file"),
}
# Tags of files: https://github.com/pre-commit/identify, identify/identify.py and identify/extensions.py.
TAGS = {"file", "text", "binary", "python", "jupyter", "yaml", "json", "toml", "shell", "dockerfile", "c++", "cuda"}


def documented() -> dict[str, Any]:
    """The hook as docs/ci.md sets it up."""
    (setup,) = [block for block in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if "hooks:" in block]
    hook: dict[str, Any] = yaml.safe_load(setup)["repos"][0]["hooks"][0]
    return hook


def run_hook(folder: Path, args: list[str], cache: Path) -> subprocess.CompletedProcess[str]:
    program, *rest = shlex.split(HOOK["entry"])
    return subprocess.run(
        [Path(sys.executable).parent / program, *rest, *args],
        cwd=folder,
        env={"XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "clean.py").write_text("import os\n")
    return folder


def test_it_is_a_hook_of_the_whole_project() -> None:
    assert REQUIRED <= HOOK.keys() <= KEYS
    assert HOOK["language"] == "python"  # pre-commit installs this package, and with it the entry's program
    assert set(HOOK["types"]) <= TAGS
    assert HOOK["pass_filenames"] is False
    assert HOOK["require_serial"] is True


def test_a_clean_project_passes(project: Path, tmp_path: Path) -> None:
    assert run_hook(project, HOOK["args"], tmp_path / "cache").returncode == 0


def test_a_finding_fails_and_is_shown(project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("import torch\nkernel = torch.cuda.jiterator._create_jit_fn('x')\n")
    done = run_hook(project, HOOK["args"], tmp_path / "cache")
    assert done.returncode == 1
    assert done.stdout.startswith("train.py:2:10 cuda-jiterator [blocker, unsupported]")


def test_the_arguments_of_the_guide(project: Path, tmp_path: Path) -> None:
    """`--fail-on any` and a baseline, which has to be made first."""
    (project / "train.py").write_text("import torch\nkernel = torch.cuda.jiterator._create_jit_fn('x')\n")
    guide_hook = documented()
    assert guide_hook["id"] == HOOK["id"]
    before = run_hook(project, guide_hook["args"], tmp_path / "cache")
    assert (before.returncode, before.stdout) == (2, "")
    assert "--update-baseline makes one" in before.stderr
    assert run_hook(project, [*guide_hook["args"], "--update-baseline"], tmp_path / "cache").returncode == 0
    assert run_hook(project, guide_hook["args"], tmp_path / "cache").returncode == 0
