"""The rows of `gpu2npu.support.behaviour` on the chip and release in use: calls are refused by them, or counted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from msgspec.structs import replace

from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.emulator.device.dispatch.signature import Signature
from gpu2npu.emulator.device.tensor import array
from gpu2npu.emulator.soc import current_soc
from gpu2npu.support.behaviour import HANGS, RAISES, Row, behaviour, rows_of
from gpu2npu.support.chips import chip_family
from gpu2npu.support.conditions import ALL_DTYPES, VALUES, CallFacts, TensorFacts
from gpu2npu.support.releases import RELEASES

Operator = Callable[..., Any]

_MOST = 1 << 12  # combinations of arguments that one operator remembers
# What CANN calls dtypes, where it is not "DT_" and the name.
_DT = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "bfloat16": "DT_BFLOAT16"}
# What CANN calls operators, where it is not PyTorch's name in other letters.
_ACLNN = {"bmm": "BatchMatMul", "bmmV2": "BatchMatMul", "linear": "Matmul", "vdot": "Dot", "addmm_activation": "Addmm"}
# Whether calls are refused: tests of kernels compute what an NPU does not take, to compare more of their arithmetic.
refuses = ContextVar("refuses", default=True)
# The rows with other outcomes than an error that this process has met, and how often; and all rows of each operator.
met: dict[str, int] = {}
met_by: dict[str, dict[str, Row]] = {}
refusals: dict[str, int] = {}  # calls by operator that raised


class LimitError(RuntimeError):
    """A call that the NPU refuses and the CPU takes."""


def row_for(name: str, given: CallFacts) -> Row | None:
    """The row that a call of an API or operator meets on this chip and release; None where there is none."""
    return behaviour(name, given, _version(), chip_family(current_soc().name))


def refused(name: str, given: CallFacts) -> Row | None:
    """The row with which a call of an API or operator raises; None where it does not."""
    found = row_for(name, given)
    return found if found is not None and found.outcome in (RAISES, HANGS) else None


def note(name: str, given: CallFacts) -> Row | None:
    """The row that a call meets without an error, which is counted in `met`; None where there is none."""
    found = row_for(name, given)
    if found is None or found.outcome in (RAISES, HANGS):
        return None
    _count(name, found)
    return found


def _count(name: str, found: Row) -> None:
    met[found.id] = met.get(found.id, 0) + 1
    met_by.setdefault(name, {})[found.id] = found


def refuse(name: str, given: CallFacts) -> None:
    """Raise LimitError where the NPU does not take a call of an API or operator."""
    found = refused(name, given)
    if found is not None:
        raise _error(name, found, given)


def _error(name: str, found: Row, given: CallFacts) -> LimitError:
    refusals[name] = refusals.get(name, 0) + 1
    met_by.setdefault(name, {})[found.id] = found
    return LimitError(message(name, found, given))


def message(name: str, found: Row, given: CallFacts) -> str:
    """The words of a real NPU where the row has them, and then what is known of it."""
    text = explained(found)
    release = f"torch_npu {support_table.release()}: " if found.lacks or found.releases else ""
    if found.words:
        return f"{found.words.format_map(_Spelled(name, found, given))} {release}On the NPU, {text}"
    about, _, rest = text.partition(": ")
    is_named = about.rpartition(".")[2] == name.rpartition("::")[2].rpartition(".")[2]
    return f"{name}: {release}{rest if is_named else text}"


def explained(found: Row) -> str:
    """The text of a row: what happens, what to write instead, and the id by which `gpu2npu rules explain` shows it."""
    return f"{found.evidence}. {found.advice[:1].upper()}{found.advice[1:]}. [{found.id}]"


class _Spelled(dict[str, str]):
    """The fields of the words of a row: `{aclnn}`, CANN's function for the operator; `{tensors}`, the dtype that is
    refused; and the dtype of the argument of any other name."""

    def __init__(self, name: str, found: Row, given: CallFacts) -> None:
        self._name, self._row, self._given = name, found, given

    def __missing__(self, key: str) -> str:
        if key == "aclnn":
            bare = self._name.partition("::")[2].removeprefix("npu_").replace("_overrideable", "").strip("_")
            return "aclnn" + _ACLNN.get(bare, "".join(word.capitalize() for word in bare.split("_")))
        if key == "tensors":
            refused = (each for each in self._given.tensors if self._row.applies_to(CallFacts(others=(each,))))
            return dt(next(refused, TensorFacts("unknown")).dtype or "")
        value = self._given.arguments.get(key)
        named = value.dtype if isinstance(value, TensorFacts) else value
        return dt(named) if named in ALL_DTYPES else str(value)


def dt(dtype: str) -> str:
    """The name of a dtype in CANN's messages: "DT_DOUBLE" for "float64"."""
    return _DT.get(dtype, f"DT_{dtype.upper()}")


