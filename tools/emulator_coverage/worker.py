"""A process that checks entries as its parent names them, one line in, one line out; it may crash or hang."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any, TextIO

from tools.emulator_coverage.outcome import Outcome, encode

REASON_LENGTH = 400


def main() -> None:
    """`worker SUITE MODE DTYPE`, then the names of entries on stdin, until it ends."""
    suite, mode, dtype_name = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is not an outcome
    import torch
    import torch_npu

    from gpu2npu.emulator.device.dispatch.tally import ComputedBy, counts, reset
    from tools.emulator_coverage import modules, operators, optimizers, tables

    torch.set_num_threads(1)
    torch.zeros(1, device="npu")
    # HF32, the NPU's default for float32 convolutions, keeps fewer digits than any of the tables allows.
    torch_npu.npu.conv.allow_hf32 = torch_npu.npu.matmul.allow_hf32 = False
    entries = dict(tables.load(suite))
    check: Any = {"op_db": operators.check, "module_db": modules.check, "optim_db": optimizers.check}[suite]
    dtype = getattr(torch, dtype_name)
    for line in sys.stdin:
        name = line.strip()
        entry = entries[name]
        tried = operators.Tried()
        reason = ""
        reset()
        start = time.perf_counter()
        if suite == "op_db" and dtype not in entry.dtypes:
            _report(out, Outcome(suite, mode, dtype_name, name, False, "unsupported", 0, 0, False, False, (), 0.0))
            continue
        try:
            check(entry, dtype, tried)
            if not tried.samples:
                reason = "nothing to compare: the CPU refuses every sample"
                if tried.uncomparable:
                    reason += f" ({' '.join(tried.uncomparable[0].split())})"
        except Exception as error:
            reason = re.sub(r"0x[0-9a-f]+", "0x...", str(error) or type(error).__name__)
        borrowed = tuple(
            sorted({operator for operator, kind in counts() if kind not in (ComputedBy.NUMPY, ComputedBy.PARTS)})
        )
        seconds = round(time.perf_counter() - start, 2)
        passed = not reason
        short = reason if len(reason) <= REASON_LENGTH else reason[:REASON_LENGTH] + "..."
        _report(
            out,
            Outcome(
                *(suite, mode, dtype_name, name, passed, short, tried.samples, tried.gradients),
                random=tried.random,
                by_wider=tried.by_wider,
                borrowed=borrowed,
                seconds=seconds,
            ),
        )


def _report(out: TextIO, outcome: Outcome) -> None:
    out.write(encode(outcome) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
