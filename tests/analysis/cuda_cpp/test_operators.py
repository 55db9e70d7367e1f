from gpu2npu.analysis.cuda_cpp.extensions import extensions
from gpu2npu.analysis.cuda_cpp.operators import may_export, operator_lines
from gpu2npu.engine.torch_library import torch_project

SETUP = b"""
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
setup(
    name="detector",
    ext_modules=[CUDAExtension(name="detector._C", sources=["csrc/bind.cpp", "csrc/nms.cu"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
PYBIND = b"""
#include <torch/extension.h>
// m.def("in_a_line_comment", &nope);
/* PYBIND11_MODULE(old, m) { m.def("in_a_block_comment", &nope); } */
const char* text = "PYBIND11_MODULE(fake, m) { m.def(\\"in_a_string\\", &nope); }";
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "kernels";
  m.def("nms", &nms, "Non-maximum "
        "suppression (CUDA)");
  m.def(
      "roi_"
      "align",  // joined by the compiler
      [](at::Tensor x) { if (x.is_cuda()) { return roi(x); } return x; },
      py::arg("x"))
   .def("chained", &chained);
  auto sub = m.def_submodule("fused", "fused kernels");
  sub.def(R"(bias_gelu)", &bias_gelu);
  py::class_<Plan>(m, "Plan").def("run", &Plan::run);
}
"""


def found(files: dict[str, bytes]) -> list[tuple[str, str]]:
    return sorted(operator_lines(files, extensions(torch_project(files))))


def test_pybind_functions_are_named_after_the_extension_that_builds_them() -> None:
    assert found({"setup.py": SETUP, "csrc/bind.cpp": PYBIND, "csrc/nms.cu": b"__global__ void k() {}"}) == [
        ("csrc/bind.cpp", "detector._C.chained"),
        ("csrc/bind.cpp", "detector._C.fused.bias_gelu"),
        ("csrc/bind.cpp", "detector._C.nms"),
        ("csrc/bind.cpp", "detector._C.roi_align"),
    ]


def test_a_plain_module_name_needs_no_setup() -> None:
    source = b'PYBIND11_MODULE(kernels, module) { module.def("scan", &scan); }'
    assert found({"k.cu": source}) == [("k.cu", "kernels.scan")]


def test_an_unknown_extension_name_is_left_out_of_the_api() -> None:
    source = b'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scan", &scan); }'
    assert found({"k.cpp": source}) == [("k.cpp", "scan")]


def test_two_extensions_each_name_their_own_sources() -> None:
    setup = b"""
ext = [CUDAExtension("one", [os.path.join(here, "one.cpp")]), CppExtension("two", ["src/two.cpp"])]
"""
    source = b'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }'
    files = {"setup.py": setup, "src/one.cpp": source, "src/two.cpp": source, "src/three.cpp": source}
    assert found(files) == [("src/one.cpp", "one.f"), ("src/three.cpp", "f"), ("src/two.cpp", "two.f")]


def test_a_setup_script_that_builds_its_lists_step_by_step() -> None:
    setup = b"""
sources = ["csrc/vision.cpp"]
extension = CppExtension
if torch.cuda.is_available():
    extension = CUDAExtension
    sources += ["csrc/nms.cu"]
setup(ext_modules=[extension("vision._C", sources), CppExtension("other", ["csrc/other.cpp"])])
"""
    source = b'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("nms", &nms); }'
    assert found({"setup.py": setup, "csrc/vision.cpp": source}) == [("csrc/vision.cpp", "vision._C.nms")]


def test_torch_library_schemas() -> None:
    source = b"""
TORCH_LIBRARY(vision, m) {
  m.def("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor");
  m.def(TORCH_SELECTIVE_SCHEMA("vision::roi_pool(Tensor x) -> (Tensor, Tensor)"));
  m.def("plain", &plain);
  m.impl("nms", torch::kCUDA, &nms_cuda);
}
TORCH_LIBRARY_FRAGMENT(vision, other) { other.def("extra(Tensor x) -> Tensor"); m.def("not_ours"); }
"""
    assert found({"ops.cpp": source}) == [
        ("ops.cpp", "vision::extra"),
        ("ops.cpp", "vision::nms"),
        ("ops.cpp", "vision::plain"),
        ("ops.cpp", "vision::roi_pool"),
    ]


def test_operators_registered_the_older_way() -> None:
    source = b"""
