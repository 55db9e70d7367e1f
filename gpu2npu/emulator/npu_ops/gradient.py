"""The gradients of torch_npu's operators: one autograd node for all, and a formula for each.

`derivatives.txt` has the formulas, a line an operator: the arguments that get gradients, and the operators that compute
them of the gradients `g0`, the results `result0` and the arguments. Those that need code are beside their kernels.
Which operators are differentiated, and by which of the others, is what `op_plugin/config/derivatives.yaml` in Ascend's
op-plugin says, from which torch_npu is built; for the mixture-of-experts operators it is torch_npu 2.13.0.
The operators that compute gradients have none themselves: a second derivative raises.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch._ops import OpOverload
from torch.autograd import forward_ad

from gpu2npu.emulator.device.dispatch import support_table

# The arguments by name, the results, and the gradients of the results; answers the gradients of arguments by name.
Arguments: TypeAlias = SimpleNamespace
Results: TypeAlias = tuple[Any, ...]
Formula: TypeAlias = Callable[[Arguments, Results, Results], Mapping[str, Any]]

npu = torch.ops.npu


@dataclass(frozen=True)
class Gradient:
    """The differentiation of one operator: the formula, which of its results have gradients, and what is saved.

    `saves` names the tensors that the formula reads, `result0` for a result; None: all. A write in place into one of
    them raises in the backward pass, and into another does not, as torch_npu saves what its formula reads.
    `since` is the first release (VariableType.h of the wheels) that differentiates it; None: every one.
    """

    formula: Formula
    differentiable: tuple[int, ...] = (0,)
    saves: frozenset[str] | None = None
    since: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Unsaved:
    """A tensor of which the formula reads no values."""

    shape: torch.Size
    dtype: torch.dtype


GRADIENTS: dict[str, Gradient] = {}
_GRADIENT = re.compile(r"g\d+")
_COMPUTES_GRADIENTS = re.compile(r"_(backward|grad)(_v\d)?$")


def gradient(
    *names: str, differentiable: tuple[int, ...] = (0,), saves: str | None = None
) -> Callable[[Formula], Formula]:
    """Register the formula of operators by name, `npu_max.dim` for an overload; the options are as in `Gradient`."""
    saved = None if saves is None else frozenset(saves.split())

    def register(formula: Formula) -> Formula:
        for name in names:
            GRADIENTS[name] = Gradient(formula, differentiable, saved)
        return formula

    return register


def listed() -> dict[str, Gradient]:
    """The gradients of `derivatives.txt` by operator."""
    lines = Path(__file__).with_name("derivatives.txt").read_text(encoding="utf-8").splitlines()
    return dict(map(_read, lines))


def _read(line: str) -> tuple[str, Gradient]:
    """The operator of a line of `derivatives.txt`, and its gradient: the formula is evaluated where it is needed.

    What the formula reads says which tensors are saved, and which results have gradients.
    """
    about, _, text = line.partition(": ")
    operator, _, least = about.partition(" >= ")
    assigned, saved, flowing = [], set(), set()
    for statement in ast.parse(text).body:
        assert isinstance(statement, ast.Assign)
        targets = [node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)]
        described = {id(node.value) for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Name) and _GRADIENT.fullmatch(node.id):
                flowing.add(int(node.id[1:]))
            elif isinstance(node, ast.Name) and id(node) not in described:
                saved.add(node.id)
        assigned.append((targets, compile(ast.Expression(statement.value), "derivatives.txt", "eval")))

    def formula(arguments: Arguments, results: Results, grads: Results) -> Mapping[str, Any]:
        values = _Values(vars(arguments))
        values.update((f"result{i}", value) for i, value in enumerate(results))
        values.update((f"g{i}", value) for i, value in enumerate(grads))
        found: dict[str, Any] = {}
        for targets, code in assigned:
            if any(arguments.needs[name] for name in targets):
                value = eval(code, {}, values)
                found.update(zip(targets, value if isinstance(value, tuple) else (value,), strict=False))
        return found

    since = tuple(map(int, least.split("."))) if least else None
    return operator, Gradient(formula, tuple(sorted(flowing)), frozenset(saved), since)


class _Values(dict[str, Any]):
    """The values of the names of a formula; any other name is an operator of torch_npu."""

    def __missing__(self, name: str) -> Any:
        return getattr(npu, name)


def pick(names: str, values: Any) -> Mapping[str, Any]:
    """Values by the names of the arguments that they are for; names without a value are left out."""
    return dict(zip(names.split(), values, strict=False))


def nodes(schemas: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """The autograd function of each operator that computes gradients or has one in the release in use, by name."""
    names = [schema.partition("(")[0] for schema in schemas]
    last = {name: _without_gradient(name) for name in names if _COMPUTES_GRADIENTS.search(name)}
    result = {}
    for name, found in {**last, **listed(), **GRADIENTS}.items():
        if not _is_in_release(found):
            continue
        packet, _, overload = name.partition(".")
        result[name] = node(getattr(getattr(npu, packet), overload or "default"), found)
    return result


def _is_in_release(gradient: Gradient) -> bool:
    release = support_table.release()
    if release is None or gradient.since is None:
        return True
    return tuple(map(int, release.split(".")[:2])) >= gradient.since


def _without_gradient(name: str) -> Gradient:
    def refuse(arguments: Arguments, results: Results, grads: Results) -> Mapping[str, Any]:
        raise RuntimeError(f"derivative for npu::{name} is not implemented")

    returns = getattr(npu, name).default._schema.returns
    return Gradient(refuse, tuple(range(len(returns))), frozenset())


class _Node(torch.autograd.function._SingleLevelFunction):
    """The node, of one level of torch.func's transforms: the dispatcher calls it for each."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, gradient: Gradient, names: tuple[str, ...], *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            count = _positional(op)
            result = op(*args[:count], **dict(zip(names[count:], args[count:], strict=True)))
        results = result if isinstance(result, tuple) else (result,)
        lost = [
            each
            for i, each in enumerate(results)
            if isinstance(each, torch.Tensor) and i not in gradient.differentiable
        ]
        ctx.mark_non_differentiable(*lost)
        ctx.set_materialize_grads(False)
        retained = _retained(gradient, names, args, results)
        ctx.is_tensor = [isinstance(value, torch.Tensor) for value in retained]
        ctx.save_for_backward(*[value for value in retained if isinstance(value, torch.Tensor)])
        ctx.others = [value for value in retained if not isinstance(value, torch.Tensor)]
        ctx.gradient, ctx.names = gradient, names
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        names = ctx.names
        nothing = (None,) * (3 + len(names))
        if all(grads[i] is None for i in ctx.gradient.differentiable):
            return nothing
        # A node that saved no tensor may run again: reading none would raise that the graph was freed.
        tensors, others = iter(ctx.saved_tensors if any(ctx.is_tensor) else ()), iter(ctx.others)
        retained = [next(tensors) if is_tensor else next(others) for is_tensor in ctx.is_tensor]
        arguments = SimpleNamespace(**dict(zip(names, retained, strict=False)))
        arguments.needs = {name: ctx.needs_input_grad[3 + i] for i, name in enumerate(names)}
        flowing = ctx.gradient.formula(arguments, tuple(retained[len(names) :]), grads)
        return (None, None, None, *[flowing.get(name) if arguments.needs[name] else None for name in names])


