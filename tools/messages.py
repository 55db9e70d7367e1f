"""The messages that gpu2npu writes for people: collected from the code and the rule files by babel, for translation.

`python -m tools.messages` (`make translations`) brings the catalogues of gpu2npu/locale up to date and compiles them.
"""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

from gpu2npu.language import DOMAIN, LOCALE, PLACEHOLDER
from gpu2npu.records import FindingKind, Severity
from gpu2npu.report.webpage import MESSAGE
from gpu2npu.rulebook.match import kinds
from gpu2npu.support.chips import chip_rows
from gpu2npu.support.verdicts import VerdictKind
from gpu2npu.verify.comparing.diagnosis import FaultKind
from tools.doc_tables import described

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gpu2npu"
# Code for users' projects, the emulated NPU and the CPU in CUDA's place, which speak as the real ones do; and docs.
APART = (
    "gpu2npu/emulator/",
    "gpu2npu/codemods/templates/",
    "gpu2npu/verify/site/",
    "gpu2npu/rulebook/reference.py",
    "gpu2npu/analysis/dynamic_shape_runtime/",
    "gpu2npu/verify/recording/draws.py",
    *(f"gpu2npu/verify/reference/{name}" for name in ("operators.py", "random.py", "tensors.py", "frontend.py")),
)
_OF_COMMANDS = ("gpu2npu/emulator/launch.py", "gpu2npu/emulator/shapes/figures.py")
# Words that sentences have and that names, paths, code and patterns have not.
_PROSE = re.compile(
    r"\b(?:a|an|the|is|are|was|has|have|had|not|no|of|to|by|that|it|its|be|this|which|in|on|for|with|from|and|or|as|at|"
    r"only|does|do|cannot|can|what|where|all|each|than|there|needs|than|without|into|unless|instead)\b|"
    r"\.$|^(?:Error|Note|Next): "
)
_CODE = re.compile(
    r"^\s*(?:from|import|if|with) [\w{'].*(?:import ?|:|else.*)(?:#.*)?$|^\s*(?:\{\w+\})? ?as \S+$|"
    r"^\{.* for \w+, \w+ in |^\w+ = \w+\n|^-- |^from |^\.\w+\(|^if .* # |^Nearest |^Chain of "
)
_VERSION = re.compile(r"\w+ \{0\}")  # "torch {0}"
_LETTERS = re.compile(r"[A-Za-z]{2}")
_CALLED_WITH_CODE = {"compile", "sub", "search", "match", "fullmatch", "parse", "execute", "startswith", "endswith",
    "split", "removeprefix", "removesuffix", "getLogger", "find", "index", "parse_expression",
    "parse_statement", "parse_module", "namedtuple", "TypeVar", "_names"}  # fmt: skip
