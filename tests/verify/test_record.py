"""References that travel: `gpu2npu verify record` and `compare`, and the file between them."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu2npu.cli.main import main
from gpu2npu.verify.comparing.ranks import compare_ranks
from gpu2npu.verify.comparing.tolerance import Tolerance
from gpu2npu.verify.recording.clock import Cost
from gpu2npu.verify.recording.environment import RecordingSettings
from gpu2npu.verify.recording.records import RecordingError, read_recordings
from gpu2npu.verify.recording.sites import Sites
from gpu2npu.verify.recording.writer import Writer
from gpu2npu.verify.reference_file import VERSION, read_reference, write_reference
from gpu2npu.verify.verdict import ReferenceRun

TRAIN = """\
import torch
from torch import nn

torch.manual_seed(1)
assert torch.cuda.is_available()
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2)).cuda()
net = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = net(torch.randn(4, 8).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LAYERS = 160  # as many modules and parameters as GPT-2 of 124 million parameters has


def recorded(folder: Path, layers: int, steps: int) -> ReferenceRun:
    """A reference of a program with as many layers, each of which makes five records a step."""
    writer = Writer(RecordingSettings(folder, folder, steps))
    sites, numbers = Sites(folder), torch.from_numpy(np.random.default_rng(0).standard_normal((layers, 64), np.float32))
    for step in range(steps):
        for layer in range(layers):
            name, values = f"Net.blocks.{layer}.attention", numbers[layer] * (step + 1.1)
            returned = writer.row(values)
            writer.tensor(step, "output", name, 0, 0, values, returned, 0, sites)
            writer.tensor(step, "input", f"{name}.next", 0, 0, values, returned, 0, sites)
            for kind in ("gradient", "parameter gradient", "parameter"):
                values = values.roll(1) * 0.9
                writer.tensor(step, kind, name, 0, 0, values, writer.row(values), 0, sites)
        writer.number(step, "rate", "SGD#0.0", 0, 0.1)
        writer.step(step, "SGD#0", Cost(0.5, 0.25, 1 << 20))
    writer.finish()
    (recording,) = read_recordings(folder)
    tolerance = Tolerance({event.key: 1e-6 for event in recording.events if event.tensor is not None}, ("conv",))
    whole = {event.key: np.full(event.tensor.shape, 0.5) for event in recording.events[:3] if event.tensor is not None}
    return ReferenceRun(((recording, tolerance),), steps, 1, (whole,))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReferenceRun, Path]:
    folder = tmp_path_factory.mktemp("reference")
    reference = recorded(folder / "recording", 2, 2)
    write_reference(folder / "small.gpu2npu", reference)
    return reference, folder / "small.gpu2npu"


def as_read(reference: ReferenceRun) -> str:
    """All that there is of a reference, as text."""
    with np.printoptions(threshold=1 << 30):
        ranks = [
            (replace(one, folder=None), list(tolerance.relative), tolerance.coarse)
            for one, tolerance in reference.ranks
        ]
        sketches = [event.tensor.sketch for one, *_ in ranks for event in one.events if event.tensor is not None]
        return repr((ranks, sketches, reference.steps, reference.whole))


def test_what_is_written_is_read(small: tuple[ReferenceRun, Path]) -> None:
    written, file = small
    found = read_reference(file)
    assert as_read(found) == as_read(written)
    (_, tolerance), (_, wanted) = found.ranks[0], written.ranks[0]
    assert list(tolerance.relative.values()) == pytest.approx(list(wanted.relative.values()))
    assert sorted(path.name for path in file.parent.iterdir()) == ["recording", "small.gpu2npu"]


