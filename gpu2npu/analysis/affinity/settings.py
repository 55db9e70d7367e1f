"""Settings that make training wait on an NPU: loaders, copies, DDP, waits of the host, environment.

Facts: PyTorch's documentation of DataLoader, DistributedDataParallel and `Tensor.to`; torch_npu's OptionsManager.cpp
(TASK_QUEUE_ENABLE 0, 1 or 2; CPU_AFFINITY_CONF; PYTORCH_NPU_ALLOC_CONF) and its `set_compile_mode`; CANN's environment
variables (HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from gpu2npu.analysis.code import Code
from gpu2npu.analysis.done_calls import keyword
from gpu2npu.analysis.torch_apis.dtypes import Tensors
from gpu2npu.analysis.torch_apis.tensor_labels import may_have_float64
from gpu2npu.python.tree.syntax import arguments, is_unpacked, last_name
from gpu2npu.records import Advice, AdviceKind

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
    """One cause, the line to write, and what makes it certain. Nothing is said in files whose text has `unless`."""

    id: str
    find: Finder
    why: str
    line: str
    certain: str
    unless: str = ""


def settings_advice(code: Code) -> list[Advice]:
    """The advice for each place of each cause."""
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
        for setting in SETTINGS.values()
        if not (setting.unless and setting.unless in code.text)
        for node in setting.find(training)
    }
    return sorted(found, key=lambda advice: (advice.span, advice.rule))


def _lacking(name: str, option: str, at: int) -> Callable[[Training], Iterator[ast.Call]]:
    """Finds calls that do not give an option, by keyword or at its position."""
    return lambda training: (
        call for call in training.calls[name] if keyword(call, option) is None and len(call.args) <= at
    )


def _last_batches(training: Training) -> Places:
    """Loaders of training data that make batches of a size themselves, and do not say what becomes of the last: they
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
        call for call in find(training) if (workers := keyword(call, "num_workers")) and not _is_off(workers)
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
            if copies and isinstance(owner, ast.Name) and owner.id in names and keyword(call, "non_blocking") is None:
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
    if any(word in code.text for word in _CHANGING):
        for call, _ in code.calls:
            is_longest = "longest" in code.file.code(call) and "longest" in ast.unparse(call)  # not in a comment
            if is_longest or last_name(call.func) in _CHANGING:
                yield call


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
        operands = tensors.operands(product)
        wide = [tensors.facts(each).dtype == "float64" for each in operands]
        may_be_wide = sum(tensors.may_be(each, "float64") for each in operands)
        narrow = product.right if wide[:1] == [True] else product.left
        if wide.count(True) == may_be_wide == 1 and code.types.is_tensor(narrow, scope):
            yield product


def _float32_entry(training: Training) -> Places:
    code = training.code
    if "autocast" not in code.text and "bfloat16" not in code.text and "half()" not in code.text:
        yield from _entry(training)


