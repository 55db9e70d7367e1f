"""mindstudio-probe reads what `verify --msprobe` writes: `msprobe compare` and the graph of its view, unchanged.

`make test-verify` installs it in an environment of its own; GPU2NPU_TEST_MSPROBE names its command.
"""

import csv
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

FIXTURE = Path(__file__).parents[2] / "fixtures" / "mnist_cnn"
MSPROBE = os.environ.get("GPU2NPU_TEST_MSPROBE", "")
TRAIN = ["train.py", "--train-size", "64"]

pytestmark = [
    pytest.mark.skipif(not MSPROBE, reason="make test-verify installs mindstudio-probe and runs these"),
    pytest.mark.xdist_group("msprobe"),
]


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def dumps(training_python: list[str | Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both sides of a program whose copy doubles what its dropout is given."""
    folder = tmp_path_factory.mktemp("dumps")
    copy = folder / "mnist_cnn_msft"
    run(*training_python, "-m", "gpu2npu", "-i", FIXTURE, "-o", folder, "-v", "2.1.0")
    model = copy / "model.py"
    assert "self.dropout(F.relu(self.fc1(x)))" in model.read_text()
    model.write_text(model.read_text().replace("self.dropout(F.relu", "self.dropout(2 * F.relu"))
    options = ["-i", FIXTURE, "--migrated", copy, "--steps", 2, "--msprobe", folder / "dumps", "--"]
    command = [*training_python, "-m", "gpu2npu", "verify", *options, *training_python, *TRAIN]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return folder / "dumps"


def test_compare_finds_every_tensor_on_both_sides(dumps: Path, tmp_path: Path) -> None:
    migrated, original = (dumps / side / "step0" / "rank0" / "dump.json" for side in ("migrated", "original"))
    run(MSPROBE, "compare", "-tp", migrated, "-gp", original, "-o", tmp_path)
    (table,) = tmp_path.glob("compare_result_*.csv")
    with table.open(newline="") as file:
        rows = {row["NPU Name"]: row for row in csv.DictReader(file)}
    assert len(rows) > 40
    assert all(row["Bench Name"] == name for name, row in rows.items())
    given, made = rows["Module.Net.dropout.Dropout.forward.0.input.0"], rows["Module.Net.fc1.Linear.forward.0.output.0"]
    assert float(given["MaxAbsErr"]) > 100 * float(made["MaxAbsErr"]) > 0.0
    assert "model.py, line" in given["NPU_Stack_Info"]


def test_the_graph_matches_every_module(dumps: Path, tmp_path: Path) -> None:
    migrated, original = (dumps / side / "step0" for side in ("migrated", "original"))
    run(MSPROBE, "graph_visualize", "-tp", migrated, "-gp", original, "-o", tmp_path)
    (view,) = tmp_path.glob("*.vis.db")
    shutil.copy(view, tmp_path / "read.db")
    with sqlite3.connect(tmp_path / "read.db") as database:
        nodes = database.execute("select data_source, node_name, matched_node_link from tb_nodes").fetchall()
    sides = {side: {name for source, name, _ in nodes if source == side} for side in ("NPU", "Bench")}
    assert sides["NPU"] == sides["Bench"] and "Module.Net.conv1.Conv2d.backward.0" in sides["NPU"]
    assert all(link not in (None, "", "[]") for _, _, link in nodes)
