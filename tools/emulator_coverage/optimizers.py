"""One optimizer of `optim_db`: steps on the emulated NPU against the CPU, for all inputs and implementations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tools.emulator_coverage.compare import check_values, located, tolerances
from tools.emulator_coverage.operators import Tried

STEPS = 5


def check(info: Any, dtype: torch.dtype, tried: Tried) -> None:
    """Compare the parameters after some steps.

    Raises:
        Exception: Whatever the NPU raised, or a DifferenceError; the message names the configuration.
    """
    limits = tolerances(info, dtype)
    for described, options in _configurations(info):
        wide: list[torch.Tensor] = []

        def in_float64(options: dict[str, Any] = options, wide: list[torch.Tensor] = wide) -> list[torch.Tensor]:
            wide[:] = wide or _train(info, options, dtype, "cpu", wide=True)
            return wide

        try:
            expected = _train(info, options, dtype, "cpu")
        except Exception as error:
            tried.uncomparable.append(f"{type(error).__name__}: {error}")
            continue
        with located(described):
            actual = _train(info, options, dtype, "npu")
            for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
                with located(f"parameter {number} after {STEPS} steps"):
                    wider = lambda n=number, run=in_float64: run()[n]  # noqa: E731
                    tried.by_wider |= check_values(ours, theirs, wider, limits)
        tried.samples += 1


def _configurations(info: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """torch's inputs of the optimizer, each with every implementation that it has."""
    implementations: list[dict[str, Any]] = [{}]
    implementations += [{name: True} for name in ("foreach", "fused") if name in info.supported_impls]
    if "foreach" in info.supported_impls:
        implementations[0] = {"foreach": False}
    for given in info.optim_inputs_func(device="cpu"):
        for implementation in implementations:
            described = ", ".join(f"{key}={value}" for key, value in {**given.kwargs, **implementation}.items())
            yield described or "defaults", {**given.kwargs, **implementation}


def _train(
    info: Any, options: dict[str, Any], dtype: torch.dtype, device: str, wide: bool = False
) -> list[torch.Tensor]:
    """The parameters after training a small regression, the same on both devices."""
    torch.manual_seed(0)
    shapes = ((6, 5), (5, 3), (4, 3), (4, 6))
    made = (torch.randn(shape, dtype=dtype).to(device) for shape in shapes)
    first, second, target, inputs = (each.double() for each in made) if wide else made
    parameters = [torch.nn.Parameter(each) for each in (first, second)]
    options = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in options.items()}
    optimizer = info.optim_cls(parameters, **options)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.tanh(inputs @ parameters[0]) @ parameters[1] - target
        mean = (loss * loss).mean()
        mean.backward()  # type: ignore[no-untyped-call]
        if info.only_supports_sparse_grads:
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad = parameter.grad.to_sparse()
        return mean

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [parameter.detach().cpu() for parameter in parameters]
