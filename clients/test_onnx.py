"""ONNX and PyTorch's own exports: a model exported from the NPU gives the eager result on other inputs."""

import io

import onnxruntime
import pytest
import torch
from torch.export.passes import move_to_device_pass
from torch.testing import assert_close

from clients.exporting import MODULES, inputs


@pytest.fixture(params=MODULES)
def exported(request):
    """A module on the NPU, inputs to export it with, others, and its results for these."""
    module, shape = MODULES[request.param]
    module = module.npu().eval()
    other = inputs(shape).npu()
    with torch.no_grad():
        return module, inputs(shape).npu(), other, module(other).cpu()


def in_onnxruntime(file, x):
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: x.cpu().numpy()})
    return torch.from_numpy(result)


@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
def test_onnx_by_tracing(exported, gradients):
    module, seen, other, expected = exported
    file = io.BytesIO()
    with torch.set_grad_enabled(gradients):
        torch.onnx.export(module, (seen,), file, dynamo=False)
    assert_close(in_onnxruntime(file, other), expected, rtol=1e-3, atol=1e-5)


def test_onnx_by_dynamo(exported):
    module, seen, other, expected = exported
    file = io.BytesIO()
    torch.onnx.export(module, (seen,), dynamo=True, verbose=False).save(file)
    assert_close(in_onnxruntime(file, other), expected, rtol=1e-3, atol=1e-5)


@torch.no_grad()
def test_trace_script_and_export(exported):
    module, seen, other, expected = exported
    assert_close(torch.jit.trace(module, seen)(other).cpu(), expected)
    assert_close(torch.jit.script(module)(other).cpu(), expected)
    program = torch.export.export(module, (seen,))
    assert_close(program.module()(other).cpu(), expected)
    on_cpu = move_to_device_pass(program, "cpu")
    assert_close(on_cpu.module()(other.cpu()), expected, rtol=1e-4, atol=1e-5)
