"""action.yml, its steps run as GitHub's runner runs them: with the inputs in the environment, by the bash it documents
("Workflow syntax for GitHub Actions", jobs.<job_id>.steps[*].shell: `bash --noprofile --norc -eo pipefail {0}`)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, TEST, CHECK = ACTION["runs"]["steps"]
GUIDE = (ROOT / "docs" / "ci.md").read_text()
FINDING = "import torch\nkernel = torch.cuda.jiterator._create_jit_fn('x')\n"
GITHUB = {"github.action_repository": "owner/gpu2npu", "github.action_ref": "v1"}


def evaluated(text: str, inputs: dict[str, str]) -> str:
    """`text` with the values of its expressions. Raises KeyError for an input that the action does not have."""
    given = {name: str(each["default"]) for name, each in ACTION["inputs"].items()}
    assert inputs.keys() <= given.keys()
    known = {f"inputs.{name}": value for name, value in {**given, **inputs}.items()} | GITHUB
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda match: known[match[1]], text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    folder.mkdir(parents=True)
    (folder / "clean.py").write_text("import os\n")
    return folder


def step(
    step: dict[str, Any], folder: Path, program: Path = Path(sys.executable).parent, **inputs: str
) -> subprocess.CompletedProcess[str]:
    """Runs a step in `folder`, with the programs in the folder `program` found first."""
    script = folder.parent / "step.sh"
    script.write_text(step["run"])
    variables = {
        name: evaluated(value, {key.replace("_", "-"): text for key, text in inputs.items()})
        for name, value in step["env"].items()
    }
    known = {"PATH": f"{program}{os.pathsep}{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder.parent / "cache")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=folder,
        env={**os.environ, **known, "GITHUB_ACTION_PATH": "/actions/gpu2npu copy", **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def stand_in(folder: Path, name: str) -> Path:
    """A folder with a program `name` that prints each of its arguments on a line."""
    folder.mkdir()
    (folder / name).write_text("#!/bin/sh\nprintf '[%s]\\n' \"$@\"\n")
    (folder / name).chmod(0o755)
    return folder


def results(report: Path) -> list[dict[str, Any]]:
    (run,) = json.loads(report.read_text())["runs"]
    found: list[dict[str, Any]] = run["results"]
    return found


def test_a_clean_project_passes_with_the_defaults(project: Path) -> None:
    done = step(CHECK, project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert results(project / "gpu2npu.sarif") == []


def test_a_finding_fails_the_step_and_is_in_both_reports(project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "train.py").write_text(FINDING)
    done = step(CHECK, project, version="2.7.1", sarif_file="reports/npu.sarif", paths="src clean.py")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.fullmatch(r"::error file=src/train\.py,line=2,.*title=gpu2npu cuda-jiterator::.*\n", done.stdout)
    (found,) = results(project / "reports" / "npu.sarif")
    place = found["locations"][0]["physicalLocation"]
    assert (found["ruleId"], place["artifactLocation"]["uri"]) == ("cuda-jiterator", "src/train.py")


def test_known_findings_pass(project: Path) -> None:
    (project / "train.py").write_text(FINDING)
    accept = [Path(sys.executable).parent / "gpu2npu", "check", ".", "--baseline", "known.json", "--update-baseline"]
    subprocess.run(accept, cwd=project, capture_output=True, timeout=600, check=True)
    done = step(CHECK, project, baseline="known.json", fail_on="any", sarif_file="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (project / "gpu2npu.sarif").exists()


def test_a_baseline_that_is_not_there_is_reported(project: Path) -> None:
    done = step(CHECK, project, baseline="known.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: The baseline 'known.json' is not a file")


@pytest.mark.parametrize(
    ("paths", "given"),
    [
        (".", ["."]),
        ("src  tools/x.py ", ["src", "tools/x.py"]),
        ("--version", ["--version"]),
        ("my models\n", ["my models"]),
        ("my models\n\nsrc/*\n$(touch made)\n", ["my models", "src/*", "$(touch made)"]),
    ],
)
def test_what_is_checked(project: Path, tmp_path: Path, paths: str, given: list[str]) -> None:
    done = step(CHECK, project, stand_in(tmp_path / "bin", "gpu2npu"), paths=paths, sarif_file="")
    lines = ["check", "--quiet", "--format", "github", "--fail-on", "unsupported", "--", *given]
    assert done.stdout.splitlines() == [f"[{line}]" for line in lines]
    assert done.returncode == 0
    assert not (project / "made").exists()


def test_every_input_reaches_the_command(project: Path, tmp_path: Path) -> None:
    inputs = {
        "version": "2.7.1",
        "soc": "910A  A3",
        "fail_on": "any",
        "baseline": "my base.json",
        "sarif_file": "my report.sarif",
    }
    done = step(CHECK, project, stand_in(tmp_path / "bin", "gpu2npu"), **inputs)
    options = ["check", "--quiet", "--version", "2.7.1", "--soc", "910A", "--soc", "A3"]
    options += ["--baseline", "my base.json", "--format"]
    sarif = [*options, "sarif", "--fail-on", "never", "--output", "my report.sarif", "--", "."]
    github = [*options, "github", "--fail-on", "any", "--", "."]
    assert done.stdout.splitlines() == [f"[{line}]" for line in (*sarif, *github)]
    assert evaluated(ACTION["outputs"]["sarif-file"]["value"], {"sarif-file": "my report.sarif"}) == "my report.sarif"


@pytest.mark.parametrize(("package", "installed"), [("", "/actions/gpu2npu copy"), ("gpu2npu==0.1", "gpu2npu==0.1")])
def test_what_is_installed(project: Path, tmp_path: Path, package: str, installed: str) -> None:
    """The action's own copy, so that the reference after the @ of `uses` is which version runs."""
    done = step(INSTALL, project, stand_in(tmp_path / "bin", "python"), package=package)
    assert done.stdout.splitlines() == [f"[{line}]" for line in ("-m", "pip", "install", "--quiet", installed)]
    assert done.returncode == 0


