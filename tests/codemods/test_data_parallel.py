"""DataParallel becomes DistributedDataParallel: before and after."""

from gpu2npu.codemods import CodemodChoice, plan_codemods
from gpu2npu.engine import ProjectContext
from gpu2npu.engine.rewrites import rewritten

PLAIN = """import torch
from torch import nn

model = nn.Linear(3, 3)
model = nn.DataParallel(model, device_ids=[0, 1]).cuda()
loss = model(torch.ones(4, 3)).mean()
loss.backward()
"""
PLAIN_AFTER = """import os
import torch
import torch.distributed as dist
from torch import nn

if 'RANK' not in os.environ:  # started without a launcher: one process on one card
    os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')
torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('nccl')

model = nn.Linear(3, 3)
model = nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[torch.cuda.current_device()])
loss = model(torch.ones(4, 3)).mean()
loss.backward()

dist.destroy_process_group()
"""


def plan(files, choice=CodemodChoice()):
    sources = {path: text.encode() for path, text in files.items()}
    return plan_codemods(sources, ProjectContext(files=frozenset(sources)), choice)


def after(files, choice=CodemodChoice()):
    """The text of each file that is rewritten."""
    return {
        path: rewritten(files[path], rewrite) for path, rewrite in plan(files, choice).rewrites.items() if rewrite.edits
    }


def test_a_plain_script():
    assert after({"train.py": PLAIN}) == {"train.py": PLAIN_AFTER}


def test_nothing_happens_where_the_rule_is_switched_off():
    assert plan({"train.py": PLAIN}, CodemodChoice(data_parallel=False)).rewrites == {}
