"""A slice of PyTorch's own operator tests on the device, forward and backward: what the NPU has, NumPy computes.

The families whose results are not unique (factorizations) or that need double precision, which the tests of kernels
cannot compare; all operators and samples are the business of `python -m tools.emulator_coverage`.
"""

import pytest
import torch

from gpu2npu.emulator.device.dispatch.tally import ComputedBy, counts
from tools.emulator_coverage.operators import Tried, check
from tools.emulator_coverage.tables import load

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # the tables have deprecated operators too

SAMPLES = 3
FAMILIES = (
    "linalg_",
    "fft_",
    "special_",
    "cholesky",
    "lu",
    "svd",
    "matrix_exp",
    "nn_functional_embedding_bag",
    "nn_functional_ctc",
)
BORROWED = ("linalg_ldl", "linalg_polar", "linalg_matrix_sqrth")
OPERATORS = [
    (name, op)
    for name, op in load("op_db")
    if name.replace(".", "_").startswith(FAMILIES) and not name.replace(".", "_").startswith(BORROWED)
]


def borrowed():
    """Count the calls of each operator that the NPU has, and torch's CPU code computed."""
    return {operator: calls for (operator, kind), (calls, _) in counts().items() if kind is ComputedBy.BORROWED}


@pytest.mark.parametrize("op", [pytest.param(op, id=name) for name, op in OPERATORS])
def test_values_and_gradients_are_the_cpus(op):
    before = borrowed()
    tried = Tried()
    check(op, torch.float32, tried, limit=SAMPLES)
    assert tried.samples
    assert borrowed() == before


def test_samples_that_differ_are_reported():
    op = dict(load("op_db"))["cos"]
    torch_cos = op.op
    op.op = lambda x: torch_cos(x) + (0.5 if x.device.type == "npu" else 0)
    try:
        with pytest.raises(Exception, match=r"sample 0: .* values differ, such as .* instead of"):
            check(op, torch.float32, Tried(), limit=1)
    finally:
        op.op = torch_cos