def _retained(gradient: Gradient, names: tuple[str, ...], args: tuple[Any, ...], results: Results) -> list[Any]:
    """The arguments and results as the formula gets them."""
    if gradient.saves is None:
        return [*args, *results]
    described = [
        Unsaved(value.shape, value.dtype) if isinstance(value, torch.Tensor) and name not in gradient.saves else value
        for name, value in zip(names, args, strict=True)
    ]
    return [*described, *[value if f"result{i}" in gradient.saves else None for i, value in enumerate(results)]]


def _positional(op: OpOverload) -> int:
    return sum(not argument.kwarg_only for argument in op._schema.arguments)


def _single_level() -> contextlib.AbstractContextManager[Any]:
    """Let a node be made among torch.func's transforms, as those of PyTorch's own operators are."""
    if not torch._C._are_functorch_transforms_active():
        return contextlib.nullcontext()
    return enable_single_level_autograd_function()


def _has_tangent(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None


@functools.cache
def _node_of(operator: str) -> Any:
    """The node under the name by which PyTorch's messages and `grad_fn` call it: `NpuRmsNormBackward0`."""
    name = "".join(part.capitalize() for part in operator.partition("::")[2].split("_"))
    found: Any = type(name, (_Node,), {})
    found._backward_cls.__name__ = f"{name}Backward0"
    return found


def node(op: OpOverload, gradient: Gradient) -> Callable[..., Any]:
    """The function that PyTorch calls above the device, which records the operator for the backward pass."""
    arguments = op._schema.arguments
    names = tuple(argument.name for argument in arguments)
    defaults = {argument.name: argument.default_value for argument in arguments}

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *[kwargs.get(name, defaults[name]) for name in names[len(args) :]]]
        if forward_ad._current_level >= 0 and any(map(_has_tangent, given)):
            called = op._schema.name.partition("::")[2]
            raise NotImplementedError(
                f"Trying to use forward AD with {called} that does not support it: it has not been implemented"
            )
        if not torch.is_grad_enabled() or not any(isinstance(v, torch.Tensor) and v.requires_grad for v in given):
            with torch._C._AutoDispatchBelowAutograd():
                return op(*args, **kwargs)
        with _single_level():
            return _node_of(op._schema.name).apply(op, gradient, names, *given)

    return run
