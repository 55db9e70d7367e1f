"""Each operator of torch's own table of samples on the CPU and on the played GPU: `make test-verify` runs it."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, types, unittest, warnings
import torch
sys.modules["expecttest"] = types.ModuleType("expecttest")  # torch's tables import it, and use only this of it
sys.modules["expecttest"].TestCase = unittest.TestCase
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree
from gpu2npu.verify import reference

reference.install(1)
warnings.simplefilter("ignore")
KINDS = (torch.float32, torch.int64, torch.float16, torch.bfloat16, torch.bool, torch.complex64)


def placed(value, device):
    def one(each):
        if isinstance(each, torch.Tensor):
            return each.detach().to(device).requires_grad_(each.requires_grad)
        return device if each == "cpu" or isinstance(each, torch.device) else each
    return value if isinstance(value, torch.Size) else _pytree.tree_map(one, value)


def call(op, given, backward):
    out = op(given[0], *given[1], **given[2])
    results = [each for each in (out if isinstance(out, (list, tuple)) else [out]) if torch.is_tensor(each)]
    roots = [each for each in results if each.requires_grad]
    if backward and roots:
        torch.autograd.backward(roots, [torch.ones_like(each) for each in roots])


ran, failed = set(), {}
for op in op_db:
    name = ".".join(filter(None, (op.name, op.variant_test_name)))
    for dtype in (each for each in KINDS if each in op.dtypes):
        backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        for number, sample in enumerate(op.sample_inputs_func(op, "cpu", dtype, backward)):
            if number == 8:
                break
            given = sample.input, sample.args, sample.kwargs
            try:
                there = placed(given, "cuda")
                call(op, placed(given, "cpu"), backward)
            except Exception:
                continue  # PyTorch's CPU code refuses it
            ran.add(name)
            try:
                call(op, there, backward)
            except Exception as error:
                failed.setdefault(name, f"{dtype} {error}"[:300])
print(json.dumps([len(ran), failed]))
"""
# PyTorch has these for CUDA with arguments on the CPU, or not at all.
OTHERWISE = {"tensor_split", "sparse.mm.reduce", "as_strided.partial_views"}


@pytest.mark.usefixtures("cpu_build")
@pytest.mark.skipif(os.environ.get("GPU2NPU_TEST_VERIFY") != "all", reason="make test-verify runs these")
def test_what_the_cpu_computes_the_played_gpu_computes_too() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    ran, failed = json.loads(done.stdout.splitlines()[-1])
    assert ran > 650
    assert failed.keys() <= OTHERWISE, failed
