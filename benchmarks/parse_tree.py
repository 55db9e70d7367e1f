"""Parses every Python file below a folder with `ast` or `libcst`: the yardstick of the benchmark.

Runs as a script in a fresh process: `parse_tree.py ast|libcst FOLDER` prints the seconds of the processor. Reading the
files counts, importing libcst does not.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import time
from pathlib import Path

import libcst


def main(parser: str, folder: str) -> None:
    parse = ast.parse if parser == "ast" else libcst.parse_module
    start = time.process_time()
    for path in sorted(Path(folder).rglob("*.py")):
        with contextlib.suppress(SyntaxError, libcst.ParserSyntaxError):
            parse(path.read_bytes())
    print(time.process_time() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
