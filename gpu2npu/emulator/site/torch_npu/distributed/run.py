"""`python -m torch_npu.distributed.run`: torchrun, with torch_npu's option for its parallel store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import record

__all__ = ["parse_args"]


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """torchrun's arguments, and `--enable_tiered_parallel_tcpstore`, which has no effect: torch's store serves all."""
    parser = run.get_args_parser()
    parser.add_argument("--enable_tiered_parallel_tcpstore", default="false")
    return parser.parse_args(args)


@record
def _main(args: Sequence[str] | None = None) -> None:
    run.run(parse_args(args))


if __name__ == "__main__":
    _main(sys.argv[1:])
