"""`gpu2npu verify record` of a program that torchrun starts on two GPUs, and `compare` of its copy on two NPUs.

GPU2NPU_TEST_VERIFY=all, as `make test-verify` sets it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu2npu.verify.reference_file import read_reference

pytestmark = pytest.mark.skipif(os.environ.get("GPU2NPU_TEST_VERIFY") != "all", reason="make test-verify runs these")

TRAIN = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).cuda()
net = DistributedDataParallel(net, device_ids=[local_rank])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for _ in range(3):
    loss = net(torch.randn(4, 8).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach())
dist.destroy_process_group()
"""
TORCHRUN = ("--", "torchrun", "--nproc_per_node", "2", "train.py")


def verify(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpu2npu", "verify", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def project(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "train.py").write_text(text)
    return folder


@pytest.mark.xdist_group("record of ranks")
def test_two_ranks_are_recorded_and_compared_on_two_npus(tmp_path: Path) -> None:
    reference = tmp_path / "ref.gpu2npu"
    original = project(tmp_path / "original", TRAIN)
    done = verify("record", "-o", reference, "--steps", 3, *TORCHRUN, folder=original)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [recording.rank for recording, _ in read_reference(reference).ranks] == [0, 1]

    text = "import torch_npu\n" + TRAIN.replace("cuda", "npu").replace("nccl", "hccl")
    done = verify("compare", reference, "--format", "json", *TORCHRUN, folder=project(tmp_path / "copy", text))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["verdict"] == "same"

    assert "dist.get_rank()" in text
    faulty = project(
        tmp_path / "faulty", text.replace("manual_seed(dist.get_rank())", "manual_seed(7 * dist.get_rank())")
    )
    done = verify("compare", reference, "--format", "json", *TORCHRUN, folder=faulty)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)
    first = found["first"]
    assert (found["rank"], first["step"], first["cause"]) == (1, 1, "different random draw")