def test_steps_of_a_hundred_million_parameters_take_less_than_half_a_megabyte_each(tmp_path: Path) -> None:
    write_reference(tmp_path / "large.gpu2npu", recorded(tmp_path / "recording", LAYERS, 3))
    assert (tmp_path / "large.gpu2npu").stat().st_size < 3 * 0.5e6


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 1 << 20), bits=st.integers(1, 255), length=st.integers(0, 1 << 20))
def test_a_damaged_file_is_refused_or_read_as_it_was(
    small: tuple[ReferenceRun, Path], place: int, bits: int, length: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    written, file = small
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= bits
    damaged = file.parent.parent / f"damaged-{os.getpid()}.gpu2npu"
    for changed in (content, content[: length % len(content)]):
        damaged.write_bytes(changed)
        try:
            found = read_reference(damaged)
        except RecordingError as error:
            assert str(damaged) in str(error) and "\n" not in str(error)
        else:
            assert as_read(found) == as_read(written)


def test_whole_tensors_whose_name_is_damaged_are_missed(small: tuple[ReferenceRun, Path], tmp_path: Path) -> None:
    content = bytearray(small[1].read_bytes())
    content[content.rindex(b"0/whole.json") + 2] ^= 1  # in the directory at the end of the file
    (tmp_path / "damaged.gpu2npu").write_bytes(content)
    with pytest.raises(RecordingError, match="is damaged"):
        read_reference(tmp_path / "damaged.gpu2npu")


def changed(file: Path, to: Path, **fields: object) -> Path:
    """A copy of a reference that says other things of itself, or of which a file is another text."""
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(to, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "reference.json" and not {*fields} & {*source.namelist()}:
                content = json.dumps(json.loads(content) | fields).encode()
            elif name in fields:
                content = str(fields[name]).encode()
            target.writestr(name, content)
    return to


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": VERSION + 1}, f"is of version {VERSION + 1}, and this gpu2npu reads up to {VERSION}"),
        ({"version": VERSION - 1}, "in a format that is no longer read: record it again"),
        ({"version": "new"}, "is damaged"),
        ({"format": "something else"}, "its format is"),
        ({"ranks": 0}, "it holds no rank"),
        ({"ranks": 2}, "is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    small: tuple[ReferenceRun, Path], tmp_path: Path, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(RecordingError, match=words):
        read_reference(changed(small[1], tmp_path / "changed.gpu2npu", **fields))


def verify(python: Sequence[str | Path], *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*python, "-m", "gpu2npu", "verify", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.usefixtures("cpu_build")
def test_a_reference_is_recorded_and_compared_with_another_program(
    training_python: list[str | Path], tmp_path: Path
) -> None:
    train = ("--", *training_python, "train.py")
    project, copy = tmp_path / "project", tmp_path / "copy"
    casting = "import torch, torch_npu\ntorch.ones(2, device='npu').double()\n"
    for folder, text in ((project, TRAIN), (copy, casting + TRAIN.replace("cuda", "npu"))):
        folder.mkdir()
        (folder / "train.py").write_text(text.replace("lr=0.1", "lr=0.2") if folder == copy else text)
    done = verify(
        training_python, "record", "-o", tmp_path / "ref.gpu2npu", "--steps", 3, "--tensors", 1, *train, folder=project
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[:3]] == [["step", "1"], ["step", "2"], ["step", "3"]]
    assert "3 steps on a GPU played on the CPU" in done.stdout
    shutil.rmtree(project)
    baseline = tmp_path / "baseline.json"
    right = tmp_path / "right"
    right.mkdir()
    (right / "train.py").write_text((copy / "train.py").read_text().replace("lr=0.2", "lr=0.1"))
    keep = ("compare", tmp_path / "ref.gpu2npu", "--baseline", baseline, "--update-baseline", *train)
    done = verify(training_python, *keep, folder=right)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by row: float64-cast (1); gpu2npu rules explain float64-cast." in done.stdout
    runs = json.loads(baseline.read_text())["runs"]
    assert len(runs) == 3 and runs[0]["losses"] == runs[1]["losses"] and runs[0]["memory"][0] > 8 * 16 * 4
    arguments = ("compare", tmp_path / "ref.gpu2npu", "--format", "json", "--baseline", baseline, *train)
    done = verify(training_python, *arguments, folder=copy)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["first"]["step"], found["first"]["cause"], found["steps"]) == (1, "other learning rate", 3)
    steps = [line for line in done.stderr.splitlines() if line.startswith("step")]  # phases are before, and between
    assert steps[0].startswith("step   1  original ")
    assert found["compile_switched_off"]
    assert found["behaviour"] == {"float64-cast": 1}
    parameters = [each for each in found["first"]["elements"] if each["kind"] == "parameter"]
    assert parameters and {each["step"] for each in parameters} == {1}
    losses = [change for change in found["baseline"]["changes"] if change["what"] == "loss"]
    assert [(change["step"], change["before"]) for change in losses] == [(2, runs[0]["losses"][1])]


def test_a_reference_travels_between_releases_of_pytorch(small: tuple[ReferenceRun, Path], tmp_path: Path) -> None:
    """The file of another release: there is one release of PyTorch on a machine, so the file says that it is of one."""
    written, file = small
    lines = written.ranks[0][0].folder / "events.jsonl"  # type: ignore[operator]
    first, _, rest = lines.read_text().partition("\n")
    other = json.dumps(json.loads(first) | {"torch": "2.9.1+cu128"})
    moved = changed(file, tmp_path / "moved.gpu2npu", **{"0/events.jsonl": f"{other}\n{rest}"})
    found = read_reference(moved)
    ((recording, _),) = found.ranks
    assert recording.torch == "2.9.1+cu128" and torch.__version__ not in recording.torch
    (comparison,) = compare_ranks(found.ranks, [written.ranks[0][0]])
    assert comparison.first is None and len(comparison.measured) == sum(
        event.tensor is not None or event.value is not None for event in recording.events
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-i", ".", "record", "-o", "x.gpu2npu", "--", "train.py"], "has no meaning before 'record'"),
        (["record", "-o", "x.gpu2npu"], "Missing CMD"),
        (["record", "-o", "nowhere/x.gpu2npu", "--", "train.py"], "there is no folder"),
        (["record", "-o", "x.gpu2npu", "--", "train.py"], "no such script"),
        (["record", "-o", "x.gpu2npu", "--steps", "2", "--tensors", "3", "--", "train.py"], "a step after the last"),
        (["compare", "nothing.gpu2npu", "--", "train.py"], "does not exist"),
        (
            ["compare", "text.gpu2npu", "--baseline", "no.json", "--", "train.py"],
            "there is no such file; --update-baseline",
        ),
        (["compare", "text.gpu2npu", "--update-baseline", "--", "train.py"], "--update-baseline needs --baseline"),
        (["compare", "text.gpu2npu", "--", "train.py"], "is damaged, or no reference"),
    ],
)
def test_wrong_use_is_one_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.gpu2npu").write_text("a file of another kind")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gpu2npu", "verify", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert words in err and "Traceback" not in err and len(err.splitlines()) == 1
