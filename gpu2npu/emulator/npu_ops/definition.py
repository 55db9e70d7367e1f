"""Defines torch_npu's operators with PyTorch, so that `torch.ops.npu.npu_rms_norm` exists; kernels come later.

`schemas.txt` holds one schema a line: those of torch_npu 2.13.0 (`custom` in `torch_npu/csrc/aten/*.yaml` of the
wheel), and of operators that only other releases from 2.1.0 to 2.14.0 have. Which of them `torch_npu` shows is the
support table's word. Where torch_npu takes a list for `out`, the schema has it, as its handlers of graphs do.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from gpu2npu.emulator.device.dispatch.limits import refusing
from gpu2npu.emulator.device.dispatch.operator_errors import naming
from gpu2npu.emulator.device.dispatch.signature import read
from gpu2npu.emulator.registration import implement

NAMESPACE = "npu"

# These draw random numbers from the NPU's generator.
_SEEDED = frozenset(
    {
        "_npu_dropout",
        "_dropout_with_byte_mask",
        "npu_dropout_with_add_softmax",
        "npu_fused_attention_score_fwd",
        "npu_fusion_attention",
        "npu_fusion_attention_v2",
        "npu_fusion_attention_v3",
        "npu_random_choice_with_mask",
    }
)

_library = torch.library.Library(NAMESPACE, "DEF")
_aten = torch.library.Library("aten", "IMPL")
_defined = False


def schemas() -> list[str]:
    """Every operator's schema, `npu_rms_norm(Tensor self, ...) -> (Tensor, Tensor)`."""
    return Path(__file__).with_name("schemas.txt").read_text(encoding="utf-8").splitlines()


@functools.cache
def names() -> frozenset[str]:
    """The operators' names, without overloads."""
    return frozenset(schema.partition("(")[0].partition(".")[0] for schema in schemas())


def install() -> None:
    """Define the operators, their gradients, and those that only allocate or move data; once a process."""
    global _defined
    if _defined:
        return
    from gpu2npu.emulator.npu_ops import composite, gradient, load, memory, optimizer, refused
    from gpu2npu.emulator.npu_ops.inference import atb
    from gpu2npu.emulator.npu_ops.recurrent import layers
    from gpu2npu.emulator.shapes import npu_operators

    load()
    for schema in schemas():
        seeded = schema.partition("(")[0] in _SEEDED
        _library.define(schema, tags=(torch.Tag.nondeterministic_seeded,) if seeded else ())
    atb.install()
    for name, function in {**memory.OWN, **optimizer.OWN}.items():
        checked = _checked(name, function)
        implement(_library, name, checked, "CompositeExplicitAutograd" if name in memory.MAKES else "PrivateUse1")
    for name, function in composite.COMPOSITE.items():
        implement(_library, name, _checked(name, function), "CompositeImplicitAutograd")
    for name, function in gradient.nodes(schemas()).items():
        implement(_library, name, function, "AutogradPrivateUse1")
    for name, function in {**layers.INSTEAD, **refused.INSTEAD}.items():
        implement(_aten, name, function, "PrivateUse1")
        implement(_aten, name, function, "AutogradPrivateUse1")
    for name, twin in _functional_twins().items():
        implement(_library, name, functionalized(twin), "Functionalize")
        implement(_library, name, _written, "Meta")
    for op, infer in npu_operators.on_meta(getattr(torch.ops, NAMESPACE)):
        implement(_library, op, infer, "Meta")
    _defined = True


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises for what the NPU refuses; its errors name the operator."""
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.npu, packet), overload or "default")
    return naming(op.name(), refusing(read(op), function))


def _functional_twins() -> dict[str, OpOverload]:
    """Operators that write their first argument, by name: the operator of the same arguments that writes none."""
    listed = {schema.partition("(")[0]: schema for schema in schemas()}
    pairs = {}
    for name, schema in listed.items():
        twin = listed.get(name.removesuffix("_"), "")
        written = schema.partition("(")[2].partition(" ->")[0]
        if name.endswith("_") and written.replace("Tensor(a!)", "Tensor") == twin.partition("(")[2].partition(" ->")[0]:
            pairs[name] = getattr(torch.ops.npu, name.removesuffix("_")).default
    return pairs


def _written(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a shapes-only call of an operator that writes its first argument."""
    return self if isinstance(self, torch.Tensor) else None


def functionalized(twin: OpOverload) -> Callable[..., Any]:
    """Make what computes an operator where no tensor may be written: its first argument gets the result."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        values, named = tree_map_only(torch.Tensor, _unwrapped, ((self, *args), kwargs))
        guard = torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize))
        with guard:
            result = twin(*values, **named)
        given, results = (list(each) if isinstance(each, (list, tuple)) else [each] for each in (self, result))
        for tensor, value in zip(given, results, strict=True):
            torch._functionalize_replace(tensor, value)  # type: ignore[attr-defined]
            torch._functionalize_commit_update(tensor)  # type: ignore[attr-defined]
            torch._functionalize_sync(tensor)  # type: ignore[attr-defined]
        return self if twin._schema.returns[0].type.kind() == "TensorType" else None

    return run


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    if not torch._is_functional_tensor(tensor):
        return tensor
    torch._sync(tensor)  # type: ignore[attr-defined]
    return torch._from_functional_tensor(tensor)


def uncomputed(op: OpOverload) -> Callable[..., Any]:
    """Return the function that raises where no kernel computes an operator of torch_npu's, or its kernel declines.

    Raises:
        NotImplementedError: Names the operator, and the case that its kernel gave as the reason.
    """

    def refuse(*args: Any, **kwargs: Any) -> Any:
        reason = sys.exc_info()[1]
        while reason is not None and reason.__cause__ is not None:
            reason = reason.__cause__
        name = op._schema.name.removeprefix(f"{NAMESPACE}::")
        if str(reason).startswith("torch_npu."):
            raise NotImplementedError(str(reason)) from None
        if reason is not None and str(reason):
            raise NotImplementedError(f"torch_npu.{name}: the emulated NPU does not compute {reason}") from None
        raise NotImplementedError(
            f"torch_npu.{name}: the emulated NPU does not compute this operator; use PyTorch's own operators instead"
        )

    return refuse
