"""mindstudio-probe: its `compare` and its graphs read what `gpu2npu verify --msprobe` writes of both programs."""

import csv
import os
import sqlite3
import subprocess

import pytest
import torch

TRAIN = """\
import torch
import torch_npu
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))

    def forward(self, x):
        return self.layers(x)

torch.manual_seed(1)
net = Net().npu()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = nn.functional.cross_entropy(net(torch.randn(4, 1, 8, 8).npu()), torch.arange(4).npu())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WRONG = TRAIN.replace("self.layers(x)", "self.layers(x * 2)")
GIVEN, MADE = "Module.Net.Net.forward.0.input.0", "Module.Net.layers.0.Conv2d.forward.0.output.0"


def run(*command, code=0):
    """Run a command as a user does, outside of the emulated NPU that the tests run on."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("GPU2NPU_", "PYTHONPATH"))}
    result = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, env=settings)
    assert result.returncode == code, result.stdout + result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("msprobe")


@pytest.fixture
def dumps(gpu2npu, folder):
    """The dumps of a program and of a copy that doubles what its layers are given, made once."""
    if torch.version.cuda or torch.version.hip:
        pytest.skip(f"torch {torch.__version__} is built for GPUs, whose part only a CPU build can play")
    if not (folder / "dumps").exists():
        original = TRAIN.replace("import torch_npu\n", "").replace("npu()", "cuda()")
        for name, text in (("original", original), ("copy", WRONG)):
            (folder / name).mkdir()
            (folder / name / "train.py").write_text(text)
        command = (gpu2npu, "verify", "-i", folder / "original", "--migrated", folder / "copy", "--steps", 2)
        run(*command, "--msprobe", folder / "dumps", "--", "train.py", code=1)
    return folder / "dumps"


def test_compare_reads_both(gpu2npu, dumps, folder):
    dump = "step0/rank0/dump.json"
    paths = ("-tp", dumps / "migrated" / dump, "-gp", dumps / "original" / dump, "-o", folder / "compared")
    run(gpu2npu, "run", "msprobe", "compare", *paths)
    (table,) = (folder / "compared").glob("*.csv")
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = {row["NPU Name"]: row for row in csv.DictReader(file)}
    assert {row["Bench Name"] for row in rows.values()} == set(rows)
    assert float(rows[GIVEN]["MaxAbsErr"]) == 0 and float(rows[MADE]["MaxAbsErr"]) > 0.1
    assert "train.py" in rows[GIVEN]["NPU_Stack_Info"]
    assert {"Module.Net.layers.3.Linear.backward.0.input.0", "Module.Net.layers.3.Linear.parameters_grad.0.weight"} <= {
        *rows
    }


def test_graphs_have_the_tree_of_modules(gpu2npu, dumps, folder):
    paths = ("-tp", dumps / "migrated" / "step0", "-gp", dumps / "original" / "step0", "-o", folder / "graph")
    run(gpu2npu, "run", "msprobe", "graph_visualize", *paths)
    (file,) = (folder / "graph").glob("*.vis.db")
    query = "select data_source, node_name, up_node from tb_nodes where node_name like 'Module.%'"
    nodes = sqlite3.connect(file).execute(query).fetchall()
    for source in ("NPU", "Bench"):
        parents = {name: parent for side, name, parent in nodes if side == source}
        assert parents["Module.Net.layers.0.Conv2d.forward.0"] == "Module.Net.layers.Sequential.forward.0"
        assert parents["Module.Net.layers.3.Linear.backward.0"] == "Module.Net.layers.Sequential.backward.0"
        assert parents["Module.Net.layers.Sequential.backward.0"] == "Module.Net.Net.backward.0"
