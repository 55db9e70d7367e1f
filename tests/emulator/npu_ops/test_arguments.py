"""Tests of functions of all arguments of an operator, and of the table of derivatives: their names are the schemas'."""

import ast
import itertools
from pathlib import Path

import torch

from gpu2npu.emulator import npu_ops
from gpu2npu.emulator.npu_ops.arguments import bound

FILES = sorted(Path(npu_ops.__path__[0]).rglob("*.py"))
ADDED = {"generator"}  # by the dispatcher, to what draws


def _arguments(operator):
    return {argument.name for argument in definition_of(operator)._schema.arguments}


def definition_of(operator):
    packet, _, overload = operator.removeprefix("npu::").partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def _functions():
    """Each function that is registered by schema: its operators, its one parameter and its body."""
    for function in itertools.chain.from_iterable(ast.parse(file.read_text()).body for file in FILES):
        for call in getattr(function, "decorator_list", ()):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "by_schema":
                yield function, [ast.literal_eval(each) for each in call.args[1:]]


def test_a_function_reads_arguments_that_all_its_operators_have():
    checked = 0
    for function, operators in _functions():
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
