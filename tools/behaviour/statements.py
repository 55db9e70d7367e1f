"""The limits that documents state, one a line of their pages, and a draw of some of them by a seed.

    python -m tools.behaviour.statements PYTORCH OP_PLUGIN > tools/behaviour/drawn.csv

PYTORCH is a checkout of Ascend/pytorch, OP_PLUGIN one of Ascend/op-plugin. A line is named by its page, the API, and
its number among the statements of that API; its wording stays there.
"""

from __future__ import annotations

import csv
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SEED = 20261128
EACH = 20  # drawn of each kind
_NATIVE = "docs/zh/api/native_api/pytorch_2-7-1"
_CUSTOM = "docs/zh/custom_APIs/torch_npu"
_API = re.compile(r"^### (?:class )?(torch[\w.]*)", re.MULTILINE)
_LIMITS = re.compile(r"\*\*限制与说明\*\*：?(.*?)</div>", re.DOTALL)
_BULLET = re.compile(r"^\s*- (.+)$", re.MULTILINE)
_SECTION = re.compile(r"^## (参数说明|约束说明)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# Statements without a limit: the CPU may compute it, named tensors work, graphs work, inference and training.
_NO_LIMIT = re.compile(r"可能回退|支持Named|支持图模式|该接口支持|产品$|产品</term>：?$|无$|^当前|参见|请参考")
# Of the chips whose first release is later, and lists that leave out next to nothing.
_ELSEWHERE = re.compile(r"^[^：]*950[^：]*：|^针对<term>Ascend 950|语法分隔符")
_MOST_DTYPES = 9
_DTYPES = re.compile(r"float|fp16|fp32|bf16|int\d|bool|complex|uint", re.IGNORECASE)
_SAYS_LIMIT = re.compile(r"仅|不支持|必须|需|只|限|维|范围|支持|大于|小于|相同|一致|不能|等于")


@dataclass(frozen=True)
class Statement:
    """One line of a page that states a limit: `number` counts those of the API, from 1."""

    kind: str
    page: str
    api: str
    number: int
    text: str


def statements(pytorch: Path, op_plugin: Path) -> Iterator[Statement]:
    """Yield the statements of the pages for PyTorch 2.7.1, and of those of the operators that the emulator computes:
    it refuses all others."""
    computed = _computed()
    for page in sorted((pytorch / _NATIVE).glob("*.md")):
        text = page.read_text("utf-8")
        parts = _API.split(text)
        for api, body in zip(parts[1::2], parts[2::2], strict=True):
            found = _LIMITS.search(body)
            lines = _BULLET.findall(found[1]) or [found[1].strip()] if found else []
            yield from _numbered("native", page.name, api, [line for line in lines if line])
    for page in sorted((op_plugin / _CUSTOM).glob("*.md")):
        text = page.read_text("utf-8")
        api = page.stem.split("torch_npu-")[-1].replace("\\", "")
        if f"npu::{api}" not in computed:
            continue
        lines = [line for _, body in _SECTION.findall(text) for line in _BULLET.findall(body)]
        yield from _numbered("operator", page.name, f"torch_npu.{api}", lines)


def _numbered(kind: str, page: str, api: str, lines: list[str]) -> Iterator[Statement]:
    for number, text in enumerate(lines, 1):
        if not _SAYS_LIMIT.search(text) or _NO_LIMIT.search(text) or _ELSEWHERE.search(text):
            continue
        if len(_DTYPES.findall(text)) <= _MOST_DTYPES:
            yield Statement(f"{kind} {'dtypes' if _DTYPES.search(text) else 'other'}", page, api, number, text)


def _computed() -> frozenset[str]:
    from gpu2npu.emulator import kernels, npu_ops

    npu_ops.load()
    return frozenset(name.partition(".")[0] for name in kernels.load())


def drawn(found: list[Statement]) -> Iterator[Statement]:
    """Yield EACH statements of each kind, by SEED."""
    generator = random.Random(SEED)
    for kind in sorted({each.kind for each in found}):
        yield from sorted(
            generator.sample([each for each in found if each.kind == kind], EACH),
            key=lambda each: (each.api, each.number),
        )


def main() -> None:
    """Print the draw as CSV, or with --texts the statements themselves."""
    found = list(statements(Path(sys.argv[1]), Path(sys.argv[2])))
    writer = csv.writer(sys.stdout)
    writer.writerow(("kind", "page", "api", "number"))
    for each in drawn(found):
        writer.writerow((each.kind, each.page, each.api, each.number, *([each.text] if "--texts" in sys.argv else [])))


if __name__ == "__main__":
    main()
