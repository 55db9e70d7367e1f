"""`python -m tools.documented_apis TABLE.csv [VERSION]`: what `check` says against torch_npu's own documentation.

TABLE.csv has a row for each name of PyTorch that torch_npu's documentation lists: `name`, and `supported` (yes or no).
Each name is written as a use of it, a line each, and the file is checked as a user's would be. Printed are the two
counts that matter, and the names: documented as unsupported and silent, documented as supported and reported as
unsupported or unknown.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu2npu.project.check import check_project
from gpu2npu.project.check_request import CheckRequest
from gpu2npu.records import FindingKind

VERSION = "2.7.1"
_HEAD = ("import torch", "import torch.distributed.fsdp", "tensor = torch.ones(2)", "module = torch.nn.Linear(1, 1)")


def use_of(name: str) -> str:
    """A line of a program that uses a documented name: a method of a tensor or a module, or else a call of it."""
    owner, _, member = name.rpartition(".")
    if owner == "torch.Tensor":
        return f"tensor.{member}()"
    if owner == "torch.nn.Module":
        return f"module.{member}()"
    return f"{name}()"


def documented(table: Path) -> dict[str, bool]:
    """Each name of the table, and whether it is documented as supported."""
    with table.open(encoding="utf-8", newline="") as stream:
        return {row["name"]: row["supported"] == "yes" for row in csv.DictReader(stream)}


def kinds_of(names: Sequence[str], version: str) -> dict[str, set[FindingKind]]:
    """The kinds of the findings that `check` has for a use of each name."""
    found: dict[str, set[FindingKind]] = {name: set() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "uses.py").write_text("\n".join((*_HEAD, *map(use_of, names), "")), encoding="utf-8")
        result, _ = check_project(CheckRequest((Path(folder),), version, jobs=1))
    for file in result.files:
        for each in file.findings:
            index = each.finding.span.start_line - 1 - len(_HEAD)
            if 0 <= index < len(names):
                found[names[index]].add(each.finding.kind)
    return found


def disagreements(
    supported: Mapping[str, bool], kinds: Mapping[str, set[FindingKind]]
) -> tuple[list[str], list[str], list[str]]:
    """The names documented as unsupported of which nothing is said; documented as supported and reported as
    unsupported; and as unknown."""
    silent = [name for name, good in supported.items() if not good and not kinds[name]]
    refused = [name for name, good in supported.items() if good and FindingKind.UNSUPPORTED in kinds[name]]
    unknown = [name for name, good in supported.items() if good and FindingKind.UNKNOWN in kinds[name]]
    return silent, refused, unknown


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    supported = documented(Path(arguments[0]))
    version = arguments[1] if len(arguments) > 1 else VERSION
    silent, refused, unknown = disagreements(supported, kinds_of(list(supported), version))
    yes = sum(supported.values())
    print(f"{len(supported)} names; torch_npu for {version}")
    print(f"documented as unsupported: {len(supported) - yes}, of them silent: {len(silent)}")
    print(f"documented as supported: {yes}, of them reported as unsupported: {len(refused)}, unknown: {len(unknown)}")
    for title, names in (("silent", silent), ("unsupported", refused), ("unknown", unknown)):
        for name in names:
            print(f"{title}\t{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