static auto registry = torch::RegisterOperators()
    .op("scatter::sum", &sum)
    .op("scatter::mean(Tensor x) -> Tensor", torch::RegisterOperators::options());
static auto one = torch::RegisterOperators("scatter::one", &one);
"""
    assert found({"s.cpp": source}) == [
        ("s.cpp", "scatter::mean"),
        ("s.cpp", "scatter::one"),
        ("s.cpp", "scatter::sum"),
    ]


def test_only_cuda_implementations_count() -> None:
    source = b"""
TORCH_LIBRARY_IMPL(vision, CUDA, m) { m.impl(TORCH_SELECTIVE_NAME("vision::nms"), TORCH_FN(nms)); }
TORCH_LIBRARY_IMPL(vision, AutogradCUDA, m) { m.impl("deform", &deform); }
TORCH_LIBRARY_IMPL(vision, CPU, m) { m.impl("cpu_only", &cpu_only); }
"""
    assert found({"nms.cu": source}) == [("nms.cu", "vision::deform"), ("nms.cu", "vision::nms")]


def test_an_expanded_library_name_is_the_extension() -> None:
    source = b'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("silu(Tensor! out) -> ()"); }'
    files = {"setup.py": b'CUDAExtension(name="_C", sources=["a.cpp"])', "a.cpp": source}
    assert found(files) == [("a.cpp", "_C::silu")]


def test_load_inline_exports_the_functions_it_is_given() -> None:
    source = b"""
from torch.utils.cpp_extension import load_inline
m = load_inline(name="quick", cpp_sources=[decl], cuda_sources=[code], functions=["square", "cube"])
n = load_inline("other", cpp_sources=decl, functions={"root": "a docstring"})
"""
    assert found({"train.py": source}) == [
        ("train.py", "other.root"),
        ("train.py", "quick.cube"),
        ("train.py", "quick.square"),
    ]


def test_a_jit_load_names_its_sources() -> None:
    files = {
        "ops/__init__.py": b'from torch.utils.cpp_extension import load\nk = load("wkv", sources=["cuda/wkv_op.cpp"])',
        "ops/cuda/wkv_op.cpp": b'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }',
        "other/__init__.py": b'# cpp_extension\nimport torch\nweights = torch.load("weights.pt")',
    }
    assert found(files) == [("ops/cuda/wkv_op.cpp", "wkv.forward")]


def test_a_cuda_extension_without_visible_exports_is_listed_itself() -> None:
    setup = b'CUDAExtension(name="secret", sources=["a.cu"]); CppExtension(name="host", sources=["b.cpp"])'
    assert found({"setup.py": setup, "a.cu": b"REGISTER_ALL(kernels)"}) == [("setup.py", "secret")]


def test_broken_sources_are_no_error() -> None:
    files = {
        "a.cpp": b'PYBIND11_MODULE(x, m) { m.def("f"',
        "b.cu": b'TORCH_LIBRARY(\xff\xfe "unclosed',
        "c.cpp": b"TORCH_LIBRARY(a, m)",
        "d.cpp": b"PYBIND11_MODULE(only_one) { }",
        "e.cpp": b"PYBIND11_MODULE(x, m) { m.def(); m.def(name, &f); char c = '\"'; n = 1'000; m.def(\"g\", &g); }",
        "setup.py": b"CUDAExtension(name=",
    }
    assert found(files) == [("a.cpp", "x.f"), ("e.cpp", "x.g")]


def test_which_files_are_native() -> None:
    assert may_export("csrc/a.CU") and may_export("b.hpp")
    assert not may_export("cuda.py") and not may_export("notes.txt")
