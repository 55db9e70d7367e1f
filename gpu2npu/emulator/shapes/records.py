"""Records of a shapes-only run for the forecast: blocks of memory by what they are for, operators, collectives, steps.

GPU2NPU_PLAN names a folder, where each process that used an NPU writes one JSON file when it ends.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import util
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as registration
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gpu2npu.emulator.device import streams
from gpu2npu.emulator.device.dispatch import limits, tally
from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.shapes import values
from gpu2npu.emulator.shapes.caching import CachingAllocator
from gpu2npu.emulator.shapes.figures import figures, operations
from gpu2npu.emulator.soc import current_soc

CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "communication", "temporaries")
_SHOWN = 10  # tensors


class _Block:
    """One block of memory, for as long as it may be of interest."""

    __slots__ = ("category", "dtype", "line", "part", "shape", "size")

    def __init__(self, size: int, line: values.Line, part: Any) -> None:
        self.size, self.line, self.part = size, line, part
        self.category = ""
        self.shape: tuple[int, ...] | None = None
        self.dtype = ""


class _Npu:
    """The memory of one NPU as it is and as it was at its peak."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.live: dict[int, _Block] = {}
        self.at_peak: dict[int, _Block] = {}
        self.peak = 0
        self.peak_line: values.Line | None = None
        self.peak_step = 0
        self.is_at_peak = False
        self.model = CachingAllocator(figures(current_soc()).usable)

    def keep_peak(self) -> None:
        """Note what is live before it changes, if this is the peak so far."""
        if self.is_at_peak:
            self.at_peak, self.is_at_peak = dict(self.live), False


