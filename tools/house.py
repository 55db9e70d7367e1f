"""The rules of the house that no other linter has: sizes of the package, of folders and modules, names, and words of
docs.

`python -m tools.house` prints each violation as FILE:LINE: SENTENCE, and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_MODULES = 22
MOST_LINES = 400
MOST_TEST_LINES = 450
# Lines and modules of the package, and of the migrator: the package without the emulator and verify.
SIZES = ROOT / "tools" / "size_budget.json"
_NO_MIGRATOR = ("emulator", "verify")
# Words that say nothing to a reader who does not know this code, with what to write instead.
POOR_WORDS = {
    "around": "enclosing, or what is there",
    "asked": "requested, tested, or who asks what",
    "asking": "what tests or requests it",
    "asks": "tests, or requests",
    "blame": "the error or the cause",
    "deeds": "actions",
    "doubt": "uncertain, or a finding",
    "gathered": "collected, or what was collected",
    "helper": "what it does",
    "helpers": "what they do",
    "kept": "stored, retained, or what is left",
    "manager": "what it does",
    "meant": "meaning, or what it is",
    "mine": "own",
    "ordinal": "number, or device_index",
    "said": "reported, or the message",
    "tell": "report",
    "thing": "what it is",
    "told": "reported",
    "utils": "what is in it",
    "wish": "request, choice, settings",
}
# The same for names in the package; in those of tests, which are sentences, they are adverbs.
_POOR_ADVERBS = {
    "alone": "only, or single",
    "beside": "sibling, anchor, or what it is",
    "counterparts": "the other half of what",
    "elsewhere": "where: another file, device or program",
    "settled": "cached, handled or checked",
    "unsettled": "unresolved or unhandled",
}
# Expressions to avoid in docstrings and pages, with what to write instead. The other words above are common in prose
# ("asked for", "kept up to date"), or torch's own ("gathered").
_POOR_PROSE = {
    **{word: POOR_WORDS[word] for word in ("blame", "deeds", "doubt", "told", "wish")},
    "tells?": POOR_WORDS["tell"],
    r"(?<!there) (is|are) no (?!longer|more|such)[a-z]+": "is not a, or are not",
    "of which (there (is|are) (no|none)|nothing)": "which has no, or that is not known",
}
_POOR = {re.compile(rf"\b{text}\b".replace(" ", r"\s+"), re.IGNORECASE): advice for text, advice in _POOR_PROSE.items()}
_CODE = re.compile(r"^( *)```.*?^\1```|`[^`]+`|<!--.*?-->", re.DOTALL | re.MULTILINE)
_OPENING = re.compile(r"(Whether|What|How|Where|Which|Who|Whose|Those|That|Of|The one)\b")
_PARTS = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")
# What torch itself calls so: the emulator and the reference device each play it.
_OF_TORCH = frozenset({"Event", "Generator", "Stream", "StreamContext", "device", "device_of"})
_FOREIGN = ("emulator/site/", "codemods/templates/", "analysis/dynamic_shape_runtime/")  # names of others' APIs
_OUTSIDE_THE_PACKAGE = ("tests", "tools", "benchmarks", "clients", "browser")


def main() -> int:
    """Print the violations in the package, the Python code beside it, and the pages, and return the exit code."""
    found = [
        *violations(ROOT / "gpu2npu"),
        *grown(ROOT / "gpu2npu", SIZES),
        *_long(sorted((ROOT / "tests").rglob("*.py")), MOST_TEST_LINES),
    ]
    for file in (path for folder in _OUTSIDE_THE_PACKAGE for path in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        found += (f"{file}:{line}: {sentence}" for line, sentence in (*_names(file.stem, tree), *_docstrings(tree)))
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        if page.name != "CHANGELOG.md":
            found += (f"{page}:{line}: {sentence}" for line, sentence in prose(page.read_text("utf-8")))
    found.sort()
    for violation in found:
        print(violation)
    return 1 if found else 0


def violations(package: Path) -> Iterator[str]:
    """Yield the violations in a package: a line of text for each."""
    files = sorted(package.rglob("*.py"))
    yield from _full_folders(files)
    yield from _long(files, MOST_LINES)
    classes: dict[str, Path] = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        yield from (f"{file}:{line}: {sentence}" for line, sentence in _docstrings(tree))
        if not file.relative_to(package).as_posix().startswith(_FOREIGN):
            names = _names(file.stem, tree, POOR_WORDS | _POOR_ADVERBS)
            yield from (f"{file}:{line}: {sentence}" for line, sentence in names)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in _OF_TORCH:
                    other = classes.setdefault(node.name, file)
                    if other != file:
                        yield f"{file}:{node.lineno}: another class '{node.name}' is in {other}; a name has one meaning"


def grown(package: Path, budget: Path) -> Iterator[str]:
    """Yield a line for each number of the size budget that the package exceeds."""
    sizes = dict.fromkeys(("migrator lines", "migrator modules", "package lines", "package modules"), 0)
    for file in package.rglob("*.py"):
        is_migrator = file.relative_to(package).parts[0] not in _NO_MIGRATOR
        for part in ("package", "migrator") if is_migrator else ("package",):
            sizes[f"{part} lines"] += file.read_text(encoding="utf-8").count("\n")
            sizes[f"{part} modules"] += 1
    for name, most in json.loads(budget.read_text(encoding="utf-8")).items():
        if sizes[name] > most:
            yield f"{budget}:1: {sizes[name]} {name}, the budget has {most}: shrink, or raise it and say why"


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line, from 1, and the advice for each poor expression in a text in Markdown, outside of its code."""
    text = _CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
    for pattern, advice in _POOR.items():
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.end()) + 1, f"'{' '.join(match[0].split())}' in prose: write {advice}"


def _long(files: list[Path], most: int) -> Iterator[str]:
    for file in files:
        lines = file.read_text(encoding="utf-8").count("\n")
        if lines > most:
            yield f"{file}:{lines}: a module here has at most {most} lines"


def _full_folders(files: list[Path]) -> Iterator[str]:
    counts = Counter(file.parent for file in files if file.name != "__init__.py")
    for folder, count in counts.items():
        if count > MOST_MODULES:
            yield f"{folder}:1: {count} modules; a folder has at most {MOST_MODULES}: make packages of them"


def _names(module: str, tree: ast.Module, poor: dict[str, str] = POOR_WORDS) -> Iterator[tuple[int, str]]:
    """The line and the advice for each definition whose name has a poor word."""
    for line, name in ((1, module), *_defined(tree)):
        for word in _PARTS.split(name):
            if word.lower() in poor:
                yield line, f"'{name}': write {poor[word.lower()]} for '{word}'"


def _defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            line = getattr(node, "lineno", 1)
            if text is not None and (opening := _OPENING.match(text)):
                yield line, f"a docstring begins with a verb or a noun phrase, not with '{opening[0]}'"
            yield from ((line, sentence) for _, sentence in prose(text or ""))


if __name__ == "__main__":
    sys.exit(main())
