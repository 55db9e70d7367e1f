"""No error ends the process without a Python traceback that names the operator and what it was given."""

import os
import subprocess
import sys
import traceback
from contextvars import ContextVar

import pytest
import torch

from gpu2npu.emulator.device.dispatch import dispatch, limits
from gpu2npu.emulator.device.dispatch.operator_errors import OperatorError, with_operator
from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.launch import emulating


def traceback_of(attempt):
    """The traceback that a user would see."""
    with pytest.raises(Exception) as caught:
        attempt()
    return "".join(traceback.format_exception(caught.value))


A, B = torch.ones(2, 3), torch.ones(2, 3)
MM = "raised by the operator aten::mm(self=float32[2, 3] on npu:0, mat2=float32[2, 3] on npu:0)"


def test_forward():
    text = traceback_of(lambda: A.npu() @ B.npu())
    assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)" in text
    assert text.count("raised by the operator") == 1
    assert MM in text


ONES = torch.ones


CONVOLVED = (ONES(1, 3, 2, 2), ONES(3, 2, 3, 3))
REFUSED = {
    # The words of NumPy or Python in the middle of a kernel, or of an operator that is others in a row.
    (
        "npu_linear: bias of shape [3] does not fit weight of shape [4, 8]",
        "input=float32[2, 8] on npu:0, weight=float32[4, 8] on npu:0, ",
    ): (
        "npu_linear",
        (ONES(2, 8), ONES(4, 8), ONES(3)),
    ),
    (
        "npu_roi_align: rois of shape [1, 3] does not fit the others, which ask for [R, 5]",
        "self=float32[1, 2, 8, 8] on npu:0, rois=float32[1, 3]",
    ): (
        "npu_roi_align",
        (ONES(1, 2, 8, 8), ONES(1, 3), 1.0, 2, 2, 1, 0),
    ),
    ("scatter_update: an index is beyond its dimension", "self=float32[2, 4] on npu:0"): (
        "scatter_update",
        (ONES(2, 4), torch.tensor([0] * 3), ONES(3, 1), -1),
    ),
    ("", "input=float32[0, 2, 4, 4] on npu:0"): (
        "npu_conv2d_backward",
        (ONES(0, 2, 4, 4), *CONVOLVED, [1, 1], [0, 0], [1, 1], 1, [True] * 3),
    ),
    ("non-positive stride is not supported", "input=float32[1, 2, 4, 4]"): (
        "npu_conv2d_backward",
        (ONES(1, 2, 4, 4), *CONVOLVED, [0, 1], [0, 0], [1, 1], 1, [True] * 3),
    ),
    # A kernel's own words, PyTorch's, those of a documented limit, and of an operator without a kernel.
    ("a dropout mask of 1 bytes is too short for 300 elements", "self=float32[300] on npu:0"): (
        "npu_dropout_do_mask",
        (ONES(300), ONES(1, dtype=torch.uint8), 0.5),
    ),
    ("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", "x=float32[2, 3] on npu:0"): (
        "npu_ffn",
        (A, B, B, "relu"),
    ),
    ("[npu_rms_norm-weights]", "self=float32[2, 3] on npu:0, gamma=float32[2] on npu:0"): (
        "npu_rms_norm",
        (A, ONES(2)),
    ),
    ("", "dst=float32[2, 3] on npu:0, src=float32[3] on npu:0"): ("npu_change_data_ptr", (A, ONES(3), 7)),
}


@pytest.mark.parametrize(("message", "arguments"), REFUSED)
def test_what_an_operator_of_torch_npu_refuses_is_named_with_its_arguments(message, arguments, monkeypatch):
    name, args = REFUSED[message, arguments]
    monkeypatch.setattr(limits, "refuses", ContextVar("refuses", default=True))
    with pytest.raises((RuntimeError, ValueError)) as caught:
        getattr(torch.ops.npu, name)(*(each.npu() if isinstance(each, torch.Tensor) else each for each in args))
    assert message in str(caught.value)
    if hasattr(caught.value, "__notes__"):  # from Python 3.11 on
        first, *others = caught.value.__notes__  # PyTorch's operators that torch_npu's calls come before it
        assert first.startswith("raised by the operator ")
        assert f"the operator npu::{name}({arguments}" in (first, *others)[-1]
        assert len(others) <= 1


def test_several_results_lists_scalars_and_named_arguments():
    text = traceback_of(lambda: torch.stack([A.npu(), torch.ones(3).npu()]))
    assert "aten::stack(tensors=[float32[2, 3] on npu:0, float32[3] on npu:0]" in text
    text = traceback_of(lambda: A.npu().half().sort(dim=7))
    assert "raised by the operator aten::sort" in text and "float16[2, 3] on npu:0" in text
    text = traceback_of(lambda: torch.empty(1 << 50, device="npu:1", dtype=torch.float16))
    assert "raised by the operator aten::empty.memory_format(size=[1125899906842624]" in text
    assert "OutOfMemoryError: NPU out of memory" in text
    text = traceback_of(lambda: A.npu().set_(torch.ones(3).untyped_storage()))
    assert "storage of 12 bytes on cpu" in text
    text = traceback_of(lambda: A.npu().t().view(6))
    assert "raised by the operator aten::view(self=float32[3, 2] on npu:0, size=[6])" in text