_ALL = (
    Setting(
        "loader-workers",
        _lacking(_LOADER, "num_workers", 5),
        "Batches are made by the process that feeds the NPU, which waits for each.",
        "DataLoader(..., num_workers=8)",
        "the data set may be read by several processes",
    ),
    Setting(
        "loader-pinned",
        _lacking(_LOADER, "pin_memory", 7),
        "Copies from memory that is not pinned are made twice, and cannot run beside the computation.",
        "DataLoader(..., pin_memory=True)",
        "the data set gives tensors in the host's memory",
    ),
    Setting(
        "loader-persistent",
        _with_workers("persistent_workers"),
        "The workers are started anew in every epoch.",
        "DataLoader(..., persistent_workers=True)",
        "the data set is the same in every epoch",
    ),
    Setting(
        "loader-prefetch",
        _with_workers("prefetch_factor"),
        "Each worker has two batches ready, which is few where some take longer.",
        "DataLoader(..., prefetch_factor=4)",
        "the host has memory for the batches",
    ),
    Setting(
        "loader-last-batch",
        _last_batches,
        "The last batch of an epoch has another shape, for which operators are prepared once more.",
        "DataLoader(..., drop_last=True)",
        "the loader is of training data",
    ),
    Setting(
        "copy-waits",
        _waiting_copies,
        "The host waits for the copy of each batch; with pinned memory it need not.",
        "x.to(device, non_blocking=True)",
        "the loader pins its memory, collates tensors by default and nothing keeps the batch (--affinity copy-waits)",
    ),
    Setting(
        "ddp-views",
        _lacking(_DDP, "gradient_as_bucket_view", 9),
        "Gradients are copied into the buckets that are reduced.",
        "DistributedDataParallel(..., gradient_as_bucket_view=True)",
        "no gradient is named by the program (--affinity ddp-views)",
    ),
    Setting(
        "ddp-static",
        _lacking(_DDP, "static_graph", 99),
        "Every step looks for the parameters that are used.",
        "DistributedDataParallel(..., static_graph=True)",
        "all steps use the same parameters",
    ),
    Setting(
        "ddp-bucket",
        _lacking(_DDP, "bucket_cap_mb", 6),
        "Buckets of 25 MB are reduced one by one; larger ones are fewer, and the best size is to be measured.",
        "DistributedDataParallel(..., bucket_cap_mb=100)",
        "it was measured to be faster",
    ),
    Setting(
        "ddp-buffers",
        _lacking(_DDP, "broadcast_buffers", 3),
        "Buffers, such as the statistics of BatchNorm, are sent from the first NPU before every forward pass.",
        "DistributedDataParallel(..., broadcast_buffers=False)",
        "the model has no buffers that steps change, or each NPU may have its own statistics",
    ),
    Setting(
        "ddp-no-sync",
        _unsynchronised,
        "Gradients are reduced in every backward pass, and the optimizer steps in some of them alone.",
        "with model.no_sync(): loss.backward()",
        "it is only around the passes that no step follows",
        "no_sync",
    ),
    Setting(
        "hccl-timeouts",
        _lacking(_GROUP, "", 99),
        "HCCL ends a program where an NPU connects more than 120 s after another, or one operation takes 1836 s: while "
        "the first process prepares data, the others wait.",
        "export HCCL_CONNECT_TIMEOUT=1200 HCCL_EXEC_TIMEOUT=3600",
        "processes may wait that long for each other",
        "HCCL_CONNECT_TIMEOUT",
    ),
    Setting(
        "detect-anomaly",
        _anomalies,
        "Each operator of the backward pass is looked through for nan, which makes the host wait.",
        "torch.autograd.set_detect_anomaly(False)",
        "nothing is being debugged",
    ),
    Setting(
        "host-waits",
        _host_waits,
        "The host waits for the NPU in every step of a training loop.",
        "total += loss.detach(), and total.item() every 100 steps",
        "nothing needs the value at once",
    ),
    Setting(
        "host-branches",
        _tensor_conditions,
        "A condition on a tensor makes the host wait for the NPU in every step.",
        "torch.where(condition, a, b)",
        "both sides may be computed",
    ),
    Setting(
        "float64-constant",
        _float64_constants,
        "A tensor that meets a float64 one is converted to it, or the other way, and an NPU computes float64 slowly.",
        "torch.tensor(..., dtype=x.dtype)",
        "the digits beyond those of x are not needed, and x is known to be of floats; --affinity float64-constant "
        "writes single numbers",
    ),
    Setting(
        "task-queue",
        _entry,
        "Operators are prepared by the thread that launches them.",
        "export TASK_QUEUE_ENABLE=2",
        "the NPU has memory left, as tensors live longer",
        "TASK_QUEUE_ENABLE",
    ),
    Setting(
        "cpu-affinity",
        _entry,
        "Threads move between cores, away from the memory of their NPU.",
        "export CPU_AFFINITY_CONF=1",
        "nothing else binds threads to cores, as run_distributed_npu.sh does",
        "CPU_AFFINITY_CONF",
    ),
    Setting(
        "expandable-segments",
        _entry,
        "Memory that is cached in blocks of other sizes cannot be used.",
        "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
        "no tensor is shared between processes",
        "PYTORCH_NPU_ALLOC_CONF",
    ),
    Setting(
        "jit-compile",
        _changing_shapes,
        "Shapes change from step to step, and operators that are compiled for a shape are compiled again.",
        "torch.npu.set_compile_mode(jit_compile=False)",
        "all operators of the program have binaries",
        "jit_compile",
    ),
    Setting(
        "hf32",
        _float32_entry,
        "Matrix products are float32; HF32, with 11 bits of mantissa as TF32, is faster where that is enough.",
        "torch.npu.matmul.allow_hf32 = True",
        "11 bits of mantissa are enough",
        "allow_",
    ),
)
SETTINGS: Mapping[str, Setting] = {setting.id: setting for setting in _ALL}