@functools.cache
def refused_dtypes(operator: str) -> Mapping[str, Row]:
    """The dtypes ("float64") with which an operator ("aten::mm") raises, whatever else it is given."""
    found = {dtype: refused(operator, CallFacts(others=(TensorFacts(dtype),))) for dtype in ALL_DTYPES}
    return {dtype: each for dtype, each in found.items() if each is not None}


@contextmanager
def taken_whole() -> Iterator[None]:
    """Within it, this thread is refused nothing: the parts of an operator of the NPU, which has limits of its own."""
    before = refuses.set(False)
    try:
        yield
    finally:
        refuses.reset(before)


def refusing(signature: Signature, run: Operator, has_values: bool = True) -> Operator:
    """A function that raises for arguments that the NPU does not take, and otherwise calls `run`: `run` itself for an
    operator without rows on this chip and release. Without `has_values` nothing of the tensors' numbers is known.

    A call whose tensors have none of the dtypes that a row could be about pays for their comparison alone.
    """
    about = _rows(signature.op._schema.name)
    if not about:
        return run
    name = signature.op._schema.name
    arguments = signature.op._schema.arguments
    labels = tuple(argument.name for argument in arguments)
    defaults = {each.name: facts(each.default_value) for each in arguments if each.has_default_value()}
    guards = _guards(about, signature, labels)
    uses = {use for each in about for use in each.holds.uses}
    valued = {argument for argument, attribute in uses if attribute in VALUES} if has_values else set()
    read = None if valued else _reader(labels, uses)
    seen: set[Any] = set()

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            key = None if read is None else read(args, kwargs)
            if key in seen:
                return
        except TypeError:  # a value that has no hash
            key = None
        values = dict(defaults)
        for label, value in (*zip(labels, args, strict=False), *kwargs.items()):
            values[label] = _with_values(value) if label in valued else facts(value)
        given = CallFacts(values)
        for each in about:
            if each.applies_to(given):
                if each.outcome in (RAISES, HANGS):
                    if not refuses.get():
                        return
                    raise _error(name, each, given)
                _count(name, each)
                key = None  # the next call of its kind counts too
        if key is not None and len(seen) < _MOST:
            seen.add(key)

    def checked(*args: Any, **kwargs: Any) -> Any:
        if guards is None:
            check(args, kwargs)
        else:
            for position, dtypes in guards:
                if position < len(args) and getattr(args[position], "dtype", None) in dtypes:
                    check(args, kwargs)
                    break
        return run(*args, **kwargs)

    return checked


_READ: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": lambda tensor: tensor.dtype,
    "rank": torch.Tensor.dim,
    "shape": lambda tensor: tensor.shape,
    "numel": torch.Tensor.numel,
    "layout": lambda tensor: tensor.layout,
    "device": lambda tensor: tensor.device,
    "": lambda tensor: facts(tensor),
}


def _reader(
    labels: tuple[str, ...], uses: Iterable[tuple[str, str]]
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]:
    """The function that reads of a call what decides about rows that look at these attributes of arguments."""
    wanted = [
        (position, label, _READ[attribute])
        for position, label in enumerate(labels)
        for attribute in sorted({attribute for argument, attribute in uses if argument in (label, "tensors")})
    ]

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        found = []
        count = len(args)
        for position, label, reader in wanted:
            value = args[position] if position < count else kwargs.get(label, labels)
            if isinstance(value, torch.Tensor):
                found.append(reader(value))
            else:
                found.append(facts(value) if isinstance(value, (list, tuple)) else value)
        return tuple(found)

    return read


