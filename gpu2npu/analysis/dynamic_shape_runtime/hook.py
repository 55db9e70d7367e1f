"""Records which operators see changing shapes in a training, and where; `gpu2npu analyse -m dynamic_shape` put it here.

A call of an operator is compared with the call of the iteration before that came from the same lines of the project and
had the same number among the calls from there: so a layer that runs for every block of a model, each of another width,
is not taken for dynamic. An iteration begins when a DataLoader gives a batch and when an optimizer has made its step;
`DETECTOR.start(batches)` begins one for each item of anything else.

When the process ends, and once a minute, msft_dynamic_shape_analysis_report.csv is written beside this folder. Every
process of a training writes what it saw; the report has the rows of all.
"""

from __future__ import annotations

import atexit
import contextlib
import csv
import fcntl
import importlib
import json
import multiprocessing.util
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

# Operators that torch.compile fuses would no longer be seen one by one.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "msft_dynamic_shape_analysis_report.csv"
_PARTS = Path(__file__).resolve().parent / "parts"
_RUN = "MSFT_DYNAMIC_ANALYSIS_RUN"
_HEADER = ["Function Name", "File Path", "Line Number", "Call Stack", "Input Shape Range", "Output Shape Range"]
_OWN_HEADER = ["Rank", "Device", "Shapes", "Calls"]
_MOST_CALLS = 200_000  # different ones that are remembered
_MOST_SHAPES = 1_000  # of one call that are counted
_SECONDS_BETWEEN_SAVES = 60
_WARM_UP = 2  # the first batch, and what follows its step
_HERE = str(Path(__file__).resolve().parent) + os.sep
if TYPE_CHECKING:
    _Shapes = tuple[tuple[int, ...], ...]
    _Place = tuple[Any, tuple[tuple[CodeType, int], ...], str]  # operator, lines that led to it, device


class _Range:
    """The smallest and the largest size of each dimension of one tensor, for each number of dimensions it had."""

    def __init__(self) -> None:
        self.bounds: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def add(self, shape: tuple[int, ...]) -> None:
        low, high = self.bounds.get(len(shape), (shape, shape))
        self.bounds[len(shape)] = tuple(map(min, low, shape)), tuple(map(max, high, shape))

    def __str__(self) -> str:
        return "[" + " | ".join(f"{low}-{high}" for _, (low, high) in sorted(self.bounds.items())) + "]"


class _Call:
    """One call of an iteration, as seen in all of them: `shapes` are those of its tensors, inputs then outputs."""

    def __init__(self, inputs: _Shapes, outputs: _Shapes) -> None:
        self.last = self.first = (inputs, outputs)
        self.shapes: set[tuple[_Shapes, _Shapes]] = set()
        self.calls = 1

    def add(self, inputs: _Shapes, outputs: _Shapes) -> bool:
        """Record the shapes of a call; return whether they were not seen in it before."""
        self.calls += 1
        if not self.shapes and (inputs, outputs) == self.first:
            return False
        self.shapes.add(self.first)
        known = len(self.shapes)
        if known < _MOST_SHAPES:
            self.shapes.add((inputs, outputs))
        return len(self.shapes) > known


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    detector: Detector

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.detector.recording and _runs_a_kernel(func):
            self.detector.saw(func, args, kwargs or {}, result)
        return result


