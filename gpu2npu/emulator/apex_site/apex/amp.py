"""`apex.amp`: mixed precision by levels.

O0 computes in float32. O1 runs the forward pass under autocast. O2 computes in float16 with batch normalisation and the
optimizer's parameters in float32. O3 computes all in float16. Cube units multiply as `torch.npu.amp` has them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from .scaler import LossScaler

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm
Function = Callable[..., Any]


@dataclass(frozen=True)
class Properties:
    """The settings of a level: apex's names."""

    cast_model_type: torch.dtype | None = None
    autocast: bool = False
    keep_batchnorm_fp32: bool = False
    master_weights: bool = False
    loss_scale: float | str = 1.0


LEVELS = {
    "O0": Properties(),
    "O1": Properties(autocast=True, loss_scale="dynamic"),
    "O2": Properties(torch.float16, keep_batchnorm_fp32=True, master_weights=True, loss_scale="dynamic"),
    "O3": Properties(torch.float16),
}

_scalers: list[LossScaler] = []


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
    combine_grad: bool | None = None,
    combine_ddp: bool | None = None,
    **options: Any,
) -> Any:
    """Prepare models and optimizers for a level; both are changed in place and returned.

    Args:
        models: A module or a list of them, on the NPU.
        optimizers: An optimizer, a list of them, or None.
        enabled: Whether anything is done.
        opt_level: O0, O1, O2 or O3.
        cast_model_type: The dtype of the model's parameters, instead of the level's.
        keep_batchnorm_fp32: Whether batch normalisation stays in float32, instead of the level's.
        master_weights: Whether the optimizer keeps float32 parameters, instead of the level's.
        loss_scale: "dynamic" or a number, instead of the level's.
        num_losses: How many losses are scaled, each by itself.
        verbosity: Accepted; nothing is printed.
        min_loss_scale: The least scale.
        max_loss_scale: The greatest scale.
        combine_grad: Accepted: how gradients are in memory makes no difference here.
        combine_ddp: The same.
        **options: The same.

    Raises:
        RuntimeError: The level is not one of the four, or a parameter is not on an NPU or not float32.
    """
    global _scalers
    if not enabled:
        _scalers = [LossScaler(1.0, None, max_loss_scale) for _ in range(num_losses)]
        return models if optimizers is None else (models, optimizers)
    if opt_level not in LEVELS:
        raise RuntimeError(f"Unexpected optimization level {opt_level}. Options are 'O0', 'O1', 'O2', 'O3'.")
    requested = {
        "cast_model_type": cast_model_type,
        "keep_batchnorm_fp32": None if keep_batchnorm_fp32 is None else str(keep_batchnorm_fp32) == "True",
        "master_weights": master_weights,
        "loss_scale": loss_scale,
    }
    given: dict[str, Any] = {key: value for key, value in requested.items() if value is not None}
    properties = replace(LEVELS[opt_level], **given)
    _scalers = [LossScaler(properties.loss_scale, min_loss_scale, max_loss_scale) for _ in range(num_losses)]
    for model in models if isinstance(models, (list, tuple)) else [models]:
        _check(model)
        _cast(model, properties)
    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers] if optimizers else []:
        _prepare(optimizer, properties.master_weights)
    return models if optimizers is None else (models, optimizers)


