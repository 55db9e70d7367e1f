"""A graph's operators: noted while they run once, and run again on the same tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from gpu2npu.emulator.device import randomness
from gpu2npu.emulator.device.randomness import NpuGenerator

from .graph_updates import Handler, Record, handler_of

_ALLOCATING = frozenset({"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty"})
_ESCAPING = frozenset({"aten::_local_scalar_dense", "aten::nonzero", "aten::unique_dim", "aten::_unique2"})

Call = tuple[Any, Sequence[Any], dict[str, Any], Any]


class TaskGroup:
    """Operators that an update may replace, in their place of the graph."""

    def __init__(self) -> None:
        self.calls: list[Call | TaskGroup | _Rewind] = []


class _Rewind:
    """A random state that was set: so many numbers after the one that the graph began with."""

    def __init__(self, generator: NpuGenerator, numbers: int) -> None:
        self.generator, self.numbers = generator, numbers


class Capture(TorchDispatchMode):
    """While active, notes every operator with its tensors, and what the written ones were before."""

    def __init__(self, records: list[Record] | None = None, generators: Sequence[NpuGenerator] = ()) -> None:
        super().__init__()
        self.whole = self.group = TaskGroup()
        self.records = records
        self.made: set[int] = set()
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.random = [(each, each.get_state()) for each in (*randomness.DefaultGenerators(), *generators)]
        self.offsets = {id(each): each.get_offset() for each, _ in self.random}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name in _ESCAPING and any(t.device.type == "npu" for t in tree_flatten(args)[0] if _is_tensor(t)):
            raise RuntimeError(f"{name} waits for the NPU, which a graph cannot capture; move it out of the capture")
        handler = None if self.records is None else handler_of(func, args, kwargs)
        if handler is not None:
            return self._changeable(handler, func, args, kwargs)
        return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._keep_written(func, args, kwargs)
        result = func(*args, **kwargs)
        self.group.calls.append((func, args, kwargs, result))
        if not _aliases(func):
            self.made.update(t.untyped_storage()._cdata for t in tree_flatten(result)[0] if _is_tensor(t))
        return result

    def _changeable(self, handler: Handler, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        func, args, kwargs = handler.prepare_capture(func, args, kwargs)
        record = Record(func, list(args), dict(kwargs), handler)
        assert self.records is not None
        self.records.append(record)
        return handler.postprocess_result(self._run(func, record.args, record.kwargs), kwargs)

    def note_state(self, generator: NpuGenerator, seed: int, offset: int) -> None:
        """Note that a generator's state is set; raise RuntimeError for another seed."""
        if seed != generator.initial_seed():
            raise RuntimeError(
                "NPUGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same "
                "as the original seed."
            )
        begun = self.offsets.setdefault(id(generator), generator.get_offset())
        self.group.calls.append(_Rewind(generator, offset - begun))

    def _keep_written(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        for argument, value in _given(func, args, kwargs):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in tree_flatten(value)[0]:
                storage = tensor.untyped_storage()._cdata if _is_tensor(tensor) else None
                if storage is not None and storage not in self.made and storage not in self.before:
                    with torch._C._DisableTorchDispatch():
                        whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
                        self.before[storage] = (whole, whole.clone())

    def undo(self) -> None:
        """Give the tensors that existed before the capture their values back, and the NPUs' generators their states."""
        for generator, state in self.random:
            generator.set_state(state)
        for whole, values in self.before.values():
            whole.copy_(values)
        self.before.clear()


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _given(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    arguments = func._schema.arguments
    yield from zip(arguments, args, strict=False)
    for argument in arguments:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _aliases(func: Any) -> bool:
    return any(value.alias_info is not None for value in func._schema.returns)


def flat(group: TaskGroup) -> Iterator[Call]:
    """The operators of a graph in turn."""
    for call in group.calls:
        if isinstance(call, TaskGroup):
            yield from flat(call)
        elif not isinstance(call, _Rewind):
            yield call


def replay(group: TaskGroup, offsets: dict[int, int]) -> None:
    """Run operators again; `offsets` has the random states that the replay began with."""
    for call in group.calls:
        if isinstance(call, TaskGroup):
            replay(call, offsets)
        elif isinstance(call, _Rewind):
            call.generator.set_offset(offsets.get(id(call.generator), 0) + call.numbers)
        else:
            _run_again(*call)


def _run_again(func: Any, args: Sequence[Any], kwargs: dict[str, Any], captured: Any) -> None:
    if func._schema.name in _ALLOCATING or (_aliases(func) and not func._schema.is_mutable):
        return
    result = func(*args, **kwargs)
    if func._schema.is_mutable and _aliases(func):
        return
    for target, value in zip(tree_flatten(captured)[0], tree_flatten(result)[0], strict=True):
        if _is_tensor(target) and target is not value:
            target.copy_(value)
