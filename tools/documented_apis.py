"""`python -m tools.documented_apis LIST [VERSION]`: what `check` says against torch_npu's own documentation.

LIST is a folder of that documentation's pages for one release of PyTorch, as Ascend/pytorch has them
(docs/zh/api/native_api/pytorch_2-13-0), or a table made of them: TABLE.csv has a row for each name of PyTorch that is
listed: `name`, `supported` (yes or no), `may_fall_back`, `limits` in the documentation's words, and
`chips_supported`. `--encode` in place of VERSION makes gpu2npu/support/data/documented.json of a table; `--add VERSION`
adds what pages say otherwise for a later release.

Without, each name is written as a use of it, a line each, and the file is checked as a user's would be. Printed are
the two counts that matter, and the names: documented as unsupported and silent, documented as supported and reported
as unsupported or unknown.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.records import FindingKind
from gpu2npu.support.facts import DOCUMENTED
from gpu2npu.support.facts import documented as known_of

VERSION = "2.7.1"
_HEAD = (
    "import torch",
    "import torch.distributed.fsdp",
    "tensor = torch.ones(2).npu()",
    "module = torch.nn.Linear(1, 1)",
)


SOURCE = "https://github.com/Ascend/pytorch/tree/master/docs/en/native_apis/pytorch_2-7-1"
# The dtypes of one argument, in the documentation's words: `input` takes only fp16, fp32.
_DTYPE = r"(?:bf16|fp16|fp32|fp64|uint8|int8|int16|int32|int64|bool|complex32|complex64|complex128|double)"
_COMMA = "\uff0c"
_DTYPES = re.compile(rf"`\w+`仅支持({_DTYPE}(?:{_COMMA}{_DTYPE})*)")
_SPELT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "double": "float64"}
_CHIPS = {"Atlas 训练系列产品": "910A", "910B/A2": "910B", "A3": "910_93", "950": "950"}


def encode(table: Path) -> dict[str, Any]:
    """The content of documented.json: names that have all else in common are in one group, by their owners.

    Of a name's limits the dtypes of its first tensor are taken; what is said otherwise is left to limits.json.
    """
    groups: dict[tuple[Any, ...], dict[str, list[str]]] = {}
    with table.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            parts = row["limits"].removeprefix("- ").split(" - ")
            listed = next(filter(None, (_DTYPES.fullmatch(part.strip()) for part in parts)), None)
            dtypes = tuple(_SPELT.get(each, each) for each in listed[1].split(_COMMA)) if listed is not None else ()
            chips = tuple(chip for words, chip in _CHIPS.items() if words in row["chips_supported"])
            owner, _, member = row["name"].rpartition(".")
            key = (row["supported"] == "yes", chips, dtypes, row["may_fall_back"] == "yes")
            groups.setdefault(key, {}).setdefault(owner, []).append(member)
    encoded = [_group(key, groups[key]) for key in sorted(groups)]
    return {"source": SOURCE, "release": "2.7.0", "groups": encoded, "later": {}}


def _group(key: tuple[Any, ...], owners: Mapping[str, list[str]]) -> dict[str, Any]:
    supported, chips, dtypes, falls_back = key
    names = {owner: " ".join(sorted(owners[owner])) for owner in sorted(owners)}
    limits = {"chips": list(chips), "dtypes": list(dtypes), "falls_back": falls_back}
    return {"supported": supported, **{name: value for name, value in limits.items() if value}, "names": names}


def added(pages: Path, release: str) -> list[dict[str, Any]]:
    """The names of which pages for a later release say something else than documented.json."""
    groups: dict[bool, dict[str, list[str]]] = {}
    for name, supported in of_pages(pages).items():
        known = known_of(name, release)
        owner, _, member = name.rpartition(".")
        if not member.startswith("_") and (known is None or known.supported is not supported):
            groups.setdefault(supported, {}).setdefault(owner, []).append(member)
    return [_group((supported, (), (), False), groups[supported]) for supported in sorted(groups)]


def use_of(name: str) -> str:
    """A line of a program that uses a documented name: a method of a tensor or a module, or else a call of it."""
    owner, _, member = name.rpartition(".")
    if owner == "torch.Tensor":
        return f"tensor.{member}()"
    if owner == "torch.nn.Module":
        return f"module.{member}()"
    return f"{name}()"


_HEADING = re.compile(r"(#+) (?:<code>.*</code> )?([\w.]+)(?:\(.*)?|> <font size=\"3\">(\w+).*")
_MARKED = re.compile(r"\| *<term>.*</term> *\| *(\S+)")
_YES = ("\u2714", "&#10004;")


def of_pages(pages: Path) -> dict[str, bool]:
    """Each name that the pages list, and whether one family of chips is marked as having it."""
    found: dict[str, bool] = {}
    for page in sorted(pages.glob("*.md")):
        owner = name = ""
        for line in page.read_text(encoding="utf-8").replace("\\_", "_").splitlines():
            if heading := _HEADING.match(line):
                owner = heading[2] if heading[1] else owner
                name = owner if heading[1] else f"{owner}.{heading[3]}"
            elif (mark := _MARKED.match(line)) and name.startswith("torch."):
                found[name] = found.get(name, False) or mark[1] in _YES
    return found


def documented(table: Path) -> dict[str, bool]:
    """Each name of the table or the pages, and whether it is documented as supported."""
    if table.is_dir():
        return of_pages(table)
    with table.open(encoding="utf-8", newline="") as stream:
        return {row["name"]: row["supported"] == "yes" for row in csv.DictReader(stream)}


def kinds_of(names: Sequence[str], version: str) -> dict[str, set[FindingKind]]:
    """The kinds of the findings that `check` has for a use of each name."""
    found: dict[str, set[FindingKind]] = {name: set() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "uses.py").write_text("\n".join((*_HEAD, *map(use_of, names), "")), encoding="utf-8")
        result, _ = check_project((Path(folder),), Settings(version, jobs=1))
    for file in result.files:
        for each in file.findings:
            index = each.finding.span.start_line - 1 - len(_HEAD)
            if 0 <= index < len(names):
                found[names[index]].add(each.finding.kind)
    return found


def disagreements(
    supported: Mapping[str, bool], kinds: Mapping[str, set[FindingKind]]
) -> tuple[list[str], list[str], list[str]]:
    """The names documented as unsupported that are not reported; documented as supported and reported as
    unsupported; and as unknown."""
    silent = [name for name, good in supported.items() if not good and not kinds[name]]
    refused = [name for name, good in supported.items() if good and FindingKind.UNSUPPORTED in kinds[name]]
    unknown = [name for name, good in supported.items() if good and FindingKind.UNKNOWN in kinds[name]]
    return silent, refused, unknown


def main(arguments: list[str]) -> int:
    if not 1 <= len(arguments) <= 2 + ("--add" in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    content = {}
    if arguments[1:] == ["--encode"]:
        content = encode(Path(arguments[0]))
    elif arguments[1:2] == ["--add"]:
        content = json.loads(DOCUMENTED.read_text(encoding="utf-8"))
        content["later"][arguments[2]] = added(Path(arguments[0]), arguments[2])
    if content:
        DOCUMENTED.write_text(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
        return 0
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