_COMMANDS = ("gpu2npu ", "git ", "cd ")
# The kinds of events that verify compares.
KINDS = (
    "input",
    "output",
    "gradient",
    "loss",
    "loss scale",
    "kept gradients",
    "rate",
    "parameter gradient",
    "parameter",
    "buffer",
    "initial weight",
    "weight",
    "collective",
    "draw",
    "mode",
    "checkpoint",
)
# The words of records that people are shown, and those of a cause with what it is about: "change torch<2".
OF_RECORDS = (
    *(each.value for words in (FaultKind, Severity, FindingKind, VerdictKind) for each in words),
    *(f"{word} {{0}}" for word in (*(each.value for each in Severity), "unknown")),
)
# What click says to users of a command.
OF_CLICK = (
    "deprecated",
    "Missing command.",
    "Options",
    "Commands",
    "Got unexpected extra argument ({args})",
    "Got unexpected extra arguments ({args})",
    "default:",
    "Takes {nargs} values but 1 was given.",
    "Takes {nargs} values but {len} were given.",
    "Show this message and exit.",
    "Did you mean {possibility}?",
    "(Did you mean one of: {possibilities}?)",
    "Missing argument",
    "Missing option",
    "Invalid value for {param_hint}: {message}",
    "Invalid value: {message}",
    "Try '{command} {option}' for help.",
    "No such option {name}.",
    "No such command {name}.",
    "Usage:",
    "required",
    "Option {name} does not take a value.",
    "Option {name} requires an argument.",
    "Option {name} requires {nargs} arguments.",
    "Argument {name} takes {nargs} values.",
    "{value} is not {choice}.",
    "{value} is not one of {choices}.",
    "{value} is not in the range {range}.",
    "{value} is not a valid boolean. Recognized values: {states}",
    "{value} is not a valid {number_type}.",
    "integer",
    "integer range",
    "float",
    "float range",
    "{name} {filename} is a file.",
    "{name} {filename} is a directory.",
    "{name} {filename} is not readable.",
    "{name} {filename} is not writable.",
    "{name} {filename} is not executable.",
    "{name} {filename} does not exist.",
)
# What the system says of files and connections, the emulated NPU of an option, and Python's tomllib of a text.
_OF_SYSTEM = tuple(
    os.strerror(getattr(errno, name))
    for name in (
        *("ENOENT", "EACCES", "EPERM", "EISDIR", "ENOTDIR", "ENOSPC", "EROFS", "ENAMETOOLONG", "ELOOP", "EEXIST"),
        *("EINVAL", "EMFILE", "EIO", "ENOTEMPTY", "ECONNREFUSED"),
    )
)
_OF_OPTIONS = ("{0} is not a chip that the emulator knows: choose one of {1}",)
_OF_TOML = (
    "{0} (at line {1}, column {2})",
    "{0} (at end of document)",
    "Invalid value",
    "Invalid statement",
    "Invalid initial character for a key part",
    "Expected '=' after a key in a key/value pair",
    "Expected newline or end of document after a statement",
    "Expected ']' at the end of a table declaration",
    "Cannot overwrite a value",
    "Unterminated string",
    "Unclosed array",
    "Unclosed inline table",
)
# Tables of facts, and the keys of what they and rule files say to people.
_TABLES = (
    "support/data/behaviour/*.json",
    "support/data/known_facts.json",
    "analysis/affinity/operators.json",
    "codemods/affinity/kinds.json",
    "analysis/affinity/settings.json",
    "shapes/shapes.json",
)
_FOR_PEOPLE = ("why", "message", "advice", "instead", "evidence", "statement", "certain", "spelled", "becomes")
# What many rows of the table of behaviour say, with a placeholder for the operator, its arguments and their values.
_OF_ROWS = (
    "aclnn{0} takes {1}",
    "{0} of npu_{1} is {2}",
    "{0} of npu_{1} has {2} dimensions",
    "{0} of npu_{1} has 1 dimension",
    "change what {0} is given",
    "convert {0} to {1}",
    "reshape {0}",
    "{0} has the dtype of {1}",
    "{0} have the dtype of {1}",
    "{0} has one dimension",
    "{0} have one dtype",
    "{0} have one shape",
    "there is one {0} for each row",
    "the head size is at most {0}",
    "sparse_mode is 0 to {0}",
)
_OPERATOR = re.compile(r"^(?:npu_\w+|scatter_update): ")
_LISTED = re.compile(r"\w+(?:, \w+)*|\d+ to \d+")  # "int8, int32", "2 to 8"
_QUOTED = re.compile(r"`[^`]*`")
# Functions that take a message, with its place among the arguments; the last three make a line of the doctor.
_MARKERS = {"shown": 0, "sentence": 0, "message": 0, "say": 0, "ok": 1, "warning": 1, "error": 1}


def messages_of_python(source: str, path: str = "") -> Iterator[tuple[int, str]]:
    """The messages in a module, each with its line: texts that are sentences or parts of them, the help of commands,
    and whatever is given to `shown`. Values become placeholders: "{0} has no {1}"."""
    tree = ast.parse(source)
    skipped = set(_not_messages(tree))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Call) and _name(node.func) == "counted":
            yield from _numbers(node)
        elif isinstance(node, ast.Call) and len(node.args) > (at := _MARKERS.get(_name(node.func), len(node.args))):
            argument = node.args[at]
            text = template_of(argument) if isinstance(argument, (ast.Constant, ast.JoinedStr)) else None
            if text and _name(node.func) == "sentence":
                text = numbered(text)
            if text and _LETTERS.search(PLACEHOLDER.sub("", text)) and not _VERSION.fullmatch(text):
                yield node.lineno, text
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            stated = template_of(node)
            if stated is not None and "\b\n" in stated:
                yield from ((node.lineno, part) for part in paragraphs(stated) if " " in part or part.endswith(":"))
            elif is_prose(stated or ""):
                yield node.lineno, stated or ""
        elif isinstance(node, ast.FunctionDef) and any(_is_command(each) for each in node.decorator_list):
            yield from ((node.lineno, paragraph) for paragraph in paragraphs(ast.get_docstring(node) or ""))


