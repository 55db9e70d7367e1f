"""Programs that the NPU refuses for a dtype, a layout or a collective: `check` has a finding for each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.project.check.request import CheckRequest
from gpu2npu.project.check.session import check_project

HEAD = "import torch\nimport torch.distributed as dist\nfrom torch import nn\nfrom torch.nn import functional as F\n"
SNIPPETS = {
    "default dtype": "torch.set_default_dtype(torch.float64)\nnn.Linear(4, 4).cuda()(torch.rand(2, 4).cuda())",
    "module": "net = nn.Linear(4, 4).double().cuda()\nnet(torch.rand(2, 4, dtype=torch.float64).cuda())",
    "convolution": "net = nn.Conv2d(3, 4, 3, dtype=torch.float64).cuda()\nnet(torch.rand(1, 3, 8, 8).double().cuda())",
    "transposed": "nn.ConvTranspose1d(3, 4, 3, dtype=torch.double).cuda()(torch.rand(1, 3, 8).double().cuda())",
    "convolution function": "x = torch.rand(1, 1, 8, dtype=torch.float64, device='cuda')\nF.conv1d(x, x)",
    "product": "a = torch.rand(4, 4, dtype=torch.float64, device='cuda')\na @ a",
    "product of one": "a = torch.rand(4, 4, dtype=torch.float64).cuda()\nb = a.t()\nc = b @ a",
    "mm": "a = torch.ones(4, 4, dtype=torch.double).cuda()\ntorch.mm(a, a)",
    "matmul": "a = torch.rand(4, 4, device='cuda').double()\nb = torch.matmul(a, a)",
    "bmm": "a = torch.zeros(2, 4, 4, dtype=torch.float64, device='cuda')\na.bmm(a)",
    "addmm": "a = torch.ones(4, 4, dtype=torch.float64).to('cuda')\ntorch.addmm(a, a, a)",
    "mv": "a = torch.ones(4, 4, dtype=torch.float64, device='cuda')\na.mv(torch.ones(4, dtype=torch.float64).cuda())",
    "linear": "w = torch.rand(4, 4, dtype=torch.float64, device='cuda')\nF.linear(w, w)",
    "lstm": "net = nn.LSTM(4, 4, dtype=torch.float64).cuda()\nnet(torch.rand(3, 1, 4, dtype=torch.float64).cuda())",
    "attention": "q = torch.rand(1, 2, 4, 8, dtype=torch.float64).cuda()\nF.scaled_dot_product_attention(q, q, q)",
    "channels last": "nn.Conv2d(3, 4, 3).cuda().to(memory_format=torch.channels_last)",
    "channels last tensor": "torch.rand(1, 3, 8, 8).cuda().contiguous(memory_format=torch.channels_last)",
    "compressed layout": "torch.eye(4).cuda().to_sparse_csr()",
    "sparse product": "torch.sparse.mm(torch.eye(4).to_sparse().cuda(), torch.rand(4, 4).cuda())",
    "sparse gradient": "e = nn.Embedding(4, 4, sparse=True).cuda()\ne(torch.tensor([1]).cuda()).sum().backward()",
    "all_reduce": "total = torch.zeros(1, dtype=torch.float64, device='cuda')\ndist.all_reduce(total)",
    "reduce": "loss = torch.tensor(1.0, dtype=torch.float64, device='cuda')\ndist.reduce(loss, 0)",
    "all_reduce of a sum": "s = torch.ones(2).double().cuda()\ndist.all_reduce(s, op=dist.ReduceOp.SUM)",
}
RUNNER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, torch_npu
import torch.distributed as dist
from torch_npu.contrib import transfer_to_npu

dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
refused = []
for name, text in json.load(open(sys.argv[1])).items():
    torch.set_default_dtype(torch.float32)
    try:
        exec(text, {})
    except (RuntimeError, NotImplementedError):
        refused.append(name)
dist.destroy_process_group()
json.dump(refused, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the snippets that raise on the emulated NPU where an operator without a kernel is an error."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "snippets.json").write_text(json.dumps({name: HEAD + text for name, text in SNIPPETS.items()}))
    (folder / "runner.py").write_text(RUNNER)
    command = [sys.executable, "-m", "gpu2npu", "run", "--strict", "runner.py", "snippets.json", "refused.json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    names: list[str] = json.loads((folder / "refused.json").read_text())
    return names


def test_the_npu_refuses_all(refused: list[str]) -> None:
    assert sorted(refused) == sorted(SNIPPETS) and len(refused) >= 20


def test_check_finds_all(tmp_path: Path) -> None:
    for name, text in SNIPPETS.items():
        (tmp_path / f"{name.replace(' ', '_')}.py").write_text(f"{HEAD}{text}\n")
    result, _ = check_project(CheckRequest((tmp_path,), "2.7.1", jobs=1))
    said = {file.path for file in result.files if file.findings}
    assert {file.path for file in result.files} - said == set()
    assert len(result.files) == len(SNIPPETS)
