"""Tests of functions of all arguments of an operator, and of the table of derivatives: their names are the schemas'."""

import ast
import importlib
import itertools
import pkgutil
from pathlib import Path

import pytest
import torch
import torch_npu

from gpu2npu.emulator import npu_ops
from gpu2npu.emulator.npu_ops.arguments import HARMLESS, bound, by_schema, options_read

FILES = sorted(Path(npu_ops.__path__[0]).rglob("*.py"))
ADDED = {"generator"}  # by the dispatcher, to what draws
# What functions of single arguments do not read: how fast or where, what is reserved, or what is of one result only.
IDLE = {
    "copy_memory": {"non_blocking"},
    "npu_add_layer_norm": {"additional_output"},
    "npu_apply_rotary_pos_emb": {"layout"},
    "npu_convert_weight_to_int4pack": {"inner_k_tiles"},
    "npu_format_cast": {"input_dtype"},
    "npu_fused_infer_attention_score_workspace": {"query", "key", "value"},
    "npu_prefetch": {"self", "dependency", "max_size", "offset"},
    "npu_reshape": {"can_refresh"},
    "npu_silu_backward": {"x1"},
    "npu_transpose": {"require_contiguous"},
    "npu_yolo_boxes_encode": {"performance_mode"},
}


def _arguments(operator):
    return {argument.name for argument in definition_of(operator)._schema.arguments}


def definition_of(operator):
    packet, _, overload = operator.removeprefix("npu::").partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def _functions(*decorators, skipped=0, files=FILES):
    """Each function that a decorator registers, with its operators."""
    for function in itertools.chain.from_iterable(ast.parse(file.read_text()).body for file in files):
        for call in getattr(function, "decorator_list", ()):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in decorators:
                yield function, [ast.literal_eval(each) for each in call.args[skipped:]]


def test_a_function_reads_arguments_that_all_its_operators_have():
    checked = 0
    for function, operators in _functions("by_schema", skipped=1):
        (parameter,) = (argument.arg for argument in function.args.args)
        read = {
            node.attr
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == parameter
        }
        for operator in operators:
            assert read <= _arguments(operator) | ADDED, operator
            checked += len(read)
    assert checked > 400


def test_a_derivative_reads_what_its_operator_has():
    lines = Path(npu_ops.__path__[0], "derivatives.txt").read_text().splitlines()
    assert lines == sorted(lines)
    for line in lines:
        about, _, formulas = line.partition(": ")
        operator = about.partition(" >= ")[0]
        arguments, results = _arguments(operator), len(definition_of(operator)._schema.returns)
        known = arguments | {f"result{i}" for i in range(results)} | {f"g{i}" for i in range(results)} | {"needs"}
        for statement in ast.parse(formulas).body:
            assert {node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)} <= arguments
            names = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
            assert all(name in known or hasattr(torch.ops.npu, name) for name in names), line


def test_what_a_call_leaves_out_is_the_schema_s():
    found = bound("npu::npu_swiglu", (1,), {})
    assert vars(found) == {"self": 1, "dim": -1}
    assert vars(bound("npu::npu_swiglu", (1, 2), {})) == vars(bound("npu::npu_swiglu", (), {"dim": 2, "self": 1}))


def _bodies():
    """Each operator that is bound by its schema, with the function that computes it."""
    for info in pkgutil.walk_packages(npu_ops.__path__, f"{npu_ops.__name__}."):
        module = importlib.import_module(info.name)
        for function, operators in _functions("by_schema", skipped=1, files=[Path(module.__file__)]):
            for operator in operators:
                yield operator if "::" in operator else f"npu::{operator}", getattr(module, function.name)


def test_each_option_is_read_harmless_or_refused():
    refused = set()
    for operator, body in _bodies():
        registered = {}
        register = lambda name, to=registered: lambda run: to.setdefault(name, run)  # noqa: E731
        by_schema(register, operator)(body)
        for argument in definition_of(operator)._schema.arguments:
            name = argument.name
            if not argument.has_default_value() or name in HARMLESS | options_read(body):
                continue
            default = argument.default_value
            other = f"other than {default}" if isinstance(default, str) else 7 if default is None else not default
            called = operator.removeprefix("npu::").partition(".")[0]
            with pytest.raises(NotImplementedError, match=f"^torch_npu.{called}: .* does not compute {name}"):
                registered[operator](**{name: other})
            refused.add(f"{called}.{name}")
    assert refused > {
        *("npu_mm_all_reduce_base.reduce_op", "npu_mm_reduce_scatter_base.reduce_op"),
        *("npu_moe_token_permute.padded_mode", "npu_all_gather_base_mm.gather_index"),
        *("npu_cross_entropy_loss.return_zloss", "npu_rotated_iou.v_threshold", "npu_fusion_attention_v3.sink"),
        *("npu_grouped_matmul.scale", "npu_fused_infer_attention_score_v2.learnable_sink"),
    }
    assert not {name for name in HARMLESS if not any(name in _arguments(operator) for operator, _ in _bodies())}


def test_a_function_without_a_namespace_reads_its_parameters():
    for function, operators in _functions("kernel", "composite", "_own"):
        loaded = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        parameters = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        assert parameters - loaded == IDLE.get(function.name, set()), operators


def test_an_option_that_is_not_computed_is_named():
    boxes = torch.ones(1, 5, 2).npu()
    with pytest.raises(NotImplementedError) as raised:
        torch_npu.npu_rotated_iou(boxes, boxes, v_threshold=0.5)
    sentence = "torch_npu.npu_rotated_iou: the emulated NPU does not compute v_threshold 0.5, only the default, 0.0"
    assert str(raised.value).splitlines()[0] == sentence
    assert torch_npu.npu_rotated_iou(boxes, boxes, v_threshold=0).shape == (1, 2, 2)
    square = torch.ones(2, 2).npu()
    with pytest.raises(NotImplementedError, match="npu_ffn: the emulated NPU does not compute scale, only the default"):
        torch_npu.npu_ffn(square, square, square, "relu", scale=square)
