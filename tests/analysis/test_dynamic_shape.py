import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu2npu.analysis.dynamic_shape import PACKAGE, REPORT_NAME, instrument
from gpu2npu.cli.main import cli

HOOK = b"; from msft_dynamic_analysis.hook import DETECTOR"
NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 8)])

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x.mean(dim=1)
"""
TRAIN = '''"""Two processes train: batches of the first all have the same length, those of the second do not."""
from __future__ import annotations

import os
import sys

import torch
from torch.multiprocessing import start_processes
from torch.utils.data import DataLoader

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def train(rank, lengths):
    from model.net import Net

    os.environ["RANK"] = str(rank)
    data = [(torch.randint(0, 50, (length,)), torch.tensor(1)) for length in lengths[rank] for _ in range(2)]
    net = Net().to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for tokens, label in DataLoader(data, batch_size=2):
        loss = torch.nn.functional.cross_entropy(net(tokens.to(DEVICE)), label.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    if "--one" in sys.argv:
        train(0, [[3, 5]])
    else:
        start_processes(train, args=([[4, 4, 4], [3, 5, 4]],), nprocs=2, start_method="fork")
'''


Command = list[str | Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "talk"
    for path, text in {"model/__init__.py": "", "model/net.py": NET, "tools/train.py": TRAIN}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def run_tool(*arguments: object) -> None:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def report(folder: Path) -> list[dict[str, str]]:
    with (folder / REPORT_NAME).open(newline="") as file:
        return list(csv.DictReader(file))


def test_changing_lengths_are_found_with_their_lines_and_constant_ones_are_not(
    project: Path, training_python: Command, tmp_path: Path
) -> None:
    run_tool("analyse", "-q", "-i", project, "-o", tmp_path, "-v", "2.7.1", "-m", "dynamic_shape")
    copy = tmp_path / "talk_analysis" / "talk"
    subprocess.run([*training_python, "tools/train.py"], cwd=copy, check=True, timeout=600, env=environment())
    rows = report(copy)
    assert {row["Rank"] for row in rows} == {"1"}
    found = {(row["Function Name"], row["File Path"], row["Line Number"]) for row in rows}
    backward = TRAIN[: TRAIN.index("loss.backward")].count("\n") + 1
    assert {
        ("aten::embedding", "./model/net.py", "12"),
        ("aten::addmm", "./model/net.py", "14"),
        ("aten::relu", "./model/net.py", "14"),
        ("aten::mean.dim", "./model/net.py", "15"),
        ("aten::mm", "./tools/train.py", str(backward)),
    } <= found
    # What follows the mean has one size: neither the loss nor the optimizer are there.
    elsewhere = {path for _, path, line in found if (path, line) != ("./tools/train.py", str(backward))}
    assert elsewhere == {"./model/net.py"}
    embedding = next(row for row in rows if row["Function Name"] == "aten::embedding")
    assert embedding["Input Shape Range"] == "[(50, 8)-(50, 8)], [(2, 3)-(2, 5)]"
    assert embedding["Output Shape Range"] == "[(2, 3, 8)-(2, 5, 8)]"
    assert (embedding["Shapes"], embedding["Calls"], embedding["Device"]) == ("3", "3", "cpu")
    assert embedding["Call Stack"].count("line ") == 3 and "in train>" in embedding["Call Stack"]


def test_the_migrated_copy_reports_what_ran_on_the_npu(project: Path, training_python: Command, tmp_path: Path) -> None:
    run_tool("analyse", "-q", "-i", project, "-o", tmp_path, "-v", "2.7.1", "-m", "dynamic_shape")
    run_tool("-q", "-i", tmp_path / "talk_analysis" / "talk", "-o", tmp_path, "-v", "2.7.1")
    copy = tmp_path / "talk_msft"
    command = [sys.executable, "-m", "gpu2npu", "run", *training_python, "tools/train.py", "--one"]
    subprocess.run(command, cwd=copy, check=True, timeout=600, env=environment())
    rows = report(copy)
    assert {row["Device"] for row in rows} == {"npu"}
    lines = {(row["File Path"], row["Line Number"]) for row in rows}
    assert {("./model/net.py", "12"), ("./model/net.py", "14"), ("./model/net.py", "15")} <= lines


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MSFT_")}
    return {**inherited, "OMP_NUM_THREADS": "1"}


def test_scripts_get_one_import_and_every_line_keeps_its_number() -> None:
    files = {
        "train.py": b'"""Doc."""\nimport torch\nfrom lib import (\n    a,\n    b,\n)  # both\nfor x in y:\n    pass\n',
        "tools/run/eval.py": b"import torch\r\nif __name__ == '__main__':\r\n    f()\r\n",
        "lib.py": b"import torch\nfor x in range(3):\n    pass\n",
        "pkg/__init__.py": b"import torch\nprint(1)\nprint(2)\n",
        "setup.py": b"import torch\nif __name__ == '__main__':\n    setup()\n",
    }
    changed, notes = instrument(files)
    assert sorted(changed) == [f"{PACKAGE}/__init__.py", f"{PACKAGE}/hook.py", "tools/run/eval.py", "train.py"]
    assert changed["train.py"] == files["train.py"].replace(b")  # both", b")" + HOOK + b"  # both")
    first, rest = changed["tools/run/eval.py"].split(b"\r\n", 1)
    assert first.startswith(b"import torch; ") and b".parents[2]" in first and first.endswith(HOOK)
    assert rest == files["tools/run/eval.py"].split(b"\r\n", 1)[1]
    assert notes == []
    for path in ("train.py", "tools/run/eval.py"):
        compile(changed[path], path, "exec")


def test_a_byte_order_mark_and_a_future_import_stay_first() -> None:
    source = b"\xef\xbb\xbffrom __future__ import annotations\nwhile torch:\n    pass\n"
    changed, _ = instrument({"a.py": source})
    assert changed["a.py"] == source.replace(b"annotations", b"annotations" + HOOK)
    compile(changed["a.py"], "a.py", "exec")


def test_what_cannot_be_watched_is_reported() -> None:
    changed, notes = instrument(
        {"broken.py": b"import (", "n.ipynb": b'{"cells": ["import torch"]}', "deep.py": b"import a\n" + b"(" * 5000}
    )
    assert sorted(changed) == [f"{PACKAGE}/__init__.py", f"{PACKAGE}/hook.py"]
    expected = [("broken.py", True), ("deep.py", True), ("n.ipynb", False), (".", True)]
    assert [(note.path, note.failed) for note in notes] == expected
    _, notes = instrument({"m.py": b"def f():\n    import torch\nif __name__ == '__main__':\n    f()\n"})
    assert [note.path for note in notes] == ["m.py", "."]


def test_scripts_are_recognised_by_what_imports_them_and_what_they_lead_to() -> None:
    files = {
        "train.py": b"from model import net\nnet.train()\n",  # its torch comes from another file
        "model.py": b"import torch\nnet = torch.nn.Linear(1, 1)\nprint(net)\n",  # imported, though it acts
        "functions.py": b"from model import train\n",  # a function with the name of a script
        "report.py": b"import csv\ncsv.reader([])\nprint(1)\n",  # has nothing to do with torch
        "guarded.py": b"import torch\nif __name__ == '__main__' and torch.cuda.is_available():\n    pass\n",
    }
    changed, _ = instrument(files)
    assert sorted(path for path in changed if path in files) == ["guarded.py", "train.py"]


def test_the_hook_goes_behind_the_import_in_any_encoding() -> None:
    source = "# coding: latin-1\nx = 'é'; import torch  # é\nprint(torch)\n".encode("latin-1")
    changed, _ = instrument({"a.py": source})
    assert changed["a.py"] == source.replace(b"import torch", b"import torch" + HOOK)
