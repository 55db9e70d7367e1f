"""`gpu2npu run -m tools.affinity_cost fixtures/affinity/llama.py`: what a training step of a program costs on an NPU.

Counts the operators that a step launches and the bytes that they read and write, and models the time of each by a
roofline: the longer of its bytes and its arithmetic, and a fixed time for its launch. On a real NPU, `--measure` takes
the time of a step, too. The program takes `--steps N`; a step is the difference between two runs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Of the AI cores of an Ascend 910B1, by CANN's data/platform_config/Ascend910B1.ini: 24 cube cores at 1.85 GHz, each of
# which multiplies 16 x 16 x 16 numbers of half precision a cycle, and reads 32 bytes a cycle from memory (ddr_rate).
CORES, FREQUENCY = 24, 1.85e9
BYTES_A_SECOND = 32 * CORES * FREQUENCY
FLOPS_A_SECOND = 2 * 16**3 * CORES * FREQUENCY
# An assumption: no source gives the time that the host takes to launch an operator.
LAUNCH = 5e-6


@dataclass
class Cost:
    """Operators launched, bytes read and written, and modelled seconds."""

    launches: int = 0
    moved: int = 0
    seconds: float = 0.0


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the cost of every operator with a tensor on an NPU; views launch nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cost = Cost()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        tensors = [*_tensors(args), *_tensors(kwargs or {}), *_tensors(result)]
        if any(each.device.type == "npu" for each in tensors) and not _is_view(function):
            moved = sum(each.numel() * each.element_size() for each in tensors)
            count = flop_registry.get(function._overloadpacket)
            work = count(*args, **(kwargs or {}), out_val=result) if count is not None else 0
            self.cost.launches += 1
            self.cost.moved += moved
            self.cost.seconds += max(moved / BYTES_A_SECOND, work / FLOPS_A_SECOND) + LAUNCH
        return result


def _is_view(function: Any) -> bool:
    """Return whether an operator returns another look at memory that is there."""
    returns = [each.alias_info for each in function._schema.returns]
    return bool(returns) and all(each is not None and not each.is_write for each in returns)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))


def _run(program: Path, steps: int) -> Cost:
    sys.argv = [str(program), "--steps", str(steps)]
    counting = Counting()
    with counting, contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(program), run_name="__main__")
    return counting.cost


def _seconds(program: Path, steps: int) -> float:
    sys.argv = [str(program), "--steps", str(steps)]
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(program), run_name="__main__")
    npu: Any = vars(torch)["npu"]  # of torch_npu
    npu.synchronize()
    return time.perf_counter() - started


def main() -> None:
    """Print the cost of a step of each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--measure", action="store_true", help="also take the time of a step, on a real NPU")
    options = parser.parse_args()
    for program in options.programs:
        sys.path.insert(0, str(program.parent))
        few, many = _run(program, 1), _run(program, 3)
        launches, moved = (many.launches - few.launches) // 2, (many.moved - few.moved) // 2
        modelled = (many.seconds - few.seconds) / 2
        text = f"{program}: {launches} operators, {moved / 1e6:.2f} MB, {modelled * 1e3:.2f} ms modelled"
        if options.measure:
            _seconds(program, 10)
            text += f", {(_seconds(program, 110) - _seconds(program, 10)) * 10:.2f} ms measured"
        print(text)
        sys.path.remove(str(program.parent))


if __name__ == "__main__":
    main()
