"""`python -m tools.emulator_memory`: the memory of each operator of `op_db` on the emulated NPU beside the CPU's.

Samples of PyTorch's table are repeated until their largest tensor has a million elements: along one dimension, with all
others of its size, or along all. Forward, and backward where there is a gradient, run in a process of their own. The
memory of a device is that of the inputs and the most that the process had beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
ELEMENTS = 1_000_000
LIMIT = 8.0  # times the CPU's memory
_SAMPLES, _LARGE = 8, 2  # samples of an operator that are tried, and large ones that are measured
_CPU_SECONDS, _NPU_SECONDS = 60, 90  # at most; a process that takes longer ends
_ROOM = 2 << 30  # bytes beside what a process has when it begins


class Measured(NamedTuple):
    """The memory of one large sample, in MB; more than there is room for is infinite."""

    sizes: str
    inputs: float
    cpu: float
    npu: float

    @property
    def ratio(self) -> float:
        """The NPU's memory in units of the CPU's."""
        return (self.inputs + self.npu) / max(self.inputs + self.cpu, 1.0)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.emulator_memory", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these entries only")
    parser.add_argument("--after", metavar="NAME", default="", help="entries after this one in PyTorch's order")
    arguments = parser.parse_args()
    names, waits = arguments.only, bool(arguments.after)
    if "GPU2NPU_NPUS" not in os.environ:
        from gpu2npu.emulator.launch import emulating

        counts = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "GPU2NPU")}
        environment = {**os.environ, **counts, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
        command = [sys.executable, "-m", "tools.emulator_memory", *sys.argv[1:]]
        raise SystemExit(
            subprocess.run(command, env=emulating(environment, python=sys.executable), cwd=ROOT).returncode
        )
    from tools.emulator_coverage import tables

    found: dict[str, list[Measured]] = {}
    for name, op in tables.load("op_db"):
        if not waits and (not names or name in names or name.partition(".")[0] in names):
            found[name] = _in_a_process(functools.partial(_measured, op))
            worst = max(found[name], key=lambda each: each.ratio, default=None)
            print(f"{name}: {_row(worst)}", file=sys.stderr, flush=True)
        waits = waits and name != arguments.after
    print(f"{sum(map(bool, found.values()))} of {len(found)} operators measured; over {LIMIT:g} times:")
    for name, measured in sorted(found.items()):
        worst = max(measured, key=lambda each: each.ratio, default=None)
        if worst is not None and worst.ratio > LIMIT:
            print(f"| `{name}` | {_row(worst)} |")
    print("not measured:", ", ".join(name for name, measured in found.items() if not measured))


def _row(measured: Measured | None) -> str:
    if measured is None:
        return "not measured"
    return " | ".join([measured.sizes, *(f"{number:.1f}" for number in (*measured[1:], measured.ratio))])


def _in_a_process(work: Callable[[], Iterator[Measured]]) -> list[Measured]:
    """Return what a fork finds until it ends, is killed or runs out of memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writer, "w") as out, contextlib.suppress(BaseException):
            for each in work():
                out.write(json.dumps(each) + "\n")
                out.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        found = [Measured(*json.loads(line)) for line in lines]
    os.waitpid(child, 0)
    return found


def _measured(op: Any) -> Iterator[Measured]:
    import torch
    from torch.utils._pytree import tree_map

    from tools.emulator_coverage.compare import copied, tensors, to_npu

    warnings.simplefilter("ignore")
    torch.zeros(1, device="npu")
    room = _status("VmSize") + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    backward = op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    large = 0
    samples = op.sample_inputs_func(op, "cpu", torch.float32, backward)
    every = ((each.input, each.args, each.kwargs) for each in samples)
    enlargeable = (given for given in every if any(each.dim() and each.numel() for each in tensors(given)))
    for given in itertools.islice(enlargeable, _SAMPLES):
        first = True
        for scale, sizes in _scales(tensors(given)):
            try:
                if first:
                    _call(op, copied(given), backward)
                    _call(op, to_npu(given), backward)
                grown = tree_map(functools.partial(_grown, scale=scale), given)
                if max(each.numel() for each in tensors(grown)) < ELEMENTS // 4:
                    continue  # it has no dimension to enlarge
                signal.alarm(_CPU_SECONDS)  # which ends the process: C++ hears no handler of Python's
                cpu = _most(op, copied(grown), backward)
            except Exception:
                continue  # the CPU refuses it, or takes too long
            first = False
            there = to_npu(grown)
            inputs = sum(each.numel() * each.element_size() for each in tensors(grown)) / 1e6
            del grown
            try:
                signal.alarm(_NPU_SECONDS)
                npu = _most(op, there, backward)
            except MemoryError:
                npu = float("inf")
            except RuntimeError as error:
                if "alloc" not in str(error) and "memory" not in str(error):
                    continue
                npu = float("inf")
            except Exception:
                continue
            yield Measured(sizes, round(inputs, 1), round(cpu, 1), round(npu, 1))
            large += 1
            if large == _LARGE:
                return


def _scales(tensors: list[Any]) -> Iterator[tuple[dict[int, int], str]]:
    """Factors by the size of a dimension that give the largest tensor ELEMENTS: for all sizes, and for each one."""
    shape = max((each.shape for each in tensors), key=lambda shape: shape.numel())
    sizes = sorted(set(shape), reverse=True)
    for enlarged in [sizes, *([size] for size in sizes if len(sizes) > 1)]:
        count = sum(size in enlarged for size in shape)
        factor = max(2, round((ELEMENTS / shape.numel()) ** (1 / max(1, count))))
        scale = dict.fromkeys(enlarged, factor)
        yield scale, "x".join(str(size * scale.get(size, 1)) for size in shape)


def _grown(value: Any, scale: dict[int, int]) -> Any:
    import torch

    if not isinstance(value, torch.Tensor) or not value.dim() or value.layout is not torch.strided:
        return value
    return value.detach().repeat([scale.get(size, 1) for size in value.shape]).requires_grad_(value.requires_grad)


def _call(op: Any, given: tuple[Any, Any, Any], backward: bool) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    out = op.op(given[0], *given[1], **given[2])
    roots = [each for each in tree_leaves(out) if isinstance(each, torch.Tensor) and each.requires_grad]
    if backward and roots:
        torch.autograd.backward(roots, [torch.ones_like(each) for each in roots])


def _most(op: Any, given: tuple[Any, Any, Any], backward: bool) -> float:
    """The most MB that a call adds to what the process has."""
    Path("/proc/self/clear_refs").write_text("5")  # begins the peak anew
    before = _status("VmRSS")
    _call(op, given, backward)
    return max(0, _status("VmHWM") - before) / 1e6


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()
