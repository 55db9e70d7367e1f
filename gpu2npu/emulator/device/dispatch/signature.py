"""The schema of an operator, read once: which arguments are tensors, which it writes, what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch._ops import OpOverload, OpOverloadPacket, _OpNamespace

from gpu2npu.emulator.device.dispatch.support_table import is_supported

_TENSOR = ("Tensor", "Optional[Tensor]")
_TENSORS = ("List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]")
_DTYPES = ("ScalarType", "Optional[ScalarType]")
# Kernels of PyTorch that compose an operator of others, or of its own `out=` overload.
_COMPOSED = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_STRUCTURED = "CompositeExplicitAutogradNonFunctional"
# Arguments that say where and how to allocate: the device's business, not the kernel's.
_PLACEMENT = ("device", "layout", "pin_memory", "memory_format", "non_blocking")


@dataclass(frozen=True)
class Signature:
    """One operator overload. Positions count the positional arguments; `named_*` are keyword-only."""

    op: OpOverload
    name: str  # aten::add_.Tensor
    tensors: tuple[int, ...]
    lists: tuple[int, ...]
    dtypes: tuple[int, ...]
    placements: tuple[int, ...]
    named_tensors: frozenset[str]
    named_lists: frozenset[str]
    outs: tuple[str, ...]
    writes: tuple[int, ...]
    returns: tuple[str, ...]
    returns_written: bool
    random: bool
    pointwise: bool
    factory: bool  # makes its tensor from numbers; those with `out=` take its dtype
    only_tensors: bool  # and numbers given by name, such as alpha

    @cached_property
    def fallback(self) -> str | None:
        """The name under which torch_npu says that the operator runs on the CPU; None when the NPU does it.

        The NPU has an operator that the support table lists in any form, or that PyTorch composes of others above the
        device, or has no code of for the CPU: a gradient that torch_npu takes another way. A structured operator
        reaches the device as its `out=` overload, so that is the name torch_npu gives ("aten::special_entr.out").
        """
        functional = overload(self.functional)
        forms = [functional, *mutable_overloads(functional)]
        if any(is_supported(form.name()) for form in forms):
            return None
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if any(has(form.name(), key) for form in (self.op, functional) for key in _COMPOSED):
            return None
        if not has(functional.name(), "CPU"):
            return None
        if not has(functional.name(), _STRUCTURED):
            return self.functional
        out = next(form.name() for form in forms[1:] if any(argument.is_out for argument in form._schema.arguments))
        return None if any(has(out, key) for key in _COMPOSED) else out

    @cached_property
    def functional(self) -> str:
        """The name of the overload that computes the same and writes nothing; its own name when there is none."""
        return functional_name(self.op) or self.name


def overload(name: str) -> OpOverload:
    """The overload that a name such as `aten::add.Tensor` means.

    Raises:
        ValueError: PyTorch has no such overload.
    """
    operator, _, which = name.partition(".")
    try:
        return getattr(_packet(operator), which or "default")  # type: ignore[no-any-return]
    except AttributeError:
        raise ValueError(f"torch {torch.__version__} has no operator {name}") from None


def _packet(operator: str) -> OpOverloadPacket | None:
    """All overloads of `aten::add`, even if a tool that watches operators has put a function in the packet's place."""
    namespace, _, name = operator.partition("::")
    found = getattr(getattr(torch.ops, namespace), name, None)
    if found is not None and not isinstance(found, OpOverloadPacket):
        found = getattr(_OpNamespace(namespace), name)
    return found


def read(op: OpOverload) -> Signature:
    """Read the schema of an operator overload."""
    schema = op._schema
    kinds: dict[str, list[int]] = {"tensors": [], "lists": [], "dtypes": [], "placements": [], "writes": []}
    named_tensors, named_lists, outs = set(), set(), []
    for position, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        written = argument.alias_info is not None and argument.alias_info.is_write
        if argument.is_out:
            outs.append(argument.name)
        elif argument.kwarg_only:
            if kind in _TENSOR:
                named_tensors.add(argument.name)
            elif kind in _TENSORS:
                named_lists.add(argument.name)
        else:
            if kind in _TENSOR:
                kinds["tensors"].append(position)
            elif kind in _TENSORS:
                kinds["lists"].append(position)
            elif str(argument.real_type) in _DTYPES:
                kinds["dtypes"].append(position)
            elif argument.name in _PLACEMENT:
                kinds["placements"].append(position)
            if written:
                kinds["writes"].append(position)
    return Signature(
        op=op,
        name=op.name(),
        named_tensors=frozenset(named_tensors),
        named_lists=frozenset(named_lists),
        outs=tuple(outs),
        returns=tuple(str(value.type) for value in schema.returns),
        returns_written=any(value.alias_info is not None and value.alias_info.is_write for value in schema.returns),
        random=torch.Tag.nondeterministic_seeded in op.tags,
        pointwise=torch.Tag.pointwise in op.tags,
        factory=_is_factory(op),
        only_tensors=all(str(each.type) == ("number" if each.kwarg_only else "Tensor") for each in schema.arguments),
        **{name: tuple(positions) for name, positions in kinds.items()},
    )


def _is_factory(op: OpOverload) -> bool:
    """Return whether the functional overload of an operator takes a device, and this one no tensor but `out=`."""
    name = functional_name(op)
    if name is None:
        return False
    arguments = overload(name)._schema.arguments
    named = {argument.name for argument in arguments}
    return {"device", "dtype"} <= named and not any("Tensor" in str(argument.type) for argument in arguments)


def _plain_arguments(op: OpOverload) -> tuple[tuple[str, str], ...]:
    """Names and types of what is computed with, without memory to work in; a factory's dtype is its `out=` tensor's."""
    arguments = op._schema.arguments
    is_factory = any(argument.name == "device" for argument in arguments)
    ignored = (*_PLACEMENT, "dtype") if is_factory else _PLACEMENT
    return tuple(
        (argument.name, str(argument.type))
        for argument in arguments
        if not argument.is_out and argument.name not in ignored and argument.name != "workspace"
    )


def functional_name(op: OpOverload) -> str | None:
    """`aten::add.Tensor` for `aten::add_.Tensor` and `aten::add.out`; None when PyTorch has no such overload."""
    if not op._schema.is_mutable:
        return op.name()
    name = op._schema.name
    packet = _packet(name.removesuffix("_") if not name.endswith("__") else name)
    if packet is None:
        return None
    wanted = _plain_arguments(op)
    for overload in packet.overloads():
        candidate: OpOverload = getattr(packet, overload)
        if not candidate._schema.is_mutable and _plain_arguments(candidate) == wanted:
            return candidate.name()
    return None


def mutable_overloads(op: OpOverload) -> list[OpOverload]:
    """The in-place and `out=` overloads that compute what a functional overload does."""
    name = op._schema.name
    wanted = _plain_arguments(op)
    found: list[OpOverload] = []
    for packet_name in (name, f"{name}_"):
        packet = _packet(packet_name)
        if packet is None:
            continue
        for overload in packet.overloads():
            candidate: OpOverload = getattr(packet, overload)
            if candidate._schema.is_mutable and _plain_arguments(candidate) == wanted:
                found.append(candidate)
    return found