def test_what_torch_computes_is_named_too():
    text = traceback_of(lambda: torch.linalg.lstsq(torch.ones(3, device="npu"), torch.ones(3, device="npu")))
    assert "raised by the operator aten::linalg_lstsq" in text


def test_a_built_in_gradient(monkeypatch):
    x = torch.ones(1 << 10, 1 << 10, device="npu:6", requires_grad=True)
    y = (x * x).sum()
    room = memory.memory_allocated(6) + (1 << 20)
    monkeypatch.setattr(memory, "current_soc", lambda: type("Small", (), {"memory": room}))
    text = traceback_of(y.backward)
    assert "OutOfMemoryError: NPU out of memory. Tried to allocate 4.00 MiB (NPU 6;" in text
    assert "raised by the operator aten::" in text
    monkeypatch.undo()
    (x * 2).sum().backward()
    assert x.grad.unique().tolist() == [2]


def test_a_hook_and_a_custom_gradient():
    x = torch.ones(2, 3, device="npu", requires_grad=True)
    x.register_hook(lambda grad: grad @ grad)
    assert MM in traceback_of(lambda: (x * 2).sum().backward())

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            return given * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.contiguous() @ grad.contiguous()

    y = torch.ones(2, 3, device="npu", requires_grad=True)
    assert MM in traceback_of(lambda: Squared.apply(y).sum().backward())


def raising(*args):
    raise ArithmeticError("the hook's own")


@pytest.mark.parametrize(
    "register",
    [
        lambda model, x: x.register_hook(raising),
        lambda model, x: model.weight.register_post_accumulate_grad_hook(raising),
        lambda model, x: model.register_full_backward_hook(raising),
        lambda model, x: model.register_full_backward_pre_hook(raising),
    ],
)
def test_what_hooks_raise_is_raised_with_its_traceback_and_the_next_pass_works(register):
    model, x = torch.nn.Linear(3, 2).npu(), torch.ones(4, 3, device="npu", requires_grad=True)
    handle = register(model, x)
    text = traceback_of(lambda: model(x).sum().backward())
    assert "ArithmeticError: the hook's own" in text
    assert "in raising" in text
    handle.remove()
    x.grad = None
    model(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), model.weight.sum(0).expand(4, 3).cpu())


def test_errors_of_kernels_keep_their_type(monkeypatch):
    library = torch.library.Library("gpu2npu_test_blame", "FRAGMENT")
    library.define("bad(Tensor a, float b) -> Tensor")

    def fail(a, b):
        raise KeyError("within the kernel")

    dispatch.register("gpu2npu_test_blame::bad", fail)
    text = traceback_of(lambda: torch.ops.gpu2npu_test_blame.bad(A.npu(1), 0.5))
    assert "KeyError: 'within the kernel'" in text
    assert "raised by the operator gpu2npu_test_blame::bad(a=float32[2, 3] on npu:1, b=0.5)" in text
    library._destroy()


def test_python_without_notes_tells_it_as_the_cause():
    class Noteless(Exception):  # noqa: N818
        add_note = property()

    text = "".join(traceback.format_exception(with_operator(Noteless("message"), "aten::mm", (A,), {"alpha": 2})))
    assert f"{OperatorError.__name__}: raised by the operator aten::mm(self=float32[2, 3] on cpu, alpha=2)" in text
    assert "Noteless: message" in text


WORKERS = """
import sys, torch, torch_npu
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

class Failing(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return (torch.ones(2, 3).npu() @ torch.ones(2, 3).npu()).cpu()

def rank(index):
    torch.ones(2, 3).npu() @ torch.ones(2, 3).npu()

if __name__ == "__main__":
    for attempt in (lambda: list(DataLoader(Failing(), num_workers=1)), lambda: mp.spawn(rank, nprocs=1)):
        try:
            attempt()
        except Exception as error:
            print(type(error).__name__, str(error))
    mine = torch.library.Library("mine", "DEF")
    mine.define("plain(Tensor a) -> Tensor")
    mine.impl("plain", lambda a: a.clone(), "CPU")
    class Strict(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1
        @staticmethod
        def backward(ctx, grad):
            return torch.ops.mine.plain(grad)
    x = torch.ones(3, device="npu", requires_grad=True)
    Strict.apply(x).sum().backward()
"""


def test_workers_spawned_ranks_and_strict_backward_passes(training_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WORKERS)
    ran = subprocess.run(
        [*training_python, script],
        env=emulating(os.environ, python=sys.executable, npus=2, strict=True),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert "RuntimeError Caught RuntimeError in DataLoader worker process 0" in ran.stdout
    assert "ProcessRaisedException" in ran.stdout
    assert ran.stdout.count(MM) == 2
    assert "strict mode: the emulator has no NumPy kernel for the operator 'mine::plain'" in ran.stderr
    assert "raised by the operator mine::plain" in ran.stderr
    assert "float32[3] on npu:0" in ran.stderr