def unlimited(signature: Signature, dtypes: Iterable[torch.dtype], rank: int = 0) -> frozenset[torch.dtype]:
    """The dtypes that no row of an operator could be about, of tensors of 1 to `rank` dimensions if that is given."""
    name = signature.op._schema.name
    about = _rows(name)
    if not about:
        return frozenset(dtypes)
    labels = tuple(argument.name for argument in signature.op._schema.arguments)
    if rank and {use for each in about for _, use in each.holds.uses} <= {"dtype", "rank", "device"}:
        named = [labels[position] for position in signature.tensors]

        def meets(dtype: torch.dtype, dimensions: int) -> bool:
            tensor = TensorFacts(_short(dtype), (1,) * dimensions, "strided", "npu")
            return any(each.applies_to(CallFacts(dict.fromkeys(named, tensor))) for each in about)

        return frozenset(dtype for dtype in dtypes if not any(meets(dtype, each + 1) for each in range(rank)))
    guards = _guards(about, signature, labels)
    return frozenset() if guards is None else frozenset(dtypes).difference(*(suspects for _, suspects in guards))


def _rows(name: str) -> tuple[Row, ...]:
    functional = name.removesuffix("_") if not name.endswith("__") else name
    version, chip = _version(), chip_family(current_soc().name)
    found = dict.fromkeys((*rows_of(name), *rows_of(functional)))
    return tuple(each for each in found if each.is_for(version, chip))


def _guards(
    about: Iterable[Row], signature: Signature, labels: tuple[str, ...]
) -> tuple[tuple[int, frozenset[torch.dtype]], ...] | None:
    """The positions and the dtypes there without which no row holds; None where other facts than dtypes decide."""
    found: dict[int, set[torch.dtype]] = {}
    by_dtype = {name: getattr(torch, name) for name in ALL_DTYPES if hasattr(torch, name)}
    for each in about:
        used = {argument for argument, _ in each.holds.uses}
        positions = [at for at in signature.tensors if labels[at] in used or "tensors" in used]
        for position in positions if "tensors" in used else positions[:1]:
            suspects = {
                dtype
                for name, dtype in by_dtype.items()
                if each.holds.holds(CallFacts({labels[position]: TensorFacts(name)})) is not False
            }
            found.setdefault(position, set()).update(suspects)
        is_listed = "tensors" in used and bool(signature.lists)
        if not positions or is_listed or torch.float32 in found[positions[0]]:
            return None
    return tuple((position, frozenset(dtypes)) for position, dtypes in found.items())


def facts(value: Any) -> Any:
    """The value that conditions see: the facts of a tensor, the name of a dtype, the text of what torch names."""
    if isinstance(value, torch.Tensor):
        return TensorFacts(_short(value.dtype), tuple(value.shape), _short(value.layout), value.device.type)
    if isinstance(value, (list, tuple)):
        return tuple(map(facts, value))
    if isinstance(value, torch.dtype):
        return _short(value)
    if value is None or isinstance(value, (bool, int, float, str, complex)):
        return value
    return str(value)


def _with_values(value: Any) -> Any:
    """The facts of a tensor with those of its numbers, which an empty one has not."""
    known = facts(value)
    if not isinstance(known, TensorFacts) or not value.numel():
        return known
    numbers = array(value.detach()) if value.device.type == "npu" else value.detach().numpy()
    ascending = bool((numbers[1:] >= numbers[:-1]).all()) if numbers.ndim == 1 else None
    return replace(known, least=float(numbers.min()), greatest=float(numbers.max()), ascending=ascending)


@functools.cache
def _short(named: torch.dtype | torch.layout) -> str:
    return str(named).removeprefix("torch.")


def _version() -> str:
    return support_table.version() or RELEASES[-1]
