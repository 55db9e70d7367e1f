"""Collects the records of codemods from the modules that have them, into gpu2npu/codemods/codemods.json.

`python -m tools.codemods` writes the file; `make docs` does so first.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
from msgspec.structs import replace

import gpu2npu.codemods
from gpu2npu.codemods.choice import Codemod

_FOLDER = Path(gpu2npu.codemods.__path__[0])
RECORDS = _FOLDER / "codemods.json"
_DEFINES = "\nCODEMOD = Codemod("


def main() -> None:
    """Write the records."""
    if not RECORDS.exists():
        RECORDS.write_text("[]", encoding="utf-8")
    RECORDS.write_bytes(collected())


def collected() -> bytes:
    """The records as the file has them, in the order of precedence."""
    records = sorted(_records(), key=lambda record: (record.precedence, record.name))
    return msgspec.json.format(msgspec.json.encode(records, order="deterministic"), indent=2) + b"\n"


def _records() -> Iterator[Codemod]:
    for path in sorted(_FOLDER.rglob("*.py")):
        if _DEFINES in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(_FOLDER).with_suffix("").parts)
            record = import_module(f"gpu2npu.codemods.{name}").CODEMOD
            yield replace(record, plan=f"{name}:{record.name}")


if __name__ == "__main__":
    main()