def _numbers(node: ast.Call) -> Iterator[tuple[int, str]]:
    words = [str(each.value) for each in node.args[1:] if isinstance(each, ast.Constant)]
    for word in words if len(words) > 1 else [*words, *(f"{word}s" for word in words)]:
        yield node.lineno, f"{{0}} {word}"


def paragraphs(text: str) -> list[str]:
    """The pieces of a help text that are translated one by one: each paragraph as one line, as click wraps it; of those
    after \\b, which keep their lines, the last column of each line."""
    found = []
    for part in text.strip().split("\n\n"):
        lines = part.strip("\n").split("\n")
        if lines[0].strip() == "\b":
            found += [re.split(r"\s{2,}", line.strip())[-1] for line in lines[1:]]
        else:
            found.append(" ".join(part.split()))
    return [part for part in found if not part.startswith(_COMMANDS)]


def numbered(text: str) -> str:
    """The text with the number of each value in its pair of braces."""
    numbers = count()
    return re.sub(r"\{\}", lambda _: f"{{{next(numbers)}}}", text)


def template_of(node: ast.Constant | ast.JoinedStr) -> str | None:
    """The text with a numbered placeholder for each value; None for what is not text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    parts, number = [], 0
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        else:
            parts.append(f"{{{number}}}")
            number += 1
    return "".join(parts)


def is_prose(text: str) -> bool:
    """Return whether a text is for people: several words, one of them of those that only sentences have."""
    fixed = re.sub(r"\{\w*\}", "", text)
    if _CODE.search(text) or " " not in text.strip() or not _LETTERS.search(fixed) or not _PROSE.search(fixed):
        return False
    return not _is_code(text)


def _is_code(text: str) -> bool:
    try:
        ast.parse(re.sub(r"\{\w*\}", "value", text))
    except (SyntaxError, ValueError):
        return "\n" in text and ("import " in text or "def " in text)
    return True


def _not_messages(tree: ast.Module) -> Iterator[int]:
    """The ids of docstrings, of the pieces of f-strings, and of the texts that functions for code and patterns take."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield from (id(each.value) for each in node.body if isinstance(each, ast.Expr))
        elif isinstance(node, ast.JoinedStr):
            for value in node.values:
                yield id(value)
                if isinstance(value, ast.FormattedValue) and value.format_spec is not None:
                    yield id(value.format_spec)
                    yield from (id(each) for each in ast.walk(value.format_spec))
        elif isinstance(node, ast.Call) and _name(node.func) == "sentence":
            yield from map(id, node.args[:1])  # numbered, it is one
        elif isinstance(node, ast.Call) and _name(node.func) in _CALLED_WITH_CODE:
            yield from (id(each) for argument in node.args for each in ast.walk(argument))
            if isinstance(node.func, ast.Attribute):
                yield id(node.func.value)  # "cuda to cpu".split()
        elif isinstance(node, ast.Compare):
            yield from (id(each) for each in ast.walk(node) if isinstance(each, ast.Constant))


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _is_command(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and _name(decorator.func) in ("command", "group")


def messages_of_table(document: Any) -> Iterator[str]:
    """Collect what a rule file or a table of facts says to people: the why, the messages, the evidence and advice."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key in _FOR_PEOPLE and isinstance(value, str):
                yield from (value,) if _QUOTED.sub("", value) else ()  # code alone is in no language
            elif key not in ("examples", "match"):
                yield from messages_of_table(value)
    elif isinstance(document, list):
        for each in document:
            yield from messages_of_table(each)


def _messages_of_schema(document: Any) -> Iterator[str]:
    """Collect what the schema says of texts that have to match a pattern."""
    if isinstance(document, dict) and isinstance(document.get("pattern"), str) and "description" in document:
        yield document["description"].rstrip(".")
    for each in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from _messages_of_schema(each)


def messages_of_row(text: str) -> Iterator[str]:
    """Collect what a row of the table of behaviour says: hundreds of rows say the same of other operators."""
    text = _OPERATOR.sub("", text)
    for shape in _OF_ROWS:
        parts = PLACEHOLDER.split(shape)
        pattern = "".join(re.escape(part) if at % 2 == 0 else "(.+?)" for at, part in enumerate(parts))
        if (match := re.fullmatch(pattern, text)) and ", or " not in text:
            yield shape
            for value in match.groups():
                if " " in value and not _LISTED.fullmatch(value):
                    yield from messages_of_row(value)
            return
    if text:
        yield text


def all_messages() -> dict[str, list[tuple[str, int]]]:
    """Each message with the places that write it."""
    found: dict[str, list[tuple[str, int]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(APART) or name in _OF_COMMANDS:
            for line, text in messages_of_python(path.read_text(encoding="utf-8"), name):
                found.setdefault(text, []).append((name, line))
    for page in (ROOT / "tools" / "cli_pages.py", ROOT / "tools" / "doc_tables.py"):
        for line, text in messages_of_python(page.read_text(encoding="utf-8")):
            found.setdefault(text, []).append((page.name, line))
    for kind in kinds().values():
        found.setdefault(described(kind), []).append((f"kinds: {kind.key}", 1))
    for path in sorted(each for pattern in _TABLES for each in PACKAGE.glob(pattern)):
        for text in messages_of_table(json.loads(path.read_text(encoding="utf-8"))):
            for part in messages_of_row(text):
                found.setdefault(part, []).append((path.name, 1))
    for row in chip_rows():
        for source in (row["source"], *(figure[1] for figure in row.values() if isinstance(figure, list))):
            found.setdefault(source, []).append(("chips.json", 1))
    for path in sorted((PACKAGE / "report" / "templates").glob("*.*")):
        if path.suffix in (".html", ".js"):
            for text in MESSAGE.findall(path.read_text(encoding="utf-8")):
                found.setdefault(numbered(text), []).append((path.name, 1))
    for path in sorted((ROOT / "rules").glob("*.json")):
        collected = _messages_of_schema if path.name == "rule.schema.json" else messages_of_table
        for text in collected(json.loads(path.read_text(encoding="utf-8"))):
            found.setdefault(text, []).append((f"rules/{path.name}", 1))
    for text in (*OF_CLICK, *KINDS, *OF_RECORDS, *_OF_SYSTEM, *_OF_OPTIONS, *_OF_TOML):
        found.setdefault(text, []).append(("tools/messages.py", 1))
    return found


def update(name: str = "zh") -> list[str]:
    """Bring the catalogue of a language up to date and compile it. Returns the messages without a translation."""
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po, write_po

    folder = LOCALE / name / "LC_MESSAGES"
    file = folder / f"{DOMAIN}.po"
    with file.open("rb") as stream:
        before = read_po(stream, locale=name)
    dated = datetime(
        2026, 11, 28, tzinfo=timezone.utc
    )  # a date of its own for each update would be a change of nothing
    catalogue = Catalog(
        locale=name, domain=DOMAIN, project="gpu2npu", fuzzy=False, creation_date=dated, revision_date=dated
    )
    for text in all_messages():
        found = before.get(text)
        catalogue.add(text, found.string if found is not None and not found.fuzzy else "")
    with file.open("wb") as stream:
        write_po(stream, catalogue, width=0, sort_output=True, omit_header=True, ignore_obsolete=True)
    with (folder / f"{DOMAIN}.mo").open("wb") as stream:
        write_mo(stream, catalogue)
    return [str(message.id) for message in catalogue if message.id and not message.string]


def main() -> int:
    """Update every catalogue; the exit code is 1 where a message has no translation yet."""
    missing = update()
    for text in missing:
        print(f"no translation: {text!r}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
