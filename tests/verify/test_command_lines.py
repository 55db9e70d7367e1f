"""`gpu2npu verify` by its command line, with every way to start a program: a module, torchrun, the copy's launcher.

GPU2NPU_TEST_VERIFY=all, as `make test-verify` sets it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
IMAGES = FIXTURES / "many_cards" / "image_classifier"
RANKS = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
card = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(card)
torch.manual_seed(1)
net = DistributedDataParallel(nn.Linear(8, 2).cuda(), device_ids=[card])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(4, 8).cuda()).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""

pytestmark = pytest.mark.skipif(os.environ.get("GPU2NPU_TEST_VERIFY") != "all", reason="make test-verify runs these")


@pytest.fixture
def of_ranks(tmp_path: Path) -> Path:
    project = tmp_path / "of_ranks"
    project.mkdir()
    (project / "train.py").write_text(RANKS)
    return project


def same(project: Path, *words: str) -> dict[str, object]:
    """The report of verify for two steps of a project that trains the same."""
    command = [sys.executable, "-m", "gpu2npu", "verify", "-i", str(project), "-v", "2.1.0", "--steps", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--format", "json", *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    assert (found["verdict"], found["steps"]) == ("same", 2)
    return found


def test_a_module() -> None:
    found = same(FIXTURES / "mixed_package", "--", "-m", "mixed_package.train")
    assert found["ranks"] == 1


@pytest.mark.parametrize("start", [["torchrun"], ["-m", "torch.distributed.run"]], ids=["torchrun", "module"])
def test_torchrun(start: list[str], of_ranks: Path) -> None:
    found = same(of_ranks, "--", *start, "--nproc_per_node", "2", "train.py")
    assert found["ranks"] == 2


def test_processes_that_the_program_starts_itself(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    shutil.copy(FIXTURES / "data_parallel" / "spawn.py", tmp_path / "project")
    found = same(tmp_path / "project", "--npus", "2", "--", "spawn.py", "--multiprocessing-distributed")
    assert found["ranks"] == 2


@pytest.mark.parametrize("launcher", [[], ["bash", "run_distributed_npu.sh", "python"]], ids=["by --npus", "by name"])
def test_the_launcher_that_the_migration_wrote(launcher: list[str]) -> None:
    found = same(IMAGES, "--npus", "2", "--", *launcher, "train.py", "--checkpoints", "ck")
    assert found["ranks"] == 2
