"""Comments that silence today's findings, written into the project itself, as ruff's `--add-noqa` does."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from gpu2npu.python.text.source import declared_encoding
from gpu2npu.report.check.result import CheckResult

_COMMENT = re.compile(r"#\s*gpu2npu:\s*skip=([\w-]+(?:\s*,\s*[\w-]+)*)")


def add_skips(result: CheckResult) -> tuple[int, list[str]]:
    """Write `# gpu2npu: skip=RULE` at the lines of Python with findings. Returns the number of lines, and the places,
    as "path:line", that cannot have one: within a string or before a backslash, or in another kind of file."""
    wanted: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file, found in result.reported():
        wanted[file.path][found.finding.span.start_line].add(found.finding.rule)
    written, left = 0, []
    for path, lines in wanted.items():
        done = _add(Path(result.root) / path, lines) if path.endswith(".py") else ()
        written += len(done)
        left += [f"{path}:{line}" for line in sorted(set(lines) - set(done))]
    return written, left


def _add(file: Path, wanted: dict[int, set[str]]) -> list[int]:
    """The lines, from 1, that got a comment; the program stays the same."""
    source = file.read_bytes()
    encoding = declared_encoding(source)
    text = source.decode(encoding)
    tree = _tree(text)
    done = []
    for line in sorted(wanted):
        changed = _with_comment(text, line, wanted[line])
        if tree is not None and _tree(changed) == tree:
            text = changed
            done.append(line)
    if done:
        file.write_bytes(text.encode(encoding))
    return done


def _with_comment(text: str, line: int, rules: Iterable[str]) -> str:
    lines = text.splitlines(keepends=True)
    code = lines[line - 1].rstrip("\r\n")
    end = lines[line - 1][len(code) :]
    stated = _COMMENT.search(code)
    if stated:
        listed = ",".join(sorted({*re.split(r"\s*,\s*", stated[1]), *rules}))
        code = f"{code[: stated.start(1)]}{listed}{code[stated.end(1) :]}"
    else:
        code = f"{code.rstrip()}  # gpu2npu: skip={','.join(sorted(rules))}"
    lines[line - 1] = f"{code}{end}"
    return "".join(lines)


def _tree(text: str) -> str | None:
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return None
