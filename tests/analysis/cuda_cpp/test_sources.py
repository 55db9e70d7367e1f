from gpu2npu.analysis.cuda_cpp.callers import callers
from gpu2npu.analysis.cuda_cpp.native_files import is_native
from gpu2npu.analysis.cuda_cpp.sources import native_code, native_places
from gpu2npu.engine.torch_library import torch_project
from gpu2npu.project.tree.parts import kernels_apart
from gpu2npu.records import NativeKind
from gpu2npu.report.tables import CUDA_OP_LIST, HEADERS, native_rows

KERNELS = rb"""#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include "cub/cub.cuh"
#include <cub/block/block_reduce.cuh>
// #include <cudnn.h>
/* __global__ void commented(int* x) {} */
const char* text = "__global__ void quoted(int* x) {} k<<<1, 2>>>(x);";
template <typename T> __global__ void declared(T* x);
template <typename T, int N>
__global__ void __launch_bounds__(256, 2)
scan(const T* __restrict__ x, T* y) {
  if (x[0] < y[0]) { y[0] = 1 << 3; }
}
template <>
__global__ void scan_half<c10::Half>(const c10::Half* x) {}
extern "C" __global__ typename std::enable_if<true, void>::type last(int n)
{
}
void launch(at::Tensor x) {
  scan<float, 4>
      <<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), nullptr);
  last<<<1, 1>>>(3);
  cudaLaunchCooperativeKernel((void*)last, grid, block, args);
}
"""
BIND = b"""#include <torch/extension.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scan", &scan);

  m.def("forward",
        &forward);
}
"""
SETUP = b"""from torch.utils.cpp_extension import CUDAExtension
setup(
    ext_modules=[
        CUDAExtension("pkg.fast_ext", ["csrc/scan.cu", "csrc/bind.cpp"]),
    ]
)
"""
USER = b"""import numpy as np
import torch
from . import fast_ext as _ext
from pkg.fast_ext import scan

class Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = _ext.forward(x)
        return scan(x), torch.scan(x), np.scan(x), y.forward(x)
"""
FILES = {"csrc/scan.cu": KERNELS, "csrc/bind.cpp": BIND, "setup.py": SETUP, "pkg/ops.py": USER}
LOADED = """import os
from torch.utils.cpp_extension import load

def get():
    here = os.path.dirname(__file__)
    return load(name="scan_cuda", sources=[f"{here}/csrc/scan.cpp", f"{here}/csrc/scan.cu"])
"""


def places(files: dict[str, bytes], kind: NativeKind) -> list[tuple[str, int, str]]:
    return [(place.path, place.line, place.api) for place in native_places(files) if place.kind is kind]


def test_kernels_are_definitions_outside_of_comments_and_strings() -> None:
    assert places(FILES, NativeKind.KERNEL) == [
        ("csrc/scan.cu", 10, "scan"),
        ("csrc/scan.cu", 15, "scan_half"),
        ("csrc/scan.cu", 16, "last"),
    ]


def test_launches_name_their_kernel_without_template_arguments() -> None:
    assert places(FILES, NativeKind.LAUNCH) == [
        ("csrc/scan.cu", 21, "scan"),
        ("csrc/scan.cu", 22, "last"),
        ("csrc/scan.cu", 23, "cudaLaunchCooperativeKernel"),
    ]


def test_each_library_is_reported_once_a_file() -> None:
    assert places(FILES, NativeKind.LIBRARY) == [("csrc/scan.cu", 2, "ATen for CUDA"), ("csrc/scan.cu", 3, "CUB")]


def test_exports_have_lines_and_the_python_code_that_calls_them() -> None:
    found = [place for place in native_places(FILES) if place.kind is NativeKind.OPERATOR]
    assert [(place.path, place.line, place.api, place.called_from) for place in found] == [
        ("csrc/bind.cpp", 3, "pkg.fast_ext.scan", ("pkg/ops.py:10",)),
        ("csrc/bind.cpp", 5, "pkg.fast_ext.forward", ("pkg/ops.py:9",)),
    ]


def test_builds_by_setup_script_cmake_and_lists_of_sources() -> None:
    files = {
        **FILES,
        "CMakeLists.txt": b"# enable_language(CUDA)\nproject(x)\nfind_package(CUDAToolkit REQUIRED)\n",
        "cpu/CMakeLists.txt": b"project(y LANGUAGES CXX)\nadd_library(y y.cpp)\n",
        "builder.py": b"def sources():\n    return ['csrc/adam.cpp',\n            'csrc/adam.cu']\n",
    }
    assert places(files, NativeKind.BUILD) == [
        ("CMakeLists.txt", 3, "CMake with CUDA"),
        ("builder.py", 3, "csrc/adam.cu"),
        ("setup.py", 4, "pkg.fast_ext"),
    ]