def _check(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.device.type != "npu":
            raise RuntimeError(f"Found param {name} on {parameter.device}: move the model to the NPU first")
        if parameter.is_floating_point() and parameter.dtype != torch.float32:
            raise RuntimeError(f"Found param {name} with type {parameter.dtype}, expected torch.float32")


def _cast(model: nn.Module, properties: Properties) -> None:
    """Give a model the dtype of the level, and its forward method the casts that the dtype needs."""
    forward, dtype = model.forward, properties.cast_model_type
    if properties.autocast:
        model.forward = torch.autocast("npu", torch.float16)(forward)
    if dtype is None:
        return
    for module in model.modules():
        if not (properties.keep_batchnorm_fp32 and isinstance(module, _BATCH_NORMS)):
            for each in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                each.data = each.data.to(dtype) if each.is_floating_point() else each.data

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = _converted((args, kwargs), dtype)
        return _converted(forward(*given[0], **given[1]), torch.float32)

    model.forward = run


def _converted(value: Any, dtype: torch.dtype) -> Any:
    return tree_map_only(torch.Tensor, lambda each: each.to(dtype) if each.is_floating_point() else each, value)


class _Stash:
    """Model parameters and the float32 parameters that the optimizer updates for them; a step to be left out."""

    def __init__(self, optimizer: torch.optim.Optimizer, master_weights: bool) -> None:
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.skip = False
        for group in optimizer.param_groups:
            for index, parameter in enumerate(group["params"]):
                master = parameter
                if master_weights and parameter.dtype != torch.float32:
                    master = group["params"][index] = nn.Parameter(parameter.detach().float())
                self.pairs.append((parameter, master))

    def gather_gradients(self) -> None:
        """Hand the gradients of the model's parameters to those in float32, in the memory that these have already."""
        for parameter, master in self.pairs:
            if master is parameter or parameter.grad is None:
                continue
            if master.grad is None:
                master.grad = parameter.grad.float()
            else:
                master.grad.copy_(parameter.grad)

    def spread_values(self) -> None:
        """Copy the updated float32 parameters back."""
        with torch.no_grad():
            for parameter, master in self.pairs:
                if master is not parameter:
                    parameter.copy_(master)


def _prepare(optimizer: Any, master_weights: bool) -> None:
    stash = optimizer._amp_stash = _Stash(optimizer, master_weights)
    step, zero_grad = optimizer.step, optimizer.zero_grad

    @functools.wraps(step)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        if stash.skip:
            stash.skip = False
            return None
        result = step(*args, **kwargs)
        stash.spread_values()
        return result

    @functools.wraps(zero_grad)
    def zeroing(*args: Any, **kwargs: Any) -> None:
        zero_grad(*args, **kwargs)
        for parameter, master in stash.pairs:
            if master is not parameter:
                parameter.grad = None

    optimizer.step, optimizer.zero_grad = stepping, zeroing


@contextlib.contextmanager
def scale_loss(
    loss: torch.Tensor,
    optimizers: Any,
    loss_id: int = 0,
    model: nn.Module | None = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[torch.Tensor]:
    """The scaled loss, to call backward on; at the end the gradients are unscaled, and a step of an overflow skipped.

    Raises:
        RuntimeError: `initialize` was not called.
    """
    if not _scalers:
        raise RuntimeError("Invoked 'with amp.scale_loss', but internal Amp state has not been initialized.")
    scaler = _scalers[loss_id]
    yield loss.float() * scaler.loss_scale()
    if delay_unscale:
        return
    overflow = False
    chosen = optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]
    for optimizer in chosen:
        stash = getattr(optimizer, "_amp_stash", None)
        if stash is not None:
            stash.gather_gradients()
            overflow = scaler.unscale(master for _, master in stash.pairs) or overflow
    scaler.update(overflow)
    for optimizer in chosen:
        if overflow:
            optimizer._amp_stash.skip = True


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters that the optimizer updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """The state of each loss's scaler."""
    found = {} if destination is None else destination
    found.update({f"loss_scaler{index}": scaler.state_dict() for index, scaler in enumerate(_scalers)})
    return found


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Go on from a saved state."""
    for index, scaler in enumerate(_scalers):
        scaler.load_state_dict(state_dict[f"loss_scaler{index}"])


def _in_dtype(dtype: torch.dtype) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            given = _converted((args, kwargs), dtype)
            with torch.autocast("npu", enabled=False):
                return function(*given[0], **given[1])

        return run

    return decorate


half_function = _in_dtype(torch.float16)
float_function = _in_dtype(torch.float32)


def register_half_function(module: Any, name: str) -> None:
    """Let a function of a module compute in float16."""
    setattr(module, name, half_function(getattr(module, name)))


def register_float_function(module: Any, name: str) -> None:
    """Let a function of a module compute in float32."""
    setattr(module, name, float_function(getattr(module, name)))
