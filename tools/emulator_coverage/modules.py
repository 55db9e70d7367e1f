"""One module of `module_db`: all its inputs, training and evaluating, on the emulated NPU against the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from gpu2npu.emulator.device.dispatch.limits import LimitError
from tools.emulator_coverage.compare import (
    DifferenceError,
    check_kind,
    check_values,
    copied,
    draws,
    located,
    tensors,
    to_npu,
    tolerances,
)
from tools.emulator_coverage.operators import Tried

Run = tuple[list[Any], list[torch.Tensor | None]]


def check(info: Any, dtype: torch.dtype, tried: Tried) -> None:
    """Compare outputs and the gradients of inputs and parameters for all module inputs, in both modes.

    Raises:
        Exception: Whatever the NPU raised, or a DifferenceError; the message names the input.
    """
    for training in (True, False):
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for number, given in enumerate(inputs):
            if given.forward_input is None:
                continue
            described = f" ({given.desc})" if given.desc else ""
            with located(f"{'training' if training else 'evaluating'}, input {number}{described}"):
                _check_input(info, dtype, given, training, tried)


def _check_input(info: Any, dtype: torch.dtype, given: Any, training: bool, tried: Tried) -> None:
    limits = tolerances(info, dtype)
    torch.manual_seed(0)
    made = given.constructor_input
    module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
    forward = (given.forward_input.args, given.forward_input.kwargs)
    on_npu = _on_npu(module, info.is_lazy, forward)
    try:
        expected = _run(copy.deepcopy(module), copied(forward), seed=1)
    except Exception as error:
        tried.uncomparable.append(f"{type(error).__name__}: {error}")
        return
    args, kwargs = copied(forward)
    random = draws(lambda: copy.deepcopy(module)(*args, **kwargs))
    tried.random |= random
    try:
        actual = _run(on_npu, to_npu(forward), seed=1)
    except LimitError as error:
        tried.uncomparable.append(f"the NPU refuses it: {error}")
        return
    wide: list[Run] = []

    def in_float64() -> Run:
        if not wide:
            wide.append(_run(copy.deepcopy(module).double(), copied(forward, wide=True), seed=1))
        return wide[0]

    if len(actual[0]) != len(expected[0]):
        raise DifferenceError(f"{len(actual[0])} results instead of {len(expected[0])}")
    for part, what in enumerate(("result", "gradient")):
        for number, (ours, theirs) in enumerate(zip(actual[part], expected[part], strict=True)):
            wider = lambda p=part, n=number: in_float64()[p][n]  # noqa: E731
            tried.by_wider |= _check_value(f"{what} {number}", ours, theirs, None if random else wider, limits)
    tried.samples += 1
    tried.gradients += 1


def _on_npu(module: torch.nn.Module, is_lazy: bool, forward: tuple[Any, Any]) -> torch.nn.Module:
    """A copy of the module on the NPU. A lazy one makes its parameters there, then both have the CPU's."""
    moved = copy.deepcopy(module).to("npu")
    if is_lazy:
        args, kwargs = to_npu(forward)
        moved(*args, **kwargs)
        args, kwargs = copied(forward)
        module(*args, **kwargs)
        moved.load_state_dict(module.state_dict())
    return moved


def _check_value(
    what: str, ours: Any, theirs: Any, wider: Callable[[], Any] | None, limits: tuple[float, float]
) -> bool:
    with located(what):
        if (ours is None) != (theirs is None):
            raise DifferenceError("there is none" if ours is None else "there should be none")
        check_kind(ours, theirs)
        if isinstance(theirs, torch.Tensor) and theirs.layout is torch.strided and wider is not None:
            return check_values(ours.detach().cpu(), theirs.detach(), lambda: wider().detach(), limits)
    return False


def _run(module: torch.nn.Module, forward: tuple[Any, Any], seed: int) -> Run:
    args, kwargs = forward
    torch.manual_seed(seed)
    results = tree_leaves(module(*args, **kwargs))
    roots = [each for each in tensors(results) if each.requires_grad]
    leaves = [each for each in (*module.parameters(), *tensors(forward)) if each.requires_grad]
    if not roots or not leaves:
        return results, []
    torch.manual_seed(3)
    weights = [torch.randn(each.shape, dtype=each.dtype).to(each.device) for each in roots]
    return results, list(torch.autograd.grad(roots, leaves, weights, allow_unused=True))
