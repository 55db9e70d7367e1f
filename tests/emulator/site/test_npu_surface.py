"""Every public name of `torch.npu` in torch_npu 2.13 exists: it behaves, or says that the emulator does not do it."""

import importlib
import math
import sys
import unittest

import numpy as np
import pytest
import torch
import torch_npu

from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.support.release_tables import table_for

NAMES = sorted(
    name.removeprefix("torch.npu.")
    for name in table_for("2.13.0").npu_names - table_for("2.13.0").npu_modules
    if name.count(".") == 2 and not name.startswith("torch.npu._")
)
REFUSED = [
    "change_current_allocator",
    "npurt",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "restart_device",
    "set_op_timeout_ms",
    "stop_device",
]


def test_the_release_has_no_other_public_names():
    assert len(NAMES) > 150
    assert [name for name in NAMES if not hasattr(torch.npu, name)] == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_done_says_so_with_its_name(name):
    with pytest.raises(NotImplementedError, match=rf"torch\.npu\.{name}: the emulated NPU does not do this"):
        getattr(torch.npu, name)(1, 2)


def test_overflow_shows_as_infinity():
    assert torch.npu.utils.is_support_inf_nan()
    assert torch.npu.utils.npu_check_overflow(torch.tensor([1.0, math.inf]).npu())
    assert torch.npu.utils.npu_check_overflow(math.nan)
    assert not torch.npu.utils.npu_check_overflow(torch.ones(3).npu())
    with pytest.raises(RuntimeError, match="Unsupported type"):
        torch.npu.utils.npu_check_overflow("1")
    with pytest.raises(RuntimeError, match="please use npu_check_overflow"):
        torch.npu.get_npu_overflow_flag()
    with pytest.warns(UserWarning, match="is useless"):
        torch.npu.clear_npu_overflow_flag()


def test_settings_are_remembered():
    assert torch.npu.is_jit_compile_false()
    torch.npu.set_compile_mode(jit_compile=True)
    assert not torch.npu.is_jit_compile_false()
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.set_mm_bmm_format_nd(False)
    assert not torch.npu.get_mm_bmm_format_nd()
    torch.npu.set_mm_bmm_format_nd(True)
    with pytest.raises(TypeError, match="should be a bool"):
        torch.npu.set_mm_bmm_format_nd(1)
    every = torch.npu.get_device_limit(0)
    torch.npu.set_device_limit(0, cube_num=4)
    assert torch.npu.get_device_limit(0) == {**every, "cube_core_num": 4}
    torch.npu.set_device_limit(0, cube_num=every["cube_core_num"])
    stream = torch.npu.Stream()
    torch.npu.set_stream_limit(stream, 2, 3)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 2, "vector_core_num": 3}
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == every
    torch.npu.set_task_queue_enable(2)
    assert torch.npu.get_task_queue_enable() == 2
    torch.npu.set_task_queue_enable("1")
    assert torch.npu.stress_detect() == 0
    assert torch.npu.get_per_process_memory_fraction() == 1
    torch.npu.set_per_process_memory_fraction(0.5, 1)
    assert torch.npu.get_per_process_memory_fraction(1) == 0.5
    torch.npu.set_per_process_memory_fraction(1.0, 1)
    with torch.npu.sdp_kernel(enable_flash=False):
        assert not torch.npu.flash_sdp_enabled()
    assert torch.npu.flash_sdp_enabled()


def test_deterministic_sections_reach_into_the_backward_pass():
    seen = []
    x = torch.ones(2).npu().requires_grad_()
    y = torch.npu.enable_deterministic_with_backward(x)
    y = y * 2
    y.register_hook(lambda grad: seen.append(torch.are_deterministic_algorithms_enabled()))
    assert torch.are_deterministic_algorithms_enabled()
    z = torch.npu.disable_deterministic_with_backward(y)
    assert not torch.are_deterministic_algorithms_enabled()
    z.sum().backward()
    assert seen == [True]
    assert not torch.are_deterministic_algorithms_enabled()


def test_memory_is_shown_block_by_block():
    x = torch.ones(1 << 20).npu()
    assert any(segment["total_size"] >= 4 << 20 for segment in torch.npu.memory_snapshot())
    nested = torch.npu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] >= 4 << 20
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        assert pool.use_count() == 2
    assert pool.use_count() == 1
    assert pool.id != torch.npu.MemPool().id
    assert x.numel()


def test_legacy_storages():
    storage = torch.npu.FloatStorage([1.0, 2.0])
    assert isinstance(storage, torch.npu.FloatStorage)
    assert not isinstance(storage, torch.npu.HalfStorage)
    assert torch.npu.LongStorage(3).size() == 3


def test_streams_of_other_libraries():
    stream = torch.npu.ExternalStream(77)
    assert stream.npu_stream == 77
    with torch.npu.stream(torch.npu.SyncLaunchStream()):
        event = torch.npu.ExternalEvent()
        event.record()
        event.wait()
        event.reset()


