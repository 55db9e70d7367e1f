"""`gpu2npu ... distributed`: a script for one card becomes one for many."""

import sys
from pathlib import Path

import pytest

from gpu2npu.cli.main import main

SCRIPT = """import torch
from torch import nn

net = nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.ones(4, 3).cuda()).mean()
loss.backward()
optimizer.step()
torch.save(net.state_dict(), 'net.pt')
"""
RESULT = """import os
import torch
import torch_npu
import torch.distributed as dist
from torch import nn

if 'RANK' not in os.environ:  # started without a launcher: one process on one card
    os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')
torch.npu.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('hccl')

net = nn.Linear(3, 1).npu()
net = nn.parallel.DistributedDataParallel(net, device_ids=[torch.npu.current_device()])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.ones(4, 3).npu()).mean()
loss.backward()
optimizer.step()
if dist.get_rank() == 0:
    torch.save(net.module.state_dict(), 'net.pt')

dist.destroy_process_group()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proj" / "tools").mkdir(parents=True)
    (tmp_path / "proj" / "tools" / "train.py").write_text(SCRIPT)
    (tmp_path / "proj" / "notes.txt").write_text("")
    (tmp_path / "outside.py").write_text(SCRIPT)
    return tmp_path / "proj"


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs the command in this process; gives its exit code and what it printed on stderr."""

    def run_command(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpu2npu", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code, capfd.readouterr().err

    return run_command


MIGRATION = ("-i", "proj", "-o", "out", "-v", "2.1.0", "-j", "1", "-q")


@pytest.mark.parametrize("main", ["tools/train.py", "proj/tools/train.py"])
def test_a_script_for_one_card_trains_on_many(run, project, main):
    assert run(*MIGRATION, "distributed", "-m", main, "-t", "net") == (0, "")
    written = Path("out", "proj_msft_multi")
    assert (written / "tools" / "train.py").read_text() == RESULT
    assert "\nCOMMAND=(python tools/train.py)\n" in (written / "run_distributed_npu.sh").read_text()


def test_the_launcher_starts_a_command_of_the_users_own(run, project):
    command = ("python", "tools/train.py", "--epochs", "3")
    assert run(*MIGRATION, "distributed", "-m", "tools/train.py", "-t", "net", "--", *command)[0] == 0
    launcher = Path("out", "proj_msft_multi", "run_distributed_npu.sh").read_text()
    assert "\nCOMMAND=(python tools/train.py --epochs 3)\n" in launcher


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "missing.py"], "'missing.py' is not in the input 'proj'"),
        (["-m", "a" * 300], f"'{'a' * 300}' is not in the input 'proj'"),
        (["-m", "outside.py"], "'outside.py' is outside the input 'proj'"),
        (["-m", "notes.txt"], "'notes.txt' is not a Python file (.py)"),
        (["-m", "tools/train.py"], "'tools/train.py' never assigns the target model 'model'"),
        (["-m", "tools/train.py", "-t", "no name"], "'no name' is not a variable's name"),
        (["-m", "tools/train.py", "-t", "self.class"], "'self.class' is not a variable's name"),
        ([], "'-m' / '--main'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run, project, arguments, message):
    code, error = run(*MIGRATION, "distributed", *arguments)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
    assert not Path("out").exists()


def test_a_script_that_has_several_processes_already_is_refused(run, project):
    (project / "tools" / "train.py").write_text(SCRIPT.replace("\n\n", "\ntorch.distributed.init_process_group()\n", 1))
    code, error = run(*MIGRATION, "distributed", "-m", "tools/train.py", "-t", "net")
    assert (code, error.count("\n")) == (2, 1)
    assert "(tools/train.py:3): migrate it without 'distributed'" in error


def test_the_options_of_the_migration_are_required_as_ever(run, project):
    assert "The option -i/--input is missing" in run("distributed", "-m", "train.py")[1]
    assert "The option -o/--output is missing" in run("-i", "proj", "distributed", "-m", "train.py")[1]
