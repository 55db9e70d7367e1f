"""The dtypes that CANN's operators take, from the documents and sources of cann/ops-math and cann/ops-nn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

# The families of chips whose torch_npu calls these operators, as the documents mark them.
FAMILIES = {"910b": "910B", "A3": "910_93", "950": "950"}
DTYPES = {
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "BF16": "bfloat16",
    "FLOAT": "float32",
    "FLOAT32": "float32",
    "DOUBLE": "float64",
    "FLOAT64": "float64",
    **{
        name.upper(): name
        for name in ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool")
    },
    **{name.upper(): name for name in ("complex32", "complex64", "complex128")},
}
_TOKEN = re.compile(r"[A-Z][A-Z0-9_]*\d*")
_BLOCK = re.compile(r'<!-- npu="([^"]*)"[^>]*-->(.*?)<!-- end id', re.DOTALL)
_INPUTS = re.compile(r"参数说明(.*?)返回值", re.DOTALL)
_LIST = re.compile(r"initializer_list<[\w:]*DataType>\s+\w+\s*=?\s*\{([^}]*)\}")


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operator of CANN: its dtypes by family of chips, empty where none are stated."""

    name: str
    dtypes: dict[str, frozenset[str]]


def parameters(checkouts: list[Path]) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each function, in order, by its name ("aclnnCeil"), where its document has a table of them."""
    found = {}
    in_sources = _sources(checkouts)
    for page in (page for checkout in checkouts for page in sorted(checkout.rglob("docs/aclnn*.md"))):
        if "experimental" in page.parts:
            continue
        text = page.read_text("utf-8")
        section = _INPUTS.search(text)
        rows = _rows(section[1]) if section else []
        for name in page.stem.split("&"):
            known = in_sources.get(name, frozenset())
            made = tuple(_parameter(row, section[1] if section else "", known, dict(rows)) for row in rows)
            if made:
                found[name] = made
    return found


def _parameter(row: tuple[str, str], section: str, known: frozenset[str], rows: dict[str, str]) -> Parameter:
    name, cell = row
    same = re.search(r"(?:与|同)\s*`?(\w+)`?", cell)
    if same and same[1] in rows and not _TOKEN.search(cell):
        cell = rows[same[1]]
    dtypes = _dtypes(cell)
    if not dtypes:
        return Parameter(name, {})
    # What a list of the source has although the document leaves it out is taken.
    dtypes |= known
    by_family = dict.fromkeys(FAMILIES.values(), dtypes)
    for chips, text in _BLOCK.findall(section):
        lacking = re.search(r"不支持(?:数据类型)?([^。；\n]*)", text)
        named = [each for each in rows if re.search(rf"(?<![A-Za-z]){re.escape(each)}(?![A-Za-z])", text)]
        if lacking and (not named or name in named):
            for chip in chips.split(","):
                if (family := FAMILIES.get(chip.strip())) is not None:
                    by_family[family] = by_family[family] - _dtypes(lacking[1])
    return Parameter(name, by_family)


def _dtypes(cell: str) -> frozenset[str]:
    return frozenset(DTYPES[token] for token in _TOKEN.findall(cell) if token in DTYPES)


def _sources(checkouts: list[Path]) -> dict[str, frozenset[str]]:
    """The dtypes that any list of a function's source has."""
    found = {}
    for source in (source for checkout in checkouts for source in checkout.rglob("op_api/aclnn_*.cpp")):
        text = source.read_text("utf-8", errors="replace")
        named = frozenset(
            DTYPES[token.removeprefix("DT_")]
            for listed in _LIST.findall(text)
            for token in re.findall(r"DT_\w+", listed)
            if token.removeprefix("DT_") in DTYPES
        )
        for name in re.findall(r"aclnnStatus (aclnn\w+?)GetWorkspaceSize\(", text):
            found[name] = named
    return found


def _rows(section: str) -> list[tuple[str, str]]:
    """The name and the cell of dtypes of each input of the first table of a section, in order."""
    reader = _Tables()
    reader.feed(section)
    found = []
    for cells in reader.rows:
        if len(cells) >= 5 and cells[0] not in ("workspaceSize", "executor") and cells[1].strip() != "输入/输出":
            name = re.match(r"\w+", cells[0])
            if name and name[0] not in ("workspaceSize", "executor", "参数名"):
                found.append((name[0], cells[4]))
    return found


class _Tables(HTMLParser):
    """Reads the cells of the rows of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag == "td" and self.rows:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "td" and self._cell is not None:
            self.rows[-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def functions(op_plugin: Path) -> Iterator[tuple[str, str, tuple[str, ...], frozenset[str]]]:
    """Yield, for each operator that op-plugin hands to CANN as it is: its name ("ceil"), CANN's function, the arguments
    given in order, and those whose integers come back unchanged and never reach it."""
    text = (op_plugin / "op_plugin/config/op_plugin_functions.yaml").read_text("utf-8")
    for entry in re.split(r"^  - func: ", text, flags=re.MULTILINE)[1:]:
        name, schema = re.match(r"([\w.]+)\((.*)\) ->", entry.split("\n")[0]).groups()  # type: ignore[union-attr]
        executed = re.search(r"^      exec: (.*)$", entry, re.MULTILINE)
        if executed is None:
            continue
        function, *given = (each.strip() for each in executed[1].split(","))
        inputs = [part.split("=")[0].split()[-1] for part in schema.split(", ") if part != "*"]
        integral = re.search(r"integral_identity_tensor: (\w+)", entry)
        yield name.partition(".")[0], function, tuple(given or inputs), frozenset(integral.groups() if integral else ())
    sources = [
        each.read_text("utf-8", errors="replace") for each in sorted((op_plugin / "op_plugin/ops/opapi").glob("*.cpp"))
    ]
    for source in sources:
        yield from _by_hand(source)
    named = dict(re.findall(r"^  - func: (\w+)[\w.]*\((.*)\) ->", text, re.MULTILINE))
    for name, schema in named.items():
        function = "aclnn" + "".join(word.capitalize() for word in name.strip("_").split("_"))
        first = next((part.split()[-1] for part in schema.split(", ") if part.startswith("Tensor")), "")
        for source in sources:
            for call in re.findall(rf"EXEC_NPU_CMD\({function},\s*([^;]*)\);", source):
                passed = tuple(each.strip() for each in call.split(","))
                # The tensor is handed on as it is: nothing in the source converts it.
                if passed[0] == first and not re.search(rf"npu_dtype_cast\({first}|{first}\.to\(|{first} = ", source):
                    yield name, function, passed[:1], frozenset()


def _by_hand(text: str) -> Iterator[tuple[str, str, tuple[str, ...], frozenset[str]]]:
    """Yield those of a source written by hand, for functions that pass their parameters on unchanged."""
    for found in re.finditer(r"^at::Tensor&? (\w+)\(([^{;]*)\)\s*\{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        name, parameters, body = found.groups()
        calls = re.findall(r"EXEC_NPU_CMD\((aclnn\w+),\s*([^;]*)\);", body)
        if len(calls) != 1:
            continue
        inputs = re.findall(r"const at::Tensor\s*&\s*(\w+)", parameters)
        given = tuple(each.strip() for each in calls[0][1].split(","))
        if any(each in given for each in inputs) and not name.endswith("_out"):
            yield name, calls[0][0], given, frozenset()
