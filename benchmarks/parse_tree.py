"""Parses every Python file below a folder with libcst, and prints the seconds: the yardstick of the benchmark.

Runs as a script in a fresh process. Reading the files counts, importing libcst does not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import libcst


def main(folder: str) -> None:
    start = time.perf_counter()
    for path in sorted(Path(folder).rglob("*.py")):
        libcst.parse_module(path.read_bytes())
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main(sys.argv[1])
