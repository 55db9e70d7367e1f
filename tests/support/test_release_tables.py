"""The shipped tables and the questions they answer."""

import json

import pytest

from gpu2npu.support.release_tables import (
    CUDA_TABLE,
    cuda_names,
    has_cuda_name,
    has_npu_name,
    table_for,
)
from gpu2npu.support.releases import RELEASES, torch_npu_versions

TENSOR_TYPES = {f"{kind}Tensor" for kind in ("Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")}


def test_the_table_of_torch_cuda_is_sorted_and_has_no_repetition():
    content = json.loads(CUDA_TABLE.read_text(encoding="utf-8"))
    lists = [names for key in content if key.startswith("torch.") for names in content[key].values()]
    lists += content["parameters"].values()
    assert all(each == sorted(set(each)) for each in lists) and len(lists) > 100


@pytest.mark.parametrize("release", RELEASES)
def test_tables_are_plausible(release):
    table = table_for(release)
    assert table.release == release
    assert table.wheel.startswith(f"torch_npu-{table.version}-") and "rc" not in table.version
    assert {"aten::add.Tensor", "aten::mm", "aten::convolution", "aten::copy_"} <= table.supported
    assert all(name.startswith("aten::") for name in table.supported | table.autograd)
    assert all(name.startswith("npu::") for name in table.custom)
    assert len(table.supported) > 950 and len(table.custom) > 150
    assert {"torch.npu", "torch.npu.amp", "torch.npu.memory"} <= table.npu_modules <= table.npu_names
    everywhere = {"is_available", "device_count", "amp.autocast", "amp.GradScaler", "Stream", *TENSOR_TYPES}
    assert {f"torch.npu.{name}" for name in everywhere} <= table.npu_names
    assert all(name == "torch.npu" or name.startswith("torch.npu.") for name in table.npu_names)
    assert not any("DataParallel" in name or "cuda" in name.rsplit(".", 1)[-1] for name in table.npu_names)
    assert {"torch_npu.npu_format_cast", "torch_npu.optim.NpuFusedAdamW"} <= table.torch_npu_names


def test_every_release_falls_back_to_the_cpu_but_for_sparse_tensors():
    tables = [table_for(version) for version in torch_npu_versions()]
    assert all({"npu_cpu_fallback", "npu_Sparse_fallback"} <= table.library for table in tables)
    with_switch = [table.version for table in tables if "TORCH_NPU_FALLBACK_CPU_DISABLE" in table.library]
    assert {"2.7.1.post11", "2.12.0.post3", "2.13.0"} <= set(with_switch)
    assert not {"2.7.1.post10", "2.12.0.post2", "2.8.0.post5"} & set(with_switch)
    raises = [table.version for table in tables if "torch.nn.DataParallel" in table.refused]
    assert raises == ["2.1.0.post0", "2.1.0.post3", "2.2.0rc1", "2.2.0.post0"]


def test_releases_differ_where_torch_npu_does():
    oldest, newer, newest = table_for("2.1.0.post0"), table_for("2.1.0.post3"), table_for("2.14.0")
    assert not has_npu_name(oldest, "torch.npu.mem_get_info")
    assert has_npu_name(newer, "torch.npu.mem_get_info")
    assert has_npu_name(newest, "torch.npu.mem_get_info")
    assert len(oldest.custom) < len(newer.custom) < len(newest.custom)


def test_1_11_uses_the_oldest_table_and_says_so():
    stand_in, oldest = table_for("1.11.0"), table_for("2.1.0.post0")
    assert stand_in.npu_names == oldest.npu_names
    assert oldest.evidence == "torch_npu-2.1.0"
    assert stand_in.evidence == "torch_npu-2.1.0, the oldest on PyPI (there is none for PyTorch 1.11.0)"


def test_parameters_differ_where_torch_npu_does():
    assert table_for("2.1.0.post0").parameters["torch.npu.get_device_name"] == {"device_name"}
    assert "execution_trace_observer" not in table_for("2.12.0.post2").parameters["torch_npu.profiler.profile"]
    assert "execution_trace_observer" in table_for("2.13.0").parameters["torch_npu.profiler.profile"]


def test_an_unknown_version_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"2\.0\.0.*1\.11\.0, 2\.1\.0.*2\.14\.0"):
        table_for("2.0.0")
    with pytest.raises(ValueError, match=r"no torch_npu 2\.1\.0\.post4.*2\.1\.0\.post3, 2\.1\.0\.post6"):
        table_for("2.1.0.post4")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("torch.npu", True),
        ("torch.npu.amp", True),
        ("torch.npu.amp.autocast", True),
        ("torch.npu.Stream.wait_event", True),
        ("torch.npu.config.allow_internal_format", True),
        ("torch.npu.nccl.version", False),
        ("torch.npu.amp.no_such_name", False),
        ("torch.npu.no_such_name", False),
        ("torch_npu.npu.amp.autocast", True),
        ("torch_npu.npu.no_such_name", False),
        ("torch_npu.profiler.ProfilerActivity.NPU", True),
        ("torch_npu.profiler.record_function", False),
        ("torch_npu.npu_format_cast", True),
        ("torch_npu.no_such_name", False),
        ("torch_npu.optim", True),
        ("torch_npu.optim.no_such_name", False),
        ("torch", False),
        ("torch.nn", False),
    ],
)
def test_a_name_is_known_through_its_longest_known_part(name, known):
    assert has_npu_name(table_for("2.1.0.post0"), name) is known


def test_cuda_names_of_old_and_new_pytorch():
    names = cuda_names()
    assert {f"torch.cuda.{name}" for name in TENSOR_TYPES | {"BFloat16Tensor"}} <= names
    assert {"torch.cuda.memory_cached", "torch.cuda.amp.custom_fwd", "torch.cuda.nvtx.range_push"} <= names
    assert has_cuda_name("torch.cuda.memory._record_memory_history")
    assert has_cuda_name("torch.cuda.Event.elapsed_time")
    assert not has_cuda_name("torch.cuda.getDeviceIdListForCard")
    assert {"torch.backends.cuda.matmul", "torch.backends.cudnn.flags"} <= names
    assert not has_cuda_name("torch.cuda.os")


def test_mstx_is_read_method_by_method():
    old, new = table_for("2.10.0.post0"), table_for("2.11.0")
    assert has_npu_name(old, "torch_npu.npu.mstx.mark")
    assert not has_npu_name(old, "torch_npu.npu.mstx.range_push")
    assert has_npu_name(new, "torch_npu.npu.mstx.range_push")
    assert has_npu_name(new, "torch_npu.npu.mstx.annotate")


def test_what_does_nothing_and_what_is_raised_without_memory():
    assert "torch.npu.get_device_capability" in table_for("2.9.0.post0").inert
    assert "torch.npu.get_device_capability" not in table_for("2.9.0.post2").inert  # it reads an environment variable
    assert all("torch.npu.current_blas_handle" in table_for(release).inert for release in RELEASES)
    assert all(table_for(release).inert < table_for(release).npu_names for release in RELEASES)
    raised = [table_for(release).out_of_memory for release in RELEASES]
    assert raised == ["RuntimeError"] * 6 + ["torch.OutOfMemoryError"] * 8
