"""From a wheel to a table."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from gpu2npu.support.releases import SECTIONS
from tools.wheel_facts.__main__ import main, read_wheels, release_files
from tools.wheel_facts.extract import ExtractionError, extract_cuda_table, npu_facts, provenance

ATEN = "torch_npu/csrc/aten/"
BY_CODEGEN = """\
autograd:
- func: _thnn_fused_gru_cell(Tensor input, Tensor? hidden=None) -> (Tensor, Tensor)
backend: NPU
custom:
- func: npu_format_cast(Tensor self, int acl_format) -> Tensor
  exposed: true
- func: copy_memory_(Tensor(a!) self, Tensor src) -> Tensor(a!)
supported:
- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  impl_ns: acl_op, op_api
  sparse: op_api
- copy_memory_
symint:
- func: view(Tensor(a) self, SymInt[] size) -> Tensor(a)
"""
BY_HAND = """\
backend: NPU
supported:
  - view
  - func: clone
    op_api: True
"""
NPU_FILES = {
    ATEN + "npu_native_functions.yaml": BY_HAND,
    ATEN + "npu_native_functions_by_codegen.yaml": BY_CODEGEN,
    "torch_npu/lib/libtorch_npu.so": (
        "\x7fELF\0_ZTIN3c1016OutOfMemoryErrorE\0npu_cpu_fallback\0TORCH_NPU_FALLBACK_CPU_DISABLE\0"
    ),
    "torch_npu/utils/unsupport_api.py": (
        "import torch\nbad = {'__init__': torch.nn.DataParallel, 'share_memory_': torch.Tensor}"
    ),
    "torch_npu/__init__.py": "raise RuntimeError('a wheel is read, never imported')",
    "torch_npu/npu/__init__.py": "__all__ = ['FloatTensor']\nfrom .amp import autocast\ndef is_available(): ...\n",
    "torch_npu/npu/amp/__init__.py": "class autocast: ...\n",
    "torch_npu/utils/exposed_api.py": "public_npu_functions = ['npu_format_cast', 'npu_linear']",
    "torch_npu/optim/__init__.py": "from .sgd import NpuFusedSGD",
    "torch_npu/optim/sgd.py": "class NpuFusedSGD: ...",
}


def write_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
    return path


def test_a_wheel_has_facts(tmp_path):
    wheel = write_wheel(tmp_path, "torch_npu-2.3.1.post2-cp310-cp310-linux_aarch64.whl", NPU_FILES)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert provenance(wheel) == {"filename": wheel.name, "version": "2.3.1.post2", "sha256": digest}
    facts = npu_facts(wheel)
    assert set(facts) == set(SECTIONS)
    assert {section: sorted(names) for section, names in facts.items()} == {
        "supported": ["aten::add.Tensor", "aten::clone", "aten::view"],
        "custom": ["npu::copy_memory_", "npu::npu_format_cast"],
        "autograd": ["aten::_thnn_fused_gru_cell"],
        "sparse": ["aten::add.Tensor"],
        "modules": ["torch.npu", "torch.npu.amp"],
        "names": ["torch.npu.FloatTensor", "torch.npu.amp.autocast", "torch.npu.autocast", "torch.npu.is_available"],
        "inert": ["torch.npu.is_available"],
        "parameters": ["torch.npu.is_available"],
        "torch_npu": ["torch_npu.npu_format_cast", "torch_npu.npu_linear", "torch_npu.optim.NpuFusedSGD"],
        "refused": ["torch.Tensor.share_memory_", "torch.nn.DataParallel"],
        "library": ["TORCH_NPU_FALLBACK_CPU_DISABLE", "npu_cpu_fallback"],
        "out_of_memory": ["torch.OutOfMemoryError"],
    }


def test_one_operator_list_is_enough(tmp_path):
    files = {member: text for member, text in NPU_FILES.items() if not member.endswith(("codegen.yaml", ".so"))}
    facts = npu_facts(write_wheel(tmp_path, "torch_npu-2.1.0-cp38-cp38-any.whl", files))
    assert facts["out_of_memory"] == {"RuntimeError"}  # there is no library that raises anything else
    assert facts["supported"] == {"aten::clone", "aten::view"}
    assert facts["custom"] == facts["autograd"] == set()


def test_a_wheel_without_operators_or_without_the_package_is_refused(tmp_path):
    name = "torch_npu-2.1.0-cp38-cp38-any.whl"
    with pytest.raises(ExtractionError, match=r"2\.1\.0.*npu_native_functions"):
        npu_facts(write_wheel(tmp_path, name, {"torch_npu/npu/__init__.py": ""}))
    with pytest.raises(ExtractionError, match=r"no Python package torch_npu\.npu"):
        npu_facts(write_wheel(tmp_path, name, {ATEN + "npu_native_functions.yaml": BY_HAND}))


def test_the_cuda_table_joins_old_and_new_torch(tmp_path):
    wheels = [
        write_wheel(
            tmp_path,
            f"torch-{version}-cp310-none-any.whl",
            {
                "torch/cuda/__init__.py": f"def {name}(): ...\ndef init({name}=0): ...",
                "torch/backends/cuda/__init__.py": "def is_built(): ...",
                "torch/backends/cudnn/__init__.py": "",
            },
        )
        for version, name in [("2.13.0", "new"), ("2.1.0", "old")]
    ]
    table = extract_cuda_table(wheels)
    assert [wheel["version"] for wheel in table["wheels"]] == ["2.1.0", "2.13.0"]
    assert table["torch.cuda"]["names"] == ["torch.cuda.init", "torch.cuda.new", "torch.cuda.old"]
    assert table["parameters"]["torch.cuda.init"] == ["new", "old"]
    assert table["parameters"]["torch.backends.cuda.is_built"] == []
    assert table["torch.backends.cuda"]["names"] == ["torch.backends.cuda.is_built"]
    assert table["torch.backends.cudnn"]["modules"] == ["torch.backends.cudnn"]


def test_a_release_says_what_differs_from_the_nearest_before_it(tmp_path):
    more = {**NPU_FILES, "torch_npu/npu/__init__.py": "def is_available(): ...\ndef new(): ...\n"}
    for version, files in [("2.1.0", NPU_FILES), ("2.1.0.post3", more), ("2.2.0", NPU_FILES), ("2.10.0", more)]:
        write_wheel(tmp_path, f"torch_npu-{version}-cp310-cp310-any.whl", files)
    written = {name: json.loads(text)["releases"] for name, text in release_files(read_wheels(tmp_path)).items()}
    assert list(written) == ["2.1.json", "2.2.json", "2.10.json"]
    first, second = written["2.1.json"]
    assert (first["from"], second["from"]) == ("", "2.1.0")
    assert "aten::add.Tensor" in first["new"]["supported"]
    assert (second["new"]["names"], second["gone"]["names"]) == (
        ["torch.npu.new"],
        ["torch.npu.FloatTensor", "torch.npu.autocast"],
    )
    assert [(each["from"], each["new"], each["gone"]) for each in written["2.10.json"]] == [("2.1.0.post3", {}, {})]
    assert written["2.2.json"][0]["from"] == "2.1.0"


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "holds no wheel" in capsys.readouterr().err
    assert main([str(tmp_path / "missing")]) == 2
    assert "usage" in capsys.readouterr().err
    write_wheel(tmp_path, "torch_npu-2.1.0-cp38-cp38-any.whl", {})
    assert main([str(tmp_path)]) == 1
    assert "the wheel has none of" in capsys.readouterr().err
