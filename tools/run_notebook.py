"""Runs the cells of a notebook of the documentation: `python -m tools.run_notebook FILE` writes what they print.

Cells are plain Python that prints; they run in one namespace, in the folder of the notebook.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def printed(notebook: dict[str, Any]) -> list[str]:
    """The text that each code cell prints. Raises whatever a cell raises."""
    namespace: dict[str, Any] = {"__name__": "notebook"}
    texts = []
    for number, cell in enumerate(_code_cells(notebook), 1):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
        texts.append(text.getvalue())
    return texts


def stored(notebook: dict[str, Any]) -> list[str]:
    """The text that the notebook has below each code cell."""
    return ["".join(line for output in cell["outputs"] for line in output["text"]) for cell in _code_cells(notebook)]


def with_outputs(notebook: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """The notebook with these texts below its code cells."""
    remaining = iter(texts)
    cells = [
        {**cell, "outputs": _output(next(remaining))} if cell["cell_type"] == "code" else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def _code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _output(text: str) -> list[dict[str, Any]]:
    return [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []


def main(path: Path) -> None:
    path = path.resolve()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    os.chdir(path.parent)
    text = json.dumps(with_outputs(notebook, printed(notebook)), indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
