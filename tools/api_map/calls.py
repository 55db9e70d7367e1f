"""Calls of torch's public APIs with sample arguments: those of PyTorch's own test tables, and samples.py's."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tools.api_map.samples import samples
from tools.emulator_coverage.compare import tensors, to_npu
from tools.emulator_coverage.tables import load

MOST_SAMPLES = 40
MOST_GRADIENTS = 10
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
# C++ code that takes another path while a dispatch mode looks; samples.txt has calls of them that do not.
CHANGED_BY_TRACING = ("nn.functional.ctc_loss",)
EVALUATING = "training=False"
# Samples that autograd has to see.
AS_IS = ("torch.Tensor.backward", "torch.autograd.backward", "torch.utils.checkpoint.checkpoint")


@dataclass(frozen=True)
class Call:
    """One call of an API on the NPU. `label` is what its arguments set, as a reader would write it.

    `prepare` makes what is called, so that moving the sample to the NPU is not traced; `gradient` is the same for the
    backward pass, None where there is none. `as_is` calls keep track of gradients.
    """

    api: str
    label: str
    prepare: Callable[[], Callable[[], Any]]
    gradient: Callable[[], Callable[[], Any]] | None = None
    as_is: bool = False


def all_calls(only: Collection[str] = ()) -> Iterator[Call]:
    """Every call of every table, in a fixed order, or those of the APIs in `only`."""
    load("op_db")  # makes torch's tables importable
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if op.name in CHANGED_BY_TRACING:
            continue
        yield from _of_operator(op, only)
    for _, info in load("module_db"):
        if not only or _module_api(info) in only:
            yield from _of_module(info)
    for _, info in load("optim_db"):
        if not only or _optimizer_api(info) in only:
            yield from _of_optimizer(info)
    for api, label, prepare in samples():
        if not only or api in only:
            yield Call(api, label, prepare, as_is="init" in api or "grad" in api or api in AS_IS)


def _of_operator(op: Any, only: Collection[str]) -> Iterator[Call]:
    """The function, its aliases, and the methods of the same name, with the table's samples of one dtype."""
    targets: dict[str, Callable[..., Any]] = {}
    for each in (op, *op.aliases):
        function, name = (op.op, op.name) if each is op else (each.op, each.name)
        if _resolves(f"torch.{name}"):
            targets[f"torch.{name}"] = function
        for suffix, variant in (("", each.method_variant), ("_", each.inplace_variant)):
            method = f"{name.split('.')[-1]}{suffix}"
            if variant is not None and hasattr(torch.Tensor, method) and "nn.functional" not in name:
                targets[f"torch.Tensor.{method}"] = variant
            if suffix and variant is not None and _resolves(f"torch.{name}_"):
                targets[f"torch.{name}_"] = variant
    targets = {api: function for api, function in targets.items() if not only or api in only}
    if not targets:
        return
    torch.manual_seed(0)
    given = []
    with contextlib.suppress(Exception):  # some tables need what is not installed
        dtype = next(each for each in DTYPES if each in op.dtypes)
        given = list(itertools.islice(op.sample_inputs_func(op, "cpu", dtype, False), MOST_SAMPLES))
    for api, function in targets.items():
        in_place = api.endswith("_") and not api.endswith("__")
        for number, sample in enumerate(given):
            if (in_place and sample.broadcasts_input) or _is_empty(sample):
                continue
            gradient = None
            if op.supports_autograd and not in_place and number < MOST_GRADIENTS:
                gradient = _gradient(function, sample)
            yield Call(api, _label(sample.kwargs), _prepared(function, sample), gradient)


def _resolves(name: str) -> bool:
    value: Any = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return callable(value)


def _is_empty(sample: Any) -> bool:
    """Samples at PyTorch's edges take shortcuts that no program's tensors take."""
    given = tensors((sample.input, sample.args, sample.kwargs))
    return any(each.numel() == 0 for each in given)


def _label(kwargs: dict[str, Any]) -> str:
    shown = {key: value for key, value in kwargs.items() if isinstance(value, (str, bool)) and key != "device"}
    return ", ".join(f"{key}={value!r}" for key, value in sorted(shown.items()))