class Detector:
    """Compares the calls of each iteration with those of the ones before."""

    def __init__(self) -> None:
        self.recording = False
        self.calls: dict[tuple[_Place, int], _Call] = {}
        self._number: dict[_Place, int] = {}
        self._is_own: dict[CodeType, bool] = {}
        self._mode: Any = None
        self._begun = 0
        self.rank = 0
        self._saved = time.monotonic()
        self._changed = True

    def start(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same items, each of which begins an iteration: `for batch in DETECTOR.start(batches):`."""
        for batch in batches:
            self.iteration()
            yield batch

    def iteration(self) -> None:
        """Compare what runs from here on with what ran after the last such place."""
        if threading.current_thread() is not threading.main_thread() or torch.utils.data.get_worker_info() is not None:
            return
        if self._mode is None:
            mode: Any = _Recorder
            self._mode = mode()
            self._mode.detector = self
            self._mode.__enter__()
        self._begun += 1
        self.rank, several = _rank()
        # Where several processes train one model, the first step makes the buckets of gradients anew, in other sizes.
        self.recording = not several or self._begun > _WARM_UP
        self._number.clear()
        if self._changed and time.monotonic() - self._saved > _SECONDS_BETWEEN_SAVES:
            self.save()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing that runs in the block is recorded: what makes a batch is not the model."""
        recording, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = recording

    def saw(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        tensors = list(_tensors((args, list(kwargs.values()))))
        outputs = list(_tensors(result))
        device = next((tensor.device.type for tensor in (*tensors, *outputs) if tensor.device.type != "cpu"), "cpu")
        place = (func, self._stack(), device)
        number = self._number[place] = self._number.get(place, -1) + 1
        shapes = _shapes(tensors), _shapes(outputs)
        call = self.calls.get((place, number))
        if call is not None:
            self._changed |= call.add(*shapes)
        elif len(self.calls) < _MOST_CALLS:
            self.calls[place, number] = _Call(*shapes)
            self._changed = True

    def _stack(self) -> tuple[tuple[CodeType, int], ...]:
        """The lines of the project that led here, outermost last; without any, the nearest one outside of torch."""
        found: list[tuple[CodeType, int]] = []
        nearest: tuple[CodeType, int] | None = None
        frame: FrameType | None = sys._getframe(3)
        while frame is not None:
            code = frame.f_code
            own = self._is_own.get(code)
            if own is None:
                own = self._is_own[code] = _is_own(code.co_filename)
            if own:
                found.append((code, frame.f_lineno))
            elif nearest is None and not code.co_filename.startswith((_HERE, _TORCH)):
                nearest = code, frame.f_lineno
            frame = frame.f_back
        return tuple(found) if found or nearest is None else (nearest,)

    def rows(self) -> list[list[Any]]:
        """The dynamic calls of this process, one row for each operator and chain of lines it was called from.

        Where operators ran on another device than the CPU, those that ran on the CPU are left out.
        """
        only_device = any(device != "cpu" for (_, _, device), _ in self.calls)
        merged: dict[_Place, list[_Call]] = {}
        for (place, _), call in list(self.calls.items()):
            if call.shapes and not (only_device and place[2] == "cpu"):
                merged.setdefault(place, []).append(call)
        return [_row(place, calls, self.rank) for place, calls in merged.items()]

    def save(self) -> None:
        """Writes what this process saw, and the report of all of them; says so if that is not possible."""
        self._saved, self._changed = time.monotonic(), False
        if torch.utils.data.get_worker_info() is not None:
            return
        try:
            with self.paused():
                _PARTS.mkdir(exist_ok=True)
                part = _PARTS / f"{os.getpid()}.json"
                part.with_suffix(".new").write_text(json.dumps(self.rows()), encoding="utf-8")
                part.with_suffix(".new").replace(part)
                _write_report()
        except OSError as error:
            print(f"The report of dynamic shapes could not be written: {error}.", file=sys.stderr)


def _row(place: _Place, calls: list[_Call], rank: int) -> list[Any]:
    func, stack, device = place
    seen = {shapes for call in calls for shapes in call.shapes}
    path, line = (_shown(stack[0][0]), stack[0][1]) if stack else ("", 0)
    lines = [f"<file {_shown(code)}, line {number} in {code.co_name}>" for code, number in reversed(stack)]
    ranges = [_ranges(shapes[side] for shapes in seen) for side in (0, 1)]
    name = func._schema.name + (f".{func._schema.overload_name}" if func._schema.overload_name else "")
    return [name, path, line, str(lines), *ranges, rank, device, len(seen), sum(call.calls for call in calls)]


def _runs_a_kernel(func: Any) -> bool:
    known = _KERNELS.get(func)
    if known is None:
        views = any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns)
        known = _KERNELS[func] = not views and func._schema.name not in _WITHOUT_KERNEL
    return known


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)


def _shapes(tensors: Iterable[torch.Tensor]) -> _Shapes:
    return tuple(tuple(map(int, tensor.shape)) for tensor in tensors)


def _ranges(seen: Iterable[_Shapes]) -> str:
    ranges: list[_Range] = []
    for shapes in seen:
        ranges.extend(_Range() for _ in range(len(shapes) - len(ranges)))
        for each, shape in zip(ranges, shapes):  # noqa: B905, for Python 3.8
            each.add(shape)
    return ", ".join(map(str, ranges)) or "None"


def _is_own(filename: str) -> bool:
    if filename.startswith("<"):  # code from a string
        return False
    path = os.path.abspath(filename)  # noqa: PTH100, a file that is gone has a path
    return path.startswith(str(ROOT) + os.sep) and not path.startswith(_HERE) and "site-packages" not in path


def _shown(code: CodeType) -> str:
    path = os.path.abspath(code.co_filename)  # noqa: PTH100
    return f"./{os.path.relpath(path, ROOT)}" if path.startswith(str(ROOT) + os.sep) else path


def _rank() -> tuple[int, bool]:
    """The rank of this process, and whether there are several."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size() > 1
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdigit() else 0, False


def _write_report() -> None:
    """Joins the parts; one process at a time, and what is read is never half a report."""
    with (_PARTS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = [row for part in sorted(_PARTS.glob("*.json")) for row in json.loads(part.read_text(encoding="utf-8"))]
        rows.sort(key=lambda row: (row[1], row[2], row[6], row[0], row[3]))
        new = REPORT.with_suffix(".new")
        with new.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_HEADER + _OWN_HEADER)
            writer.writerows(rows)
        new.replace(REPORT)


def _forget_earlier_runs() -> None:
    """The first process of a run removes the parts of the one before; those that it starts find its mark."""
    if _RUN in os.environ:
        return
    os.environ[_RUN] = str(os.getpid())
    started = time.time()
    for part in _PARTS.glob("*.json"):
        with contextlib.suppress(OSError):
            if part.stat().st_mtime < started:
                part.unlink()


def _in_child(detector: Detector) -> None:
    """A process of multiprocessing runs no `atexit` functions, and begins with what its parent saw."""
    detector.calls.clear()
    multiprocessing.util.Finalize(None, detector.save, exitpriority=0)


def _follow_batches() -> None:
    base: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    original = base.__next__

    def following(self: Any) -> Any:
        with DETECTOR.paused():
            batch = original(self)
        DETECTOR.iteration()
        return batch

    base.__next__ = following


def _follow_steps() -> None:
    module = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it
    register: Any = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:  # since PyTorch 2.1
        register(lambda *_: DETECTOR.iteration())


_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep
_KERNELS: dict[Any, bool] = {}
_WITHOUT_KERNEL = frozenset(
    {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
    | {"aten::resize_", "aten::set_", "aten::_local_scalar_dense", "aten::_unsafe_view"}
)
DETECTOR = Detector()
_forget_earlier_runs()
_follow_batches()
_follow_steps()
atexit.register(DETECTOR.save)
multiprocessing.util.register_after_fork(DETECTOR, _in_child)
