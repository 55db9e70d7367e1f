"""`-s`: before and after."""

import pytest

from gpu2npu.codemods import CodemodChoice, plan_codemods
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

GUARDED = """import torch

def main():
    device = torch.device('cuda:0')
    model = torch.nn.Linear(2, 2).cuda(0)
    torch.cuda.set_device(1)

if __name__ == '__main__':
    main()
"""
GUARDED_AFTER = """import os
import torch

def main():
    device = torch.device('npu')
    model = torch.nn.Linear(2, 2).cuda()
    torch.cuda.set_device(int(os.environ['DEVICE_ID']))

if __name__ == '__main__':
    os.environ.setdefault('DEVICE_ID', '0')
    torch.npu.set_device(int(os.environ['DEVICE_ID']))
    main()
"""
PLAIN = """import torch
x = torch.ones(3).cuda()
print(x)
"""
PLAIN_AFTER = """import os
import torch

os.environ.setdefault('DEVICE_ID', '0')
torch.npu.set_device(int(os.environ['DEVICE_ID']))

x = torch.ones(3).cuda()
print(x)
"""


def after(source, **options):
    plan = plan_codemods({"train.py": source.encode()}, ProjectContext(), CodemodChoice(options=options))
    rewrite = plan.rewrites.get("train.py")
    assert rewrite is None or {edit.rule for edit in rewrite.edits} == {"specify-device"}
    return source if rewrite is None else after_edits(source, rewrite.edits)


@pytest.mark.parametrize(
    ("before", "expected"), [(GUARDED, GUARDED_AFTER), (PLAIN, PLAIN_AFTER)], ids=["guard", "plain"]
)
def test_the_program_takes_its_card_from_the_environment(before, expected):
    assert after(before, specify_device=True) == expected
    assert after(before) == before


@pytest.mark.parametrize(
    "source",
    [
        "import torch.distributed as dist\ndist.init_process_group('nccl')\nx.cuda(0)\n",
        "def f(x):\n    return x.cuda(0)\n",
        "print('hello')\n",
    ],
    ids=["several processes", "a library", "no card"],
)
def test_what_chooses_no_card_for_itself_stays(source):
    assert after(source, specify_device=True) == source
