"""Tests of what the registry promises of every kernel."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import gpu2npu.emulator.kernels as kernels
from gpu2npu.emulator.kernels.registry import KERNELS, kernel

SOURCES = sorted(Path(kernels.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_kernel_imports_torch(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert not any(name.split(".")[0] in {"torch", "scipy"} for name in names)


def test_names_are_operators_torch_knows(kernels_of):
    import torch

    for name in kernels_of:
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        assert hasattr(getattr(getattr(torch.ops, namespace), packet), overload or "default"), name


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
