"""`gpu2npu verify` from end to end: a project that trains the same, one that does not, one that fails.

The first two run in processes that have torch imported; with GPU2NPU_TEST_VERIFY=all the first runs as users start it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from gpu2npu.cli.main import main
from gpu2npu.verify.recording.records import read_recordings

FIXTURE = Path(__file__).parents[2] / "fixtures" / "mnist_cnn"
TRAIN = ["train.py", "--train-size", "64", "--dropout", "0.2"]


def verified(python: Sequence[str | Path], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*python, "-m", "gpu2npu", "verify", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def clean(
    cpu_build: None, training_python: list[str | Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("verify") / "out"
    options = ["-i", FIXTURE, "-v", "2.1.0", "--steps", 3, "-o", folder, "--html", folder.with_suffix(".html"), "--"]
    if os.environ.get("GPU2NPU_TEST_VERIFY") == "all":
        return verified([sys.executable], *options, *TRAIN), folder
    return verified(training_python, *options, *training_python, *TRAIN), folder


def test_a_migration_that_trains_the_same_says_so(clean: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, folder = clean
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The original runs again, rounding otherwise, 1 of at most 3 times." in done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["step", "1"], ["step", "2"], ["step", "3"]]
    assert lines[3].startswith("The same: 3 steps, ")
    assert "HF32 for conv" in done.stdout
    assert "trained on" not in (folder / "migrated" / "plain" / "stdout").read_text()  # it ended after the third step
    (migrated,) = read_recordings(folder / "migrated" / "plain" / "recording")
    assert ("aten::convolution_overrideable", "numpy") in migrated.operators["Net.conv1"]
    page = folder.with_suffix(".html").read_text()
    assert "the same" in page and '"name":"Net.conv1"' in page and "://" not in page.replace("http://www.w3.org", "")


def test_a_change_that_matters_is_found_with_its_line(
    clean: tuple[subprocess.CompletedProcess[str], Path], training_python: list[str | Path], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(clean[1] / "migration" / "mnist_cnn_msft", copy)
    script = copy / "train.py"
    text = script.read_text()
    assert "optimizer.zero_grad()" in text
    script.write_text(text.replace("optimizer.zero_grad()", "pass"))
    options = ["-i", FIXTURE, "--migrated", copy, "--steps", 3, "--format", "json", "--"]
    done = verified(training_python, *options, *training_python, *TRAIN)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((files("gpu2npu.verify") / "report.schema.json").read_text()))
    first = found["first"]
    assert (first["step"], first["module"], first["cause"]) == (2, None, "gradients not zeroed")
    assert (first["original"][0], first["migrated"][0]) == ("train.py:26", "train.py:27")
    assert [line["text"].strip() for line in first["code"]["migrated"] if line["here"]] == ["loss.backward()"]
    assert len(found["losses"]) == 3 and found["verdict"] == "diverged"
    elements = {element["name"]: element for element in first["elements"]}
    assert elements["Net.fc2"]["step"] == 2 and len(elements["Net.fc2"]["place"]) == 2
    assert found["sources"]["migrated"]["train.py"]["27"].strip() == "loss.backward()"


@pytest.mark.usefixtures("cpu_build")
def test_a_program_that_fails_is_shown_with_the_change_near_it(
    training_python: list[str | Path], tmp_path: Path
) -> None:
    """A program that starts as users start it."""
    source = tmp_path / "project"
    source.mkdir()
    kernel = "CUDA: registered at /build/RegisterCUDA.cpp:1 [kernel]"
    error = f"ValueError(x.device.type + chr(10) + {kernel!r} + chr(10) + 'whole')"
    (source / "train.py").write_text(f"import torch\nx = torch.ones(2).cuda()\nraise {error}\n")
    done = verified(training_python, "-i", source, "-v", "2.1.0", "--", "train.py")
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("ValueError: "))
    assert lines[first + 1 : first + 4] == ["whole", "", "Traceback (most recent call last):"]
    assert kernel not in lines
    assert "change_list.csv, row" in done.stderr and "train.py, line 2" in done.stderr


@pytest.mark.usefixtures("cpu_build")
def test_an_original_that_cannot_be_played_is_shown_without_changes(
    training_python: list[str | Path], tmp_path: Path
) -> None:
    source, out = tmp_path / "project", tmp_path / "out"
    source.mkdir()
    (source / "train.py").write_text("import torch\ntorch.cuda.CUDAGraph()\n")
    done = verified(training_python, "-i", source, "-v", "2.1.0", "-o", out, "--", "train.py")
    assert done.returncode == 3
    assert "cannot play CUDA graphs: record the original on a GPU" in done.stderr
    assert "change_list.csv" not in done.stderr


@pytest.mark.parametrize("command", [["-i", FIXTURE, "-v", "2.1.0"], ["record", "-o", "x"], ["compare", __file__]])
def test_it_is_refused_within_the_emulated_npu(
    command: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU2NPU_NPUS", "8")
    monkeypatch.setattr(sys, "argv", ["gpu2npu", "verify", *map(str, command), "--", "train.py"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "without `gpu2npu run` before it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-i", FIXTURE, "--", "train.py"], "Give either -v"),
        (["-i", FIXTURE, "-v", "2.1.0"], "Missing CMD"),
        (["-i", "nowhere", "-v", "2.1.0", "--", "train.py"], "nowhere"),
        (["-i", FIXTURE, "-v", "2.1.0", "--soc", "Ascend1", "--", "train.py"], "--soc"),
        (["-i", FIXTURE, "-v", "2.1.0", "-o", FIXTURE / "out", "--", "train.py"], "which is copied"),
        (["-i", FIXTURE, "-v", "2.1.0", "--html", "nowhere/x.html", "--", "train.py"], "no folder"),
        (["-i", FIXTURE, "-v", "2.1.0", "--msprobe", FIXTURE, "--", "train.py"], "--msprobe"),
        (["-i", FIXTURE, "-v", "0.4", "--", "train.py"], "0.4"),
        (["-i", FIXTURE, "-v", "2.1.0", "--", "nothing.py"], "no such script"),
    ],
)
def test_wrong_use_is_one_sentence(
    arguments: list[object], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu2npu", "verify", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert words in err and "Traceback" not in err