def test_kernels_in_python_strings_have_the_lines_of_the_file() -> None:
    source = b"import cupy\nk = cupy.RawKernel(r'''\nextern \"C\" __global__\nvoid axpy(float a) { }\n''', 'axpy')\n"
    assert places({"k.py": source}, NativeKind.KERNEL) == [("k.py", 3, "axpy")]


def test_the_sums_count_code_lines_of_cuda_files_only() -> None:
    code = native_code(native_places(FILES), {**FILES, "csrc/notes.cuh": b"// nothing\n\nint x;\n"})
    assert (code.files, code.kernels, code.launches, code.operators) == (2, 3, 3, 2)
    comments = 2
    assert code.lines == KERNELS.count(b"\n") - comments + 1


def test_nothing_native_is_nothing() -> None:
    assert native_places({"a.py": b"import torch", "b.cpp": b"#include <vector>\nint main() { return 1 << 3; }"}) == ()
    assert native_code((), {}).lines == 0


def test_broken_sources_are_no_error() -> None:
    files = {
        "a.cu": b"__global__",
        "b.cu": b"__global__ void f(",
        "c.cu": b"<<<>>>",
        "d.cu": b"\xff\xfe\x00 k<<<\x00>>>",
        "e.py": b"x = '''__global__ void",
        "f.cu": b"__global__ " * 2000,
        "g.cu": b">" * 3000 + b"<<<1>>>",
        "h.cu": b"<<<<<<< HEAD\n",
        "CMakeLists.txt": b"\xff project(",
    }
    assert [place.path for place in native_places(files)] == ["b.cu", "d.cu"]


def test_operators_of_torch_library_are_called_through_torch_ops() -> None:
    files = {
        "a.py": b"import torch\ntorch.ops.vision.nms(x)\ntorch.ops.vision.nms.default(x)\ntorch.nms(x)\n",
        "b.py": b"from torch import ops\nkeep = ops.vision.nms\n",
        "c.py": b"from vision import nms\nimport vision\nvision.nms(x)\n",
    }
    assert callers(["vision::nms"], torch_project(files)) == {"vision::nms": ("a.py:2", "a.py:3", "b.py:2")}


def test_operators_without_a_known_extension_are_recognised_by_unusual_names_alone() -> None:
    files = {
        "a.py": b"def run(builder, x):\n    ext = builder.load()\n    ext.multi_tensor_adam(x)\n    ext.forward(x)\n",
        "b.py": b"class A:\n    def f(self):\n        self.multi_tensor_adam()\n",
        "c.py": b"def quantize(x): ...\ndef g(model, ext_module):\n    model.quantize(1)\n    ext_module.quantize(1)\n",
    }
    found = callers(["multi_tensor_adam", "forward", "quantize"], torch_project(files))
    assert found == {"multi_tensor_adam": ("a.py:3",), "quantize": ("c.py:4",)}


def test_copies_of_nvidias_libraries_are_not_the_projects_code() -> None:
    files = {
        **FILES,
        "csrc/cutlass/include/cutlass/cutlass.h": b"#include <cuda_runtime.h>\n",
        "csrc/cutlass/examples/gemm.cu": b"__global__ void gemm() { }\n",
    }
    assert native_places(files) == native_places(FILES)
    assert native_code(native_places(files), files) == native_code(native_places(FILES), FILES)


def test_extensions_loaded_under_a_name() -> None:
    source = b"from torch.utils.cpp_extension import load\nk = load(name='wkv', sources=s)\n"
    source += b"k.forward(x)\nm.forward(x)\n"
    assert callers(["wkv.forward"], torch_project({"a.py": source})) == {"wkv.forward": ("a.py:3",)}


def test_the_table_has_the_vendors_columns_first() -> None:
    assert HEADERS[CUDA_OP_LIST][:2] == ("File", "Api")
    assert ("csrc/bind.cpp", "pkg.fast_ext.scan", 3, "operator", "pkg/ops.py:10") in native_rows(native_places(FILES))


def test_which_files_are_native() -> None:
    assert is_native("csrc/CMakeLists.txt") and is_native("cmake/cuda.cmake") and is_native("a.cu")
    assert not is_native("a.py") and not is_native("notes.txt")


def test_a_source_that_a_call_compiles_is_data_to_the_setup_script() -> None:
    files = {
        "setup.py": b"from setuptools import setup\nsetup(package_data={'pkg': ['csrc/scan.cpp', 'csrc/scan.cu']})\n",
        "pkg/layer.py": LOADED.encode(),
        "pkg/csrc/scan.cu": KERNELS,
    }
    assert places(files, NativeKind.BUILD) == [("pkg/layer.py", 6, "scan_cuda")]
    assert kernels_apart(native_places(files), files) == 3