class ForecastRecorder:
    """The record of this process (a `memory.Listener`)."""

    def __init__(self, folder: Path, most_steps: int) -> None:
        self.folder, self.most_steps = folder, most_steps
        self.npus: dict[int, _Npu] = {}
        self.modules: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.steps: list[dict[str, Any]] = []
        self.work: Counter[str] = Counter()
        self.collectives: dict[tuple[str, int], list[float]] = {}
        self.checkpoints: dict[str, dict[str, Any]] = {}
        self.waits: Counter[tuple[str, values.Line]] = Counter()
        self.refusal: dict[str, Any] | None = None
        self.options: list[dict[str, Any]] = []
        self.files: Callable[[], list[dict[str, Any]]] = list
        self._chip = figures(current_soc())
        self._backward = 0

    # Memory.

    def allocated(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was made."""
        if not size:
            return
        npu = self.npus.setdefault(index, _Npu(index))
        made = memory.blocks.get(address)
        array = made() if made is not None else None
        line = values.running_line()
        npu.keep_peak() if total <= npu.peak else None
        needed = size if array is None else min(size, array.nbytes)
        npu.live[address] = block = _Block(size, line, npu.model.allocate(needed))
        if made is not None and array is not None:
            block.shape, block.dtype = tuple(array.shape), str(made.dtype).removeprefix("torch.")
        if self._backward or not torch.is_grad_enabled():
            block.category = "temporaries"
        if total > npu.peak:
            npu.peak, npu.peak_line, npu.peak_step, npu.is_at_peak = total, line, len(self.steps), True

    def freed(self, address: int, size: int, index: int, total: int, reserved: int) -> None:
        """A block was freed."""
        npu = self.npus.get(index)
        if npu is not None and address in npu.live:
            npu.keep_peak()
            npu.model.free(npu.live.pop(address).part)

    def refused(self, size: int, index: int) -> None:
        """There was no room for a block."""
        self.classify()
        pool = memory.pool_of(index)
        found = values.running_line()
        self.refusal = {"size": size, "npu": index, "allocated": pool.allocated, "line": str(found)}

    def classify(self) -> None:
        """State what the live blocks are for, as far as modules and optimizers say."""
        found: dict[int, str] = {}
        for module in list(self.modules):
            for parameter in list(module._parameters.values()):
                if parameter is not None:
                    _enter(found, parameter, "parameters")
                    if parameter.grad is not None:
                        _enter(found, parameter.grad, "gradients")
            for buffer in list(module._buffers.values()):
                if buffer is not None:
                    _enter(found, buffer, "parameters")
        for optimizer in list(self.optimizers):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    _enter(found, parameter, "parameters")
                    if parameter.grad is not None:
                        _enter(found, parameter.grad, "gradients")
            for state in list(optimizer.state.values()):
                for value in state.values() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        _enter(found, value, "optimizer")
        for npu in self.npus.values():
            for address, category in found.items():
                if address in npu.live:
                    npu.live[address].category = category

    def before_backward(self) -> None:
        """State that what is live, and nothing else yet, is an activation."""
        if not self._backward:
            for npu in self.npus.values():
                for block in npu.live.values():
                    block.category = block.category or "activations"
        self._backward += 1

    def after_backward(self) -> None:
        """The pass has ended."""
        self._backward -= 1

    # Steps.

    def before_step(self, optimizer: Any, *_: Any) -> None:
        """Gradients are there."""
        self.optimizers.add(optimizer)
        self.classify()

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """The optimizer's state is there, and a step is over."""
        self.classify()
        self.steps.append(dict(self.work))
        self.work.clear()
        if self.most_steps and len(self.steps) >= self.most_steps:
            raise SystemExit(0)

    # Work.

    def operator(self, name: str, operations: float, moved: int, dtype: torch.dtype | None) -> None:
        """Add an operator's modelled seconds."""
        work = self.work
        work["operators"] += 1
        work["operations"] += operations  # type: ignore[assignment]
        work["bytes"] += moved
        peak = self._chip.half if dtype in (torch.float16, torch.bfloat16) else self._chip.single
        if peak is None or self._chip.bandwidth is None:
            return
        compute, memory_time = operations / peak, moved / self._chip.bandwidth
        seconds = max(compute, memory_time, self._chip.launch)
        work["seconds"] += seconds  # type: ignore[assignment]
        kind = "compute" if compute == seconds else "memory" if memory_time == seconds else "launch"
        work[f"{kind}_seconds"] += seconds  # type: ignore[assignment]
        if kind == "launch":
            work["small"] += 1

    def collective(self, name: str, tensors: Sequence[torch.Tensor], size: int) -> None:
        """Add a collective's modelled seconds, and mark its buffers."""
        moved = sum(tensor.nbytes for tensor in tensors)
        factor = (size - 1) / max(size, 1) * (2 if name.startswith("allreduce") else 1)
        if name.startswith(("allgather", "all_gather")):
            factor = size - 1
        seconds = moved * factor / (self._chip.link if size <= 8 else self._chip.network)
        entry = self.collectives.setdefault((name, size), [0, 0, 0.0])
        entry[0] += 1
        entry[1] += moved
        entry[2] += seconds
        self.work["collective_seconds"] += seconds  # type: ignore[assignment]
        for tensor in tensors:
            npu = self.npus.get(tensor.get_device())
            block = npu.live.get(_address(tensor)) if npu is not None else None
            if block is not None and block.category in ("", "temporaries", "activations"):
                block.category = "communication"

    # The end.

    def document(self) -> dict[str, Any]:
        """Return what the plan is made of."""
        self.classify()
        files = self.files()
        if not any(each.kind in ("value", "copy") for each in values.guesses.values()):
            files = [each for each in files if not each["written"]]  # what is written has the program's own values
        soc = current_soc()
        ops = [
            {"operator": name, "calls": calls, "by": _by(kind)} for (name, kind), (calls, _) in tally.counts().items()
        ]
        ops += [{"operator": name, "calls": calls, "by": "refused"} for name, calls in limits.refusals.items()]
        return {
            "rank": int(os.environ.get("RANK", "0")),
            "chip": {"name": soc.name, "memory": soc.memory, **_public(self._chip)},
            "npus": [self._npu(npu) for npu in self.npus.values()],
            "refusal": self.refusal,
            "guesses": [
                {"kind": each.kind, "what": each.what, "line": str(each.line), "count": each.count}
                for each in values.guesses.values()
            ],
            "steps": self.steps,
            "waits": [{"for": what, "line": str(line), "count": n} for (what, line), n in self.waits.most_common()],
            "checkpoints": list(self.checkpoints.values()),
            "files": files,
            "collectives": [
                {"name": name, "ranks": size, "calls": calls, "bytes": moved, "seconds": seconds}
                for (name, size), (calls, moved, seconds) in self.collectives.items()
            ],
            "operators": ops,
            "behaviour": dict(limits.met),
            "options": self.options,
        }

    def _npu(self, npu: _Npu) -> dict[str, Any]:
        npu.keep_peak()
        parts = Counter[str]()
        for block in npu.at_peak.values():
            parts[block.category or "activations"] += block.size
        largest = sorted(npu.at_peak.values(), key=lambda block: -block.size)[:_SHOWN]
        pool = memory.pool_of(npu.index)
        return {
            "index": npu.index,
            "allocated": npu.peak,
            "reserved": npu.model.peak_reserved,
            "end": pool.allocated,
            "line": str(npu.peak_line),
            "step": npu.peak_step,
            "parts": {name: parts[name] for name in CATEGORIES},
            "largest": [
                {
                    "size": block.size,
                    "shape": block.shape or [],
                    "dtype": block.dtype,
                    "category": block.category or "activations",
                    "line": str(block.line),
                }
                for block in largest
            ],
        }

    def write(self) -> None:
        """Write the file of this process, if it used an NPU."""
        if self.npus or self.options:
            path = self.folder / f"{os.getpid()}.json"
            path.write_text(json.dumps(self.document()), encoding="utf-8")


_recorder: ForecastRecorder | None = None


def begin() -> None:
    """Begin to record, if there is a plan to be made."""
    global _recorder
    folder = os.environ.get("GPU2NPU_PLAN")
    if not folder:
        return
    recorder = _recorder = ForecastRecorder(Path(folder), int(os.environ.get("GPU2NPU_PLAN_STEPS") or 0))
    memory.listen(recorder)
    registration.register_module_parameter_registration_hook(lambda module, *_: recorder.modules.add(module))
    registration.register_module_buffer_registration_hook(lambda module, *_: recorder.modules.add(module))
    register_optimizer_step_pre_hook(recorder.before_step)
    register_optimizer_step_post_hook(recorder.after_step)
    _watch_backward(recorder)
    _watch_options(recorder)
    streams.on_synchronize(functools.partial(wait, "synchronize"))
    atexit.register(recorder.write)
    os.register_at_fork(after_in_child=_begin_again)
    util.register_after_fork(ForecastRecorder, lambda _: util.Finalize(None, _write, exitpriority=0))


def _begin_again() -> None:
    if _recorder is not None:
        _recorder.npus.clear()
        _recorder.options.clear()


def _write() -> None:
    if _recorder is not None:
        _recorder.write()


def _watch_backward(recorder: ForecastRecorder) -> None:
    run_backward = torch.autograd.graph._engine_run_backward

    @functools.wraps(run_backward)
    def watched(*args: Any, **kwargs: Any) -> Any:
        recorder.before_backward()
        try:
            return run_backward(*args, **kwargs)
        finally:
            recorder.after_backward()

    torch.autograd.graph._engine_run_backward = watched
    torch.autograd._engine_run_backward = watched  # type: ignore[attr-defined]


def _watch_options(recorder: ForecastRecorder) -> None:
    """The program's own options, with their values: further runs may change them."""
    parse = argparse.ArgumentParser.parse_known_args

    @functools.wraps(parse)
    def watched(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        found = parse(self, *args, **kwargs)
        for action in self._actions:
            value = getattr(found[0], action.dest, None) if found and found[0] is not None else None
            if action.option_strings and isinstance(value, (int, float, str, bool, type(None))):
                entry = {"names": list(action.option_strings), "value": value, "flag": action.nargs == 0}
                if entry not in recorder.options:
                    recorder.options.append(entry)
        return found

    argparse.ArgumentParser.parse_known_args = watched  # type: ignore[method-assign]


def _public(chip: Any) -> dict[str, Any]:
    return {name: getattr(chip, name) for name in chip.__dataclass_fields__}


def _by(kind: tally.ComputedBy) -> str:
    return "cpu" if kind is tally.ComputedBy.FALLBACK else "npu"


def _address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _enter(found: dict[int, str], tensor: Any, category: str) -> None:
    local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
    if local.device.type == "npu":
        found[_address(local)] = category


def operator(signature: Any, given: Iterable[torch.Tensor], result: Any) -> None:
    """Note an operator that would have run."""
    if _recorder is None:
        return
    inputs = list(given)
    outputs = [
        each for each in (result if isinstance(result, (list, tuple)) else (result,)) if isinstance(each, torch.Tensor)
    ]
    moved = sum(tensor.nbytes for tensor in (*inputs, *outputs))
    dtype = inputs[0].dtype if inputs else None
    _recorder.operator(signature.functional, operations(signature.op._schema.name, inputs, outputs), moved, dtype)


def collective(name: str, tensors: Sequence[torch.Tensor], size: int) -> None:
    """Note a collective of `size` ranks."""
    if _recorder is not None:
        _recorder.collective(name, tensors, size)


def list_files(files: Callable[[], list[dict[str, Any]]]) -> None:
    """Ask `files` for the files that the program opened to write, when the record is made."""
    if _recorder is not None:
        _recorder.files = files


def checkpoint(path: str, size: int) -> None:
    """Note a checkpoint of `size` bytes that the program would have written."""
    if _recorder is not None:
        line = str(values.running_line())
        _recorder.checkpoints[path] = {"path": path, "bytes": size, "line": line}


def wait(reason: str) -> None:
    """Note that the host waits at this line until the NPU has done what it was given."""
    if _recorder is not None:
        _recorder.waits[reason, values.running_line()] += 1
