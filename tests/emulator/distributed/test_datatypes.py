"""HCCL's tables of dtypes and reductions, by chip."""

import re

import pytest
import torch
import torch.distributed as dist

from gpu2npu.emulator.distributed import datatypes, operands
from gpu2npu.emulator.distributed.group import Group
from gpu2npu.emulator.distributed.options import HcclOptions
from gpu2npu.emulator.soc import current_soc

SUM, PRODUCT, MAX = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX


@pytest.fixture
def chip(monkeypatch):
    def choose(name):
        monkeypatch.setenv("GPU2NPU_SOC", name)
        current_soc.cache_clear()

    yield choose
    monkeypatch.undo()
    current_soc.cache_clear()


@pytest.mark.parametrize(
    ("name", "dtype", "op", "taken"),
    [
        ("Ascend910B", torch.bfloat16, SUM, True),
        ("Ascend910B", torch.bfloat16, PRODUCT, False),
        ("Ascend910B", torch.int16, SUM, True),
        ("Ascend910B", torch.int16, PRODUCT, False),
        ("Ascend910B", torch.bool, SUM, True),
        ("Ascend910B", torch.float64, SUM, False),
        ("Ascend910_93", torch.bfloat16, PRODUCT, False),
        ("Ascend950", torch.float64, SUM, True),
        ("Ascend950", torch.int32, dist.ReduceOp.BAND, False),
        ("Ascend910B", torch.int32, dist.ReduceOp.AVG, False),
        ("Ascend910B", torch.float16, dist.ReduceOp.AVG, True),
        ("Ascend910A", torch.bfloat16, SUM, False),
        ("Ascend910A", torch.int16, SUM, False),
        ("Ascend910A", torch.int64, MAX, True),
        ("Ascend310P", torch.int64, SUM, False),
        ("Ascend310P", torch.int16, SUM, True),
        ("Ascend310P", torch.int16, MAX, False),
    ],
)
def test_reductions(chip, name, dtype, op, taken):
    chip(name)
    if taken:
        datatypes.check_reduced(dtype, op, "allreduce")
    else:
        with pytest.raises(RuntimeError, match=r"HCCL.*\[[\w-]+\]$"):
            datatypes.check_reduced(dtype, op, "allreduce")


def test_reduce_scatter_takes_no_bytes():
    datatypes.check_reduced(torch.uint8, SUM, "allreduce")
    with pytest.raises(RuntimeError, match="HCCL _reduce_scatter_base: Unsupported data type at::kByte/at::kBool"):
        datatypes.check_reduced(torch.uint8, SUM, "_reduce_scatter_base")


@pytest.mark.parametrize(
    ("dtype", "row"),
    [(torch.complex64, "[complex-hccl]"), (torch.uint16, "[unsigned-hccl]"), (torch.float8_e4m3fn, "[float8-hccl]")],
)
def test_what_hccl_does_not_even_move(dtype, row):
    with pytest.raises(RuntimeError, match=f"Unsupported data type for HCCL process group.*{re.escape(row)}$"):
        datatypes.check_moved(dtype)


def test_sparse_tensors_are_refused():
    with pytest.raises(RuntimeError, match="Tensors must be dense"):
        operands.host_memory(torch.eye(2).to_sparse())


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"group_name": "mine", "hccl_buffer_size": 200, "qos_service_level": 3, "hccl_algo": "level0:NA"}, None),
        ({"hccl_buffer_size": "200"}, "Value type of hccl_buffer_size should be int."),
        ({"group_name": "mine", "hccl_algo": 0}, "Value type of hccl_algo should be string."),
        ({"of_a_later_release": object()}, None),
    ],
)
def test_a_value_of_another_type_in_hccl_config(config, refused):
    options = HcclOptions()
    options.hccl_config = config
    if refused is None:
        options.check()
        return
    with pytest.raises(RuntimeError, match=re.escape(refused)):
        Group(dist.HashStore(), 0, 1, options)
