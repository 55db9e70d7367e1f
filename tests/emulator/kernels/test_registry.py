"""Tests of what the registry promises of every kernel."""

import ast
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

import gpu2npu.emulator.kernels as kernels
from gpu2npu.emulator.kernels.registry import KERNELS, kernel

INT64 = 4  # the number of a dtype in PyTorch's schemas
SOURCES = sorted(Path(kernels.__path__[0]).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_kernel_imports_torch(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert not any(name.split(".")[0] == "torch" for name in names)


def test_names_are_operators_torch_knows(kernels_of):
    import torch

    for name in kernels_of:
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        assert hasattr(getattr(getattr(torch.ops, namespace), packet), overload or "default"), name


def test_no_kernel_is_of_an_operator_that_pytorch_composes_above_the_device(kernels_of):
    """Such a kernel would never run: autograd and the device see the operators that the composition calls."""
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    composed = {each for each in kernels_of if has(each, "CompositeImplicitAutograd") and not has(each, "Autograd")}
    assert composed == {"aten::one_hot"}  # torch_npu's own, in place of the composition


def test_defaults_are_those_of_the_operators(kernels_of):
    """A default that a kernel lacks is given by the dispatcher; one number stands for that of all dimensions."""
    import torch

    compared = 0
    for name, function in kernels_of.items():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        schema = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")._schema
        parameters = {} if isinstance(function, np.ufunc) else inspect.signature(function).parameters
        for argument in schema.arguments:
            given = parameters[argument.name].default if argument.name in parameters else inspect.Parameter.empty
            if not argument.has_default_value() or given is inspect.Parameter.empty:
                continue
            expected = argument.default_value
            if argument.name == "dtype" and given is None:
                given = INT64 if expected == INT64 else None
            elif isinstance(given, tuple):
                given = [*given] if len(given) == len(expected) else [*given] * len(expected)
            assert given == expected, (name, argument.name)
            compared += 1
    assert compared > 300


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="two kernels for aten::relu"):
        kernel("aten::relu")(lambda self: self)


def test_infinities_come_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KERNELS["aten::log"](np.zeros(1, np.float32)) == -np.inf


def test_zero_dim_results_are_arrays():
    result = KERNELS["aten::add.Tensor"](np.array(1.0, np.float32), np.array(2.0, np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
