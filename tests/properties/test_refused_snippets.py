"""Programs that the NPU refuses for a dtype, a layout or a collective: `check` has a finding for each."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.support.behaviour import RAISES, rows
from gpu2npu.support.chips import DEFAULT_CHIP

VERSION = "2.7.1"
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
    "all_reduce": "total = torch.zeros(1, dtype=torch.float64, device='cuda')\ndist.all_reduce(total)",
    "reduce": "loss = torch.tensor(1.0, dtype=torch.float64, device='cuda')\ndist.reduce(loss, 0)",
    "all_reduce of a sum": "s = torch.ones(2).double().cuda()\ndist.all_reduce(s, op=dist.ReduceOp.SUM)",
    "complex product": "a = torch.ones(2, 2, dtype=torch.complex64, device='cuda')\na @ a",
    "integer product": "a = torch.arange(4).reshape(2, 2).cuda()\ntorch.matmul(a, a)",
    "integer einsum": "a = torch.ones(2, 2, dtype=torch.int64).cuda()\ntorch.einsum('ij,jk->ik', a, a)",
    "dilated pooling": "x = torch.rand(1, 1, 8, 8).cuda()\nF.max_pool2d(x, 2, dilation=2)",
    "dilated pooling module": (
        "pool = nn.MaxPool2d(kernel_size=3, stride=1, padding=0, dilation=2)\npool(torch.rand(1, 1, 8, 8).cuda())"
    ),
    "average of integers": "n = torch.tensor([3]).cuda()\ndist.all_reduce(n, op=dist.ReduceOp.AVG)",
    "bitwise": "f = torch.ones(1, dtype=torch.int32, device='cuda')\ndist.all_reduce(f, dist.ReduceOp.BOR)",
    "reduce_scatter of bytes": (
        "out = torch.zeros(1, dtype=torch.uint8).cuda()\n"
        "dist.reduce_scatter_tensor(out, torch.zeros(1, dtype=torch.uint8).cuda())"
    ),
    "product of bfloat16": "p = torch.ones(2, device='cuda').bfloat16()\ndist.all_reduce(p, op=dist.ReduceOp.PRODUCT)",
    "model to float64": (
        "net = nn.Linear(4, 4).to('cuda', torch.float64)\nnet(torch.rand(2, 4, dtype=torch.float64, device='cuda'))"
    ),
    "sequence to double": (
        "net = nn.Sequential(nn.Linear(4, 4)).to(dtype=torch.double).cuda()\nnet(torch.rand(2, 4).double().cuda())"
    ),
    "numpy": "import numpy as np\na = torch.from_numpy(np.eye(4)).cuda()\na @ a",
    "empty channels last": "torch.empty(1, 3, 8, 8, device='cuda', memory_format=torch.channels_last)",
    "own module": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(4, 4)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.fc(x)\n"
        "\n"
        "\n"
        "net = Net().double().cuda()\n"
        "net(torch.rand(2, 4, dtype=torch.float64).cuda())"
    ),
    "mean of ranks": (
        "def mean(values):\n"
        "    total = torch.tensor(values, dtype=torch.float64, device='cuda')\n"
        "    dist.all_reduce(total, op=dist.ReduceOp.SUM)\n"
        "    return total / dist.get_world_size()\n"
        "\n"
        "\n"
        "mean([1.0])"
    ),
    "meter": (
        "class Meter:\n"
        "    def __init__(self):\n"
        "        self.total = torch.zeros(1, dtype=torch.float64, device='cuda')\n"
        "\n"
        "    def sync(self):\n"
        "        dist.all_reduce(self.total)\n"
        "\n"
        "\n"
        "Meter().sync()"
    ),
    "mm of long": "w = torch.ones(4, 4, dtype=torch.long, device='cuda')\nw.mm(w)",
    "resized": "x = torch.ones(1, 2, 3, 4, device='cuda')\nx.resize_(1, 4, 3, 2, memory_format=torch.channels_last)",
    "embedding bag": (
        "e = nn.EmbeddingBag(4, 4, mode='sum', sparse=True).cuda()\ne(torch.tensor([[1, 2]]).cuda()).sum().backward()"
    ),
    "double by type": "a = torch.eye(4).cuda().type(torch.float64)\ntorch.bmm(a[None], a[None])",
    "gather of complex": "z = torch.zeros(2, dtype=torch.cfloat).cuda()\ndist.gather(z, [torch.zeros_like(z)])",
}
# What torch_npu's documentation says of two modules; the emulator computes them as PyTorch composes them.
ONLY_DOCUMENTED = {
    "kl-div-log-target": "F.kl_div(torch.ones(2).cuda(), torch.ones(2).cuda(), log_target=True)",
    "lstm-proj-size": "nn.LSTM(4, 4, proj_size=2).cuda()",
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


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The messages of the findings about each snippet, by its name."""
    folder = tmp_path_factory.mktemp("checked")
    for name, text in (SNIPPETS | ONLY_DOCUMENTED).items():
        (folder / f"{name}.py").write_text(f"{HEAD}{text}\n")
    result, _ = check_project((folder,), Settings(VERSION, jobs=1))
    return {file.path.removesuffix(".py"): [each.finding.message for each in file.findings] for file in result.files}


def test_check_finds_all(checked: dict[str, list[str]]) -> None:
    assert len(checked) == len(SNIPPETS) + len(ONLY_DOCUMENTED)
    assert [name for name, messages in checked.items() if not messages] == []


def test_every_limit_that_raises_is_met_by_a_snippet(checked: dict[str, list[str]]) -> None:
    """So `check` and the emulated NPU, which both ask `limit`, agree about each."""
    all_messages = " ".join(message for messages in checked.values() for message in messages)
    raising = [each for each in rows() if each.outcome == RAISES and each.is_for(VERSION, DEFAULT_CHIP)]
    assert [each.id for each in raising if each.evidence[1:] not in all_messages] == []
    assert len(raising) > 15 and ONLY_DOCUMENTED.keys() <= {each.id for each in raising}
