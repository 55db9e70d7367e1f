"""Uses of CUDA that the reference cannot play are found in a program's text."""

from pathlib import Path

import pytest

from gpu2npu.verify.unplayed import unplayed

USES = """\
import torch
from torch import cuda, nn
from torch.cuda import max_memory_allocated as peak
import triton
import fast

@triton.jit
def kernel(): ...

def main(net):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    with cuda.graph(fast.Graph()):
        print(peak())
    fast.graph(net)
"""
FAST = "from torch.cuda import CUDAGraph as Graph\ndef graph(net): ...\n"


@pytest.mark.parametrize("cards", [1, 2])
def test_the_first_use_of_each_kind_is_found(cards: int, tmp_path: Path) -> None:
    sources = {
        "train.py": USES.encode(),
        "fast.py": FAST.encode(),
        "broken.py": b"def CUDAGraph(:",
        "odd.py": b"\xffCUDAGraph",
    }
    found = {(each.name, each.path, each.line) for each in unplayed(tmp_path, sources, cards)}
    expected = {
        ("triton.jit", "train.py", 7),
        ("torch.cuda.graph", "train.py", 12),
        ("torch.cuda.max_memory_allocated", "train.py", 13),
    }
    synchronized = {("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "train.py", 11)}
    assert found == (expected | synchronized if cards > 1 else expected)


def test_names_of_the_project_itself_are_played(tmp_path: Path) -> None:
    own = b"class CUDAGraph: ...\ndef memory_allocated(): ...\nCUDAGraph(), memory_allocated()\n"
    assert not unplayed(tmp_path, {"train.py": own}, 2)