def test_mode_test_installs_the_emulator_and_runs_pytest_on_it(project: Path, tmp_path: Path) -> None:
    assert (TEST["if"], CHECK["if"]) == ("inputs.mode == 'test'", "inputs.mode == 'check'")
    programs = stand_in(tmp_path / "bin", "python")
    done = step(INSTALL, project, programs, mode="test")
    assert done.stdout.split("\n")[-3:-1] == ["[/actions/gpu2npu copy[emulator]]", "[pytest]"]
    stand_in(tmp_path / "other", "gpu2npu")
    done = step(TEST, project, tmp_path / "other", tests="tests -q", npus="2", soc="Ascend910A")
    words = ["run", "--npus", "2", "--soc", "Ascend910A", "-m", "pytest", "-p", "gpu2npu.pytest"]
    words += ["--npu-report", "npu-report.json", "tests", "-q"]
    assert done.stdout == "".join(f"[{word}]\n" for word in words)
    done = step(TEST, project, tmp_path / "other", tests="a b.py\n-q")
    assert done.stdout.endswith("[a b.py]\n[-q]\n")
    refused = step(INSTALL, project, programs, mode="run")
    assert refused.returncode == 2 and "mode is check or test" in refused.stderr


@pytest.mark.parametrize("each", [INSTALL, TEST, CHECK], ids=["install", "test", "check"])
def test_no_expression_is_in_a_script(each: dict[str, Any]) -> None:
    """There an input could be a command."""
    assert each["shell"] == "bash"
    assert "${{" not in each["run"]
    linter = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run(
        [linter, "--shell=bash", "-"], input=each["run"], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_guide_uses_what_the_action_has() -> None:
    workflow = yaml.safe_load(
        next(block for block in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if "jobs:" in block)
    )
    steps = workflow["jobs"]["check"]["steps"]
    (used,) = [each for each in steps if "/gpu2npu@" in each.get("uses", "")]
    assert used["with"].keys() <= ACTION["inputs"].keys()
    outputs = re.findall(rf"steps\.{used['id']}\.outputs\.([\w-]+)", GUIDE)
    assert outputs and set(outputs) <= ACTION["outputs"].keys()
