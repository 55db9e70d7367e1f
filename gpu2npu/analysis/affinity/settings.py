"""Settings that make training wait on an NPU: loaders, copies, DDP, waits of the host, environment.

Facts: PyTorch's documentation of DataLoader, DistributedDataParallel and `Tensor.to`; torch_npu's OptionsManager.cpp
(TASK_QUEUE_ENABLE 0, 1 or 2; CPU_AFFINITY_CONF; PYTORCH_NPU_ALLOC_CONF) and its `set_compile_mode`; CANN's environment
variables (HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.torch_apis.dtypes import Tensors
from gpu2npu.analysis.torch_apis.tensor_labels import may_have_float64
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.tree.syntax import argument_of, arguments, is_unpacked, last_name
from gpu2npu.records import Advice, AdviceKind
from gpu2npu.support.cann import cann_for
from gpu2npu.support.chips import FAMILIES
from gpu2npu.support.releases import version_key

_LOADER = "torch.utils.data.DataLoader"
_DDP = "torch.nn.parallel.DistributedDataParallel"
_GROUP = "torch.distributed.init_process_group"
_LOOPS = (ast.For, ast.While)
# Methods for whose result the host waits.
_WAITING = frozenset({"item", "tolist", "numpy", "cpu"})
# What gives tensors another shape from step to step.
_CHANGING = (
    "pad_sequence",
    "pack_padded_sequence",
    "DataCollatorWithPadding",
    'padding="longest"',
    "bucket_boundaries",
)

_DRAWS = frozenset({"choice", "randint", "randrange", "uniform"})
_RESIZES = frozenset({"interpolate", "resize", "upsample"})
_DTYPES = frozenset({"float", "bfloat", "half", "double", "int", "uint", "long", "short", "bool", "complex"})

Places = Iterator[ast.expr | ast.stmt]


class Training(Struct, frozen=True, eq=False):
    """The parts of a file that settings are about: the calls of `_LOADER`, `_DDP` and `_GROUP` whose arguments are all
    written out, by what is called, and the innermost loops that compute gradients."""

    code: Code
    calls: Mapping[str, Sequence[ast.Call]]
    loops: Sequence[ast.For | ast.While]

    @classmethod
    def of(cls, code: Code) -> Training:
        """Find them in one pass over the calls of a file."""
        calls: dict[str, list[ast.Call]] = {_LOADER: [], _DDP: [], _GROUP: []}
        loops: dict[ast.For | ast.While, None] = {}
        for call, scope in code.calls:
            found = calls.get(code.qualified(call.func, scope) or "")
            if found is not None and not any(is_unpacked(each) for each in arguments(call)):
                found.append(call)
            if last_name(call.func) == "backward":
                loop = next((each for each in code.file.above(call) if isinstance(each, _LOOPS)), None)
                if isinstance(loop, _LOOPS):
                    loops[loop] = None
        return cls(code, calls, tuple(loops))


Finder = Callable[[Training], Places]


class Setting(Struct, frozen=True):
    """One cause, the line to write, and what makes it certain. Nothing is said in files whose text has `unless`, from
    the release `until` of PyTorch on, or, if `compiles`, where operators are not compiled for each shape unless
    set_compile_mode is called: by CANN 8 and later on most chips."""

    id: str
    find: Finder
    why: str
    line: str
    certain: str
    unless: str = ""
    until: str = ""
    compiles: bool = False

    def is_for(self, version: str, chips: Sequence[str]) -> bool:
        """Return whether a release on families of chips has the cause."""
        has_binaries = not any(FAMILIES[chip].compiles for chip in chips)
        if self.compiles and has_binaries and int(cann_for(version).version.partition(".")[0]) >= 8:
            return False
        return not self.until or version_key(version) < version_key(self.until)


@cache
def _settings_for(version: str, chips: tuple[str, ...]) -> tuple[Setting, ...]:
    return tuple(each for each in SETTINGS.values() if each.is_for(version, chips))


def settings_advice(code: Code, version: str, chips: Sequence[str]) -> list[Advice]:
    """The advice for each place of each cause, in a release on families of chips."""
    training = Training.of(code)
    found = {
        Advice(
            code.file.span(node),
            setting.id,
            AdviceKind.PERFORMANCE,
            setting.line,
            f"{setting.why} Write: {setting.line}. Certain where {setting.certain}.",
            setting.line,
        )
        for setting in _settings_for(version, tuple(chips))
        if not (setting.unless and setting.unless in code.text)
        for node in setting.find(training)
    }
    return sorted(found, key=lambda advice: (advice.span, advice.rule))


def _lacking(name: str, option: str, at: int) -> Callable[[Training], Iterator[ast.Call]]:
    """Finds calls that do not give an option, by keyword or at its position."""
    return lambda training: (
        call for call in training.calls[name] if argument_of(call, option) is None and len(call.args) <= at
    )


def _pinned_for_cuda(training: Training) -> Places:
    """Loaders that pin memory, for no device by its name."""
    for call in _lacking(_LOADER, "pin_memory_device", 99)(training):
        pinned = argument_of(call, "pin_memory", 7)
        if pinned is not None and not _is_off(pinned):
            yield call


def _last_batches(training: Training) -> Places:
    """Loaders of training data that make batches of a size themselves, and set nothing for the last: they
    shuffle or draw samples, or a loop that computes gradients visits them."""
    loops = training.loops if training.calls[_LOADER] else ()
    looped = {ast.unparse(part) for loop in loops if isinstance(loop, ast.For) for part in ast.walk(loop.iter)}
    for call in training.calls[_LOADER]:
        written = dict(zip(("dataset", "batch_size", "shuffle", "sampler", "batch_sampler"), call.args, strict=False))
        given = {**written, **{each.arg or "": each.value for each in call.keywords}}
        size = given.get("batch_size")
        is_sized = given.keys().isdisjoint(("drop_last", "batch_sampler")) and not (size and _is_off(size))
        is_drawn = any(name in given and not _is_off(given[name]) for name in ("shuffle", "sampler"))
        names = map(ast.unparse, getattr(training.code.file.parents[call], "targets", [call]))
        if is_sized and (is_drawn or not looped.isdisjoint(names)):
            yield call


def _is_off(node: ast.expr) -> bool:
    """Return whether a value is written as False, None or 0."""
    return isinstance(node, ast.Constant) and not node.value


def _with_workers(option: str) -> Finder:
    """Finds loaders with workers that do not give an option."""
    find = _lacking(_LOADER, option, 99)
    return lambda training: (
        call for call in find(training) if (workers := argument_of(call, "num_workers")) and not _is_off(workers)
    )


def _host_waits(training: Training) -> Places:
    """`.item()`, `.cpu()`, `.numpy()`, `.tolist()` and prints of tensors in a training loop, at every step."""
    code = training.code
    for loop in training.loops:
        for call in (part for part in ast.walk(loop) if isinstance(part, ast.Call)):
            above = code.file.above(call)
            if any(isinstance(each, ast.If) for each in _until(above, loop)):
                continue  # not at every step
            name = last_name(call.func)
            waits = isinstance(call.func, ast.Attribute) and name in _WAITING and not call.args
            printed = name == "print" and any(
                code.types.is_tensor(each, code.file.scope_of(each)) for each in call.args
            )
            if waits or printed:
                yield call


def _tensor_conditions(training: Training) -> Places:
    code = training.code
    for loop in training.loops:
        for part in ast.walk(loop):
            test = part.test if isinstance(part, (ast.If, ast.While)) and part is not loop else None
            if test is not None and code.types.is_tensor(test, code.file.scope_of(test)):
                yield test


def _until(above: Iterator[ast.AST], loop: ast.AST) -> Iterator[ast.AST]:
    return takewhile(lambda each: each is not loop, above)


def _waiting_copies(training: Training) -> Places:
    """Copies of what a loop over batches gives, to a device, that the host waits for."""
    for loop in training.loops:
        targets = ast.walk(loop.target) if isinstance(loop, ast.For) else ()
        names = {part.id for part in targets if isinstance(part, ast.Name)}
        for call in (part for part in ast.walk(loop) if isinstance(part, ast.Call)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            moved = last_name(call.func) == "to" and len(call.args) == 1 and not _is_dtype(call.args[0])
            copies = last_name(call.func) in ("cuda", "npu") or moved
            if (
                copies
                and isinstance(owner, ast.Name)
                and owner.id in names
                and argument_of(call, "non_blocking") is None
            ):
                yield call


def _is_dtype(node: ast.expr) -> bool:
    """Return whether code names a dtype: `torch.float16`, `y.dtype`, `dtype`."""
    name = last_name(node) or ""
    return name.endswith("dtype") or name.rstrip("0123456789") in _DTYPES


def _entry(training: Training) -> Places:
    """The main block of a program that trains."""
    if training.loops:
        for node in training.code.file.tree.body:
            if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
                yield node.test


def _changing_shapes(training: Training) -> Places:
    code = training.code
    for loop in training.loops:
        yield from _drawn_sizes(code, loop)
    if any(word in code.text for word in _CHANGING):
        for call, _ in code.calls:
            is_longest = "longest" in code.file.code(call) and "longest" in ast.unparse(call)  # not in a comment
            if is_longest or last_name(call.func) in _CHANGING:
                yield call


def _drawn_sizes(code: Code, loop: ast.For | ast.While) -> Places:
    """Calls that make images of a size that is drawn in each step: `F.interpolate(x, size=random.choice(sizes))`."""
    values, path = values_of(code.names.project), code.names.path
    for call in (each for each in ast.walk(loop) if isinstance(each, ast.Call) and last_name(each.func) in _RESIZES):
        at = values.call_at(code.names, call)
        sizes = [place for key, place in values.arguments(at).items() if key != "0"] if at else []
        for made in {made for size in sizes for made in values.made_of(size, has_elements=True)}:
            called = values.at(made).calls.get(made)
            is_here = (
                called is not None
                and values.path_at(made) == path
                and loop.lineno <= called.line <= (loop.end_lineno or 0)
            )
            if is_here and called is not None and called.name in _DRAWS:
                yield call
                break


def _unsynchronised(training: Training) -> Places:
    """Backward passes of loops that step the optimizer in some steps alone, in a file that wraps a model."""
    code = training.code
    for loop in training.loops if training.calls[_DDP] else ():
        calls = [part for part in ast.walk(loop) if isinstance(part, ast.Call)]
        steps = [call for call in calls if last_name(call.func) == "step" and not call.args]
        tests = [
            each.test for call in steps for each in _until(code.file.above(call), loop) if isinstance(each, ast.If)
        ]
        if any("%" in code.file.code(test) for test in tests):
            yield from (call for call in calls if last_name(call.func) == "backward")


def _anomalies(training: Training) -> Places:
    """Calls that look for the operator of each nan, but where they switch it off."""
    for call, _ in training.code.calls if "detect_anomaly" in training.code.text else ():
        if last_name(call.func) in ("set_detect_anomaly", "detect_anomaly") and not any(map(_is_off, call.args[:1])):
            yield call


def _float64_constants(training: Training) -> Places:
    """Products of a tensor and one that is known to be float64."""
    code, tensors = training.code, Tensors(training.code.names)
    for product, scope in code.products if may_have_float64(code.text) else ():
        known = [each for each in (product.left, product.right) if code.types.is_tensor(each, scope)]
        operands = tensors.operands(product) if known else []
        wide = [tensors.facts(each).dtype == "float64" for each in operands]
        may_be_wide = sum(tensors.may_be(each, "float64") for each in operands)
        narrow = product.right if wide[:1] == [True] else product.left
        if wide.count(True) == may_be_wide == 1 and narrow in known:
            yield product


def _float32_entry(training: Training) -> Places:
    code = training.code
    if "autocast" not in code.text and "bfloat16" not in code.text and "half()" not in code.text:
        yield from _entry(training)


# What finds the places of each setting of settings.json.
_FINDERS: Mapping[str, Finder] = {
    "loader-workers": _lacking(_LOADER, "num_workers", 5),
    "loader-pinned": _lacking(_LOADER, "pin_memory", 7),
    "loader-pinned-device": _pinned_for_cuda,
    "loader-persistent": _with_workers("persistent_workers"),
    "loader-prefetch": _with_workers("prefetch_factor"),
    "loader-last-batch": _last_batches,
    "copy-waits": _waiting_copies,
    "ddp-views": _lacking(_DDP, "gradient_as_bucket_view", 9),
    "ddp-static": _lacking(_DDP, "static_graph", 99),
    "ddp-bucket": _lacking(_DDP, "bucket_cap_mb", 6),
    "ddp-buffers": _lacking(_DDP, "broadcast_buffers", 3),
    "ddp-no-sync": _unsynchronised,
    "hccl-timeouts": _lacking(_GROUP, "", 99),
    "detect-anomaly": _anomalies,
    "host-waits": _host_waits,
    "host-branches": _tensor_conditions,
    "float64-constant": _float64_constants,
    "task-queue": _entry,
    "cpu-affinity": _entry,
    "expandable-segments": _entry,
    "jit-compile": _changing_shapes,
    "hf32": _float32_entry,
}
_ROWS = json.loads((Path(__file__).parent / "settings.json").read_text(encoding="utf-8"))
SETTINGS: Mapping[str, Setting] = {row["id"]: Setting(find=_FINDERS[row["id"]], **row) for row in _ROWS}
