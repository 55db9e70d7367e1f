"""The tables of docs/ that are made from the data and modules they list, in both languages, between two comments.

python -m tools.doc_tables docs
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from inspect import cleandoc
from pathlib import Path

from gpu2npu import language
from gpu2npu.codemods.affinity.catalogue import DATA as AFFINITY
from gpu2npu.language import message, shown
from gpu2npu.rulebook.match import kinds
from gpu2npu.shapes.catalogue import DATA as SHAPES
from gpu2npu.support.chips import chip_rows

_ENDS = {"en": ".md", "zh": ".zh-CN.md"}


def main() -> None:
    """Renew the tables in the pages of a folder."""
    for name in language.LANGUAGES:
        for page in TABLES:
            file = Path(sys.argv[1]) / file_of(page, name)
            file.write_text(renewed(file.read_text(encoding="utf-8"), page, name), encoding="utf-8")


def file_of(page: str, name: str) -> str:
    """The name of a page in a language."""
    return f"{page}{_ENDS[name]}"


def renewed(text: str, page: str, name: str) -> str:
    """The text of a page in a language, with its table as it is to be."""
    before, start, rest = text.partition("<!-- make docs -->\n")
    _, end, after = rest.partition("<!-- end -->")
    with language.restored():
        language.use(name)
        head, *rows = TABLES[page]()
    lines = [head, ["---"] * len(head), *rows]
    return "".join((before, start, *(f"| {' | '.join(cells)} |\n" for cells in lines), end, after))


def _chips() -> Iterator[list[str]]:
    yield [
        shown(message("Chip")),
        shown(message("Memory")),
        shown(message("Cube cores")),
        shown(message("Vector cores")),
        "bfloat16",
        shown(message("float16 overflow")),
        shown(message("Source")),
    ]
    for row in chip_rows():
        bfloat16, overflow = (message("yes"), "inf") if row["a2_or_later"] else (message("no"), message("saturates"))
        cores = [str(row["cube_cores"]), str(row["vector_cores"] or "-")]
        yield [row["name"], f"{row['memory']} GiB", *cores, shown(bfloat16), shown(overflow), shown(row["source"])]


def _kinds() -> Iterator[list[str]]:
    yield ["`match`", shown(message("matches")), shown(message("all keys"))]
    for kind in kinds().values():
        keys = ", ".join(f"`{key}`" for key in kind.shape)
        yield [f"`{json.dumps(kind.starter['match'])}`", shown(described(kind)), keys]


def _affinity() -> Iterator[list[str]]:
    """The kinds of `--affinity`, safe ones first, and by how much their results may differ."""
    dtypes = ("float32", "float16", "bfloat16")
    yield [shown(message("kind")), shown(message("code")), shown(message("becomes")), *dtypes]
    rows = [row for file in (SHAPES, AFFINITY) for row in json.loads(file.read_text(encoding="utf-8"))]
    for row in sorted(rows, key=lambda row: not row.get("safe", True)):
        name = f"`{row['id']}`" if row.get("safe", True) else shown(f"`{row['id']}` (all)")
        yield [name, shown(row["spelled"]), shown(row["becomes"]), *(_power(row["rounding"][each]) for each in dtypes)]


def _power(number: float) -> str:
    """A small number as 8e-3 or 1.2e-2."""
    return f"{number:.1e}".replace(".0e", "e").replace("e-0", "e-") if number else "0"


def described(kind: type) -> str:
    """The docstring of a kind of rule, on one line."""
    return re.sub(r"\s+", " ", cleandoc(kind.__doc__ or ""))


# The pages by the rows of their table, the first of which are its heads.
TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "affinity": _affinity,
    "emulator": _chips,
    "writing-rules": _kinds,
}

if __name__ == "__main__":
    main()
