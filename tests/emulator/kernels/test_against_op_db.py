"""Every operator torch runs for its own table of samples, forward and backward, against our kernels."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 4  # the first, and more until as many of them have elements
MOST = 24
# Decompositions too ill-conditioned to compare, intermediate results of another form (test_operators_on_npu.py has
# them), or no kernels by design; jiterator wants a GPU.
FAMILIES_ELSEWHERE = (
    "linalg.",
    "fft.",
    "sparse",
    "masked.",
    "signal.",
    "to_sparse",
    "jiterator",
    "svd_lowrank",
    "pca_lowrank",
    "matrix_exp",
    "nn.functional.embedding_bag",
    "nn.functional.ctc_loss",
)
HERE = [op for op in op_db if not op.name.startswith(FAMILIES_ELSEWHERE)]
OPERATORS = [op for op in HERE if torch.float32 in op.dtypes]


def some(samples):
    """The first samples of an operator, and more where these are empty tensors alone or among others."""
    with_elements = 0
    for number, sample in enumerate(samples):
        if number >= MOST or (number >= SAMPLES and with_elements >= SAMPLES):
            return
        given = sample.input if isinstance(sample.input, list | tuple) else [sample.input]
        with_elements += any(not torch.is_tensor(each) or each.numel() for each in given)
        yield sample


def run(op, dtype, mode, backward):
    """Run some of an operator's samples under the mode."""
    # `op.sample_inputs` seeds every generator anew for each sample, which costs more than all the rest.
    samples = op.sample_inputs_func(op, "cpu", dtype, backward)
    for sample in some(samples):
        with mode:
            out = op(sample.input, *sample.args, **sample.kwargs)
            results = [each for each in (out if isinstance(out, list | tuple) else [out]) if torch.is_tensor(each)]
            roots = [each for each in results if each.requires_grad]
            if roots:
                torch.autograd.backward(roots, [torch.ones_like(each) for each in roots])


@pytest.mark.parametrize(
    "op", OPERATORS, ids=lambda op: op.name + ("_" + op.variant_test_name) * bool(op.variant_test_name)
)
def test_float32(op, differential):
    torch.manual_seed(0)
    mode = differential()
    run(op, torch.float32, mode, op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu"))
    assert not mode.failures, mode.failures


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str
)
def test_other_dtypes(dtype, differential):
    torch.manual_seed(0)
    mode = differential(scale=4)
    for op in HERE:
        if dtype in op.dtypes:
            run(op, dtype, mode, False)
    assert not mode.failures, mode.failures