def _prepared(function: Callable[..., Any], sample: Any) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        first, args, kwargs = to_npu((sample.input, sample.args, sample.kwargs))
        if not tensors((first, args, kwargs)):
            return lambda: _with_device(function, first, args, kwargs)
        return lambda: function(first, *args, **kwargs)

    return prepare


def _with_device(function: Callable[..., Any], first: Any, args: Any, kwargs: Any) -> Any:
    try:
        return function(first, *args, **{**kwargs, "device": torch.device("npu")})
    except TypeError:
        return function(first, *args, **kwargs)


def _gradient(function: Callable[..., Any], sample: Any) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        first, args, kwargs = to_npu((sample.input, sample.args, sample.kwargs))
        leaves = [each for each in tensors((first, args, kwargs)) if each.is_floating_point()]
        for leaf in leaves:
            leaf.requires_grad_()
        out = function(first, *args, **kwargs)
        return _backward(tree_leaves(sample.output_process_fn_grad(out)), leaves)

    return prepare


def _backward(out: list[Any], leaves: list[torch.Tensor]) -> Callable[[], Any]:
    roots = [each for each in tensors(out) if each.requires_grad]
    ones = [torch.ones_like(each) for each in roots]
    if not roots or not leaves:
        return lambda: None
    return lambda: torch.autograd.grad(roots, leaves, ones, allow_unused=True)


def _module_api(info: Any) -> str:
    return f"torch.nn.{info.module_cls.__name__}"


def _optimizer_api(info: Any) -> str:
    return f"torch.optim.{info.optim_cls.__name__}"


def _of_module(info: Any) -> Iterator[Call]:
    api = _module_api(info)
    for training in (True, False):
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for number, given in enumerate(inputs):
            if given.forward_input is None:
                continue
            label = _label(given.constructor_input.kwargs)
            label = label if training else EVALUATING + (f", {label}" if label else "")
            prepare = _module(info, given, training)
            yield Call(api, label, prepare, _module_gradient(prepare) if training and number < MOST_GRADIENTS else None)


def _module(info: Any, given: Any, training: bool) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        made = given.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).train(training)
        module = copy.deepcopy(module).to("npu")
        args, kwargs = to_npu((given.forward_input.args, given.forward_input.kwargs))
        if info.is_lazy:
            module(*args, **kwargs)
        forward: Callable[[], Any] = lambda: module(*args, **kwargs)  # noqa: E731
        forward.leaves = [*module.parameters(), *tensors((args, kwargs))]  # type: ignore[attr-defined]
        return forward

    return prepare


def _module_gradient(prepare: Callable[[], Callable[[], Any]]) -> Callable[[], Callable[[], Any]]:
    def prepared() -> Callable[[], Any]:
        forward = prepare()
        leaves = [each for each in forward.leaves if each.requires_grad]  # type: ignore[attr-defined]
        return _backward(tree_leaves(forward()), leaves)

    return prepared


def _of_optimizer(info: Any) -> Iterator[Call]:
    """Steps of an optimizer as it is by default, and with each implementation that it can be asked for."""
    api = _optimizer_api(info)
    implementations: list[dict[str, Any]] = [{}]
    implementations += [{name: True} for name in ("foreach", "fused") if name in info.supported_impls]
    implementations += [{"foreach": False}] if "foreach" in info.supported_impls else []
    for given in info.optim_inputs_func(device="cpu"):
        for implementation in implementations:
            options = {**given.kwargs, **implementation}
            if not any(isinstance(each, torch.Tensor) for each in options.values()):
                yield Call(api, _label(implementation), _step(info, options), as_is=True)


def _step(info: Any, options: dict[str, Any]) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        parameters = [torch.nn.Parameter(torch.randn(shape).to("npu")) for shape in ((6, 5), (5, 3))]
        optimizer = info.optim_cls(parameters, **options)
        for parameter in parameters:
            gradient = torch.randn(parameter.shape).to("npu")
            parameter.grad = gradient.to_sparse() if info.only_supports_sparse_grads else gradient
        if info.step_requires_closure:
            return lambda: optimizer.step(lambda: sum((each * each).sum() for each in parameters))
        optimizer.step()
        return optimizer.step  # type: ignore[no-any-return]

    return prepare
