"""A C++ extension with an operator for PrivateUse1, built by setuptools as torch_npu's users build theirs, and run."""

import subprocess

SOURCE = """
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor scaled_sum(const at::Tensor& a, const at::Tensor& b, double scale) {
  TORCH_CHECK(a.device().type() == at::kPrivateUse1, "scaled_sum: expected a tensor of the NPU");
  at::Tensor result = at::empty_like(a);
  at::add_out(result, a, b);
  return result.mul_(scale);
}

TORCH_LIBRARY(own_ops, m) { m.def("scaled_sum(Tensor a, Tensor b, float scale) -> Tensor"); }
TORCH_LIBRARY_IMPL(own_ops, PrivateUse1, m) { m.impl("scaled_sum", &scaled_sum); }
"""
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import NpuExtension

setup(
    name="own_ops",
    ext_modules=[NpuExtension("own_ops", ["own_ops.cpp"], extra_compile_args=["-O0"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
PROGRAM = """
import pathlib
import torch
import torch_npu

torch.ops.load_library(next(pathlib.Path().glob("own_ops*.so")))
a, b = torch.arange(4.0).npu(), torch.ones(4).npu()
print(torch.ops.own_ops.scaled_sum(a, b, 2.0))
try:
    torch.ops.own_ops.scaled_sum(a.cpu(), b.cpu(), 2.0)
except NotImplementedError as error:
    print("refused" if "CPU" in str(error) else error)
"""


def test_an_operator_in_cpp_is_built_and_run(gpu2npu, tmp_path):
    for name, text in (("own_ops.cpp", SOURCE), ("setup.py", SETUP), ("program.py", PROGRAM)):
        (tmp_path / name).write_text(text)

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=550, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(gpu2npu, "run", "setup.py", "build_ext", "--inplace")
    assert run(gpu2npu, "run", "program.py").splitlines() == ["tensor([2., 4., 6., 8.], device='npu:0')", "refused"]