def test_marks_without_a_profile_do_nothing():
    mstx = torch.npu.mstx
    mstx.mark("here")
    number = mstx.range_start("work")
    mstx.range_end(number)
    assert mstx.range_push("outer") == 0
    assert mstx.range_push("inner") == 1
    assert (mstx.range_pop(), mstx.range_pop(), mstx.range_pop()) == (1, 0, -1)
    assert mstx.mstx_range("double")(lambda x: 2 * x)(3) == 6
    with pytest.warns(UserWarning, match="valid message"):
        assert mstx.range_start("") == 0


def test_modules_without_a_file_give_what_the_emulator_has_and_refuse_the_rest():
    from torch_npu._absent import NAMES

    for module, names in NAMES.items():
        if not module.startswith("torch_npu.distributed.rpc"):  # which refuses to be imported
            held = importlib.import_module(module)
            assert [name for name in names if not hasattr(held, name)] == []
    from torch_npu.contrib.module.bidirectional_lstm import BiLSTM
    from torch_npu.jit import optimize
    from torch_npu.optim.npu_fused_adamw import NpuFusedAdamW

    assert BiLSTM is importlib.import_module("torch_npu.contrib.module").BiLSTM
    assert NpuFusedAdamW is torch_npu.optim.NpuFusedAdamW
    with pytest.raises(NotImplementedError, match=r"torch_npu\.jit\.optimize: the emulated NPU does not do this"):
        optimize(None)
    assert not isinstance(torch.ones(1), torch_npu.HiFloat8Tensor)
    with pytest.raises(AttributeError, match=r"'torch_npu\.jit' of the emulated torch_npu has no attribute 'nothing'"):
        importlib.import_module("torch_npu.jit").nothing()
    import torchair.ge

    assert torchair.ge is importlib.import_module("torch_npu.dynamo.torchair.ge")


def test_tests_of_other_projects_compare_tensors_on_both_sides():
    from torch_npu.testing.common_utils import SupportedDevices, create_common_tensor
    from torch_npu.testing.testcase import TestCase

    case = TestCase()
    on_host, on_npu = create_common_tensor([np.float32, -1, (4, 5)], -1, 1)
    assert on_npu.device.type == "npu"
    case.assertRtolEqual(on_host, on_npu)
    case.assertRtolEqual(on_host.numpy(), on_npu.cpu().numpy())
    case.assertEqual({"a": [on_host, 1]}, {"a": [on_npu, 1]})
    for wrong in (on_npu + 1e-2, on_npu[:3], on_npu.half()):
        with pytest.raises(AssertionError):
            case.assertRtolEqual(on_host, wrong)
        with pytest.raises(AssertionError):
            case.assertTensorsSlowEqual(on_host, wrong, prec=1e-3)
        if wrong.dtype == torch.float32:
            case.assertNotEqual(on_host, wrong)
    case.assertTensorsSlowEqual(on_host, on_npu, prec=1e-3)
    case.assertAlmostEqual(on_host > 0, on_npu > 0)
    case.assertAlmostEqual(on_host, on_npu + 1e-3, places=2)
    with pytest.raises(unittest.SkipTest, match="Only run on"):
        SupportedDevices(["Ascend310P"])(lambda self: None)(case)


def test_the_report_of_the_environment_names_the_npus(monkeypatch):
    from torch_npu.utils import collect_env

    monkeypatch.setattr(torch.utils.collect_env, "pretty_str", lambda info: "what PyTorch says")
    assert collect_env.pretty_str(None).startswith("what PyTorch says\n\nTorch_npu: ")
    assert f"NPUs: {torch.npu.device_count()} (Ascend910B2)" in collect_env.pretty_str(None)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    assert collect_env.get_cann_version() == "not known"
    with pytest.raises(RuntimeError, match="The path does not exist: /nowhere"):
        collect_env.check_directory_path_readable("/nowhere")


CONTEXT_PARALLEL = "torch_npu.distributed.tensor.experimental"


@pytest.fixture
def imported_anew(monkeypatch):
    """Imports a module as a process that imitates a release does."""

    def imported(name, version):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setenv("GPU2NPU_TORCH_NPU", version)
        support_table._table.cache_clear()
        return importlib.import_module(name)

    yield imported
    support_table._table.cache_clear()
    sys.modules.pop(CONTEXT_PARALLEL, None)


@pytest.mark.parametrize("version", ["2.7.1.post8", "2.9.0.post6", "2.13.0"])
def test_context_parallel_has_torch_npus_name_where_its_wheels_have_it(imported_anew, version):
    module = imported_anew(CONTEXT_PARALLEL, version)
    assert module.__all__ == ["context_parallel"]
    assert module.context_parallel.__module__ == CONTEXT_PARALLEL
    assert module.context_parallel.__name__ == "context_parallel"


@pytest.mark.parametrize("version", ["2.7.1.post2", "2.8.0", "2.9.1"])
def test_context_parallel_is_absent_where_its_wheels_lack_it(imported_anew, version):
    with pytest.raises(ModuleNotFoundError, match=rf"No module named '{CONTEXT_PARALLEL}': this release has no ring"):
        imported_anew(CONTEXT_PARALLEL, version)
