"""Edits and findings at nodes of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from gpu2npu.codemods.program import ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import RULE
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.python.text.edits import conflict
from gpu2npu.records import Code, Edit, FileRewrite, FindingKind, Found

# The rules whose findings are replaced, by the name they report, where that is not RULE.
_RULES = {
    "torch.nn.parallel.DataParallel": "parallel-data-parallel",
    "torch.nn.parallel.data_parallel.DataParallel": "module-data-parallel",
    "torch.nn.parallel.data_parallel": "parallel-data-parallel-function",
}
# The module that must be imported for code that says `torch.npu` or `.npu()`.
NPU = ("torch_npu",)


class GroupEdit(Edit, frozen=True):
    """An edit whose new text asks the process group. `alone` is the text for code that also runs without a group; where
    it is None, there has to be one. `optional` says that other programs that run the code need none for it."""

    alone: str | tuple[Code, ...] | None = None
    optional: bool = False


def plain(edit: GroupEdit, text: str | tuple[Code, ...]) -> Edit:
    """An edit with the text that was settled on."""
    is_block = edit.is_block
    return Edit(edit.place, text, edit.rule, edit.message, needs=edit.needs, imports=edit.imports, is_block=is_block)


# What a codemod does to a file, one thing at a time.
Step = tuple[ParsedFile, Edit | Found]


def replaced(
    file: ParsedFile, node: ast.AST, text: str | tuple[Code, ...], message: str, needs: tuple[str, ...] = ()
) -> Step:
    """The node's code becomes `text`."""
    return file, Edit(file.bounds(node), text, RULE, message, needs=needs)


def span_removed(file: ParsedFile, start: int, end: int, message: str) -> Step:
    return file, Edit((start, end), "", RULE, message)


def inserted(file: ParsedFile, offset: int, text: str, message: str, needs: tuple[str, ...] = ()) -> Step:
    return file, Edit((offset, offset), text, RULE, message, needs=needs)


def reported(file: ParsedFile, node: ast.AST, api: str, message: str, kind: FindingKind) -> Step:
    return file, Found(file.bounds(node), _RULES.get(api, RULE), kind, api, message)


def is_skipped(file: ParsedFile, node: ast.AST, rule: str = RULE) -> bool:
    """Return whether a comment `# gpu2npu: skip` keeps the node as it is, by a rule."""
    skips = _skips(file.text)
    span = file.span(node)
    return bool(skips.file & {rule, EVERY_RULE}) or skips.covers(rule, span.start_line, span.end_line)


@lru_cache(maxsize=64)
def _skips(text: str) -> Skips:
    return find_skips(text)


def by_file(steps: Iterable[Step]) -> dict[str, FileRewrite]:
    """The rewrites of a codemod."""
    edits: dict[str, list[Edit]] = {}
    found: dict[str, list[Found]] = {}
    for file, step in steps:
        if isinstance(step, Found):
            found.setdefault(file.path, []).append(step)
        else:
            edits.setdefault(file.path, []).append(step)
    return {
        path: FileRewrite(in_order(edits.get(path, ())), tuple(dict.fromkeys(found.get(path, ()))))
        for path in sorted({*edits, *found})
    }


def in_order(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits in the order of the text, each once."""
    return tuple(sorted(dict.fromkeys(edits), key=lambda edit: (edit.place, *map(str, edit.pieces), edit.rule)))


def of_rule(rule: str, rewrites: Mapping[str, FileRewrite]) -> dict[str, FileRewrite]:
    """The rewrites as those of another rule than `data-parallel`."""
    return {
        path: FileRewrite(
            tuple(replace(edit, rule=rule) for edit in rewrite.edits),
            tuple(replace(found, rule=rule) for found in rewrite.found),
        )
        for path, rewrite in rewrites.items()
    }


def taken_over(program: TrainingProgram, steps: Iterable[Step], rewrites: Mapping[str, FileRewrite]) -> Iterator[Step]:
    """The steps of another codemod, but for edits where there are other edits already."""
    done: dict[str, list[Edit]] = {}
    for file, step in steps:
        if isinstance(step, Edit):
            done.setdefault(file.path, []).append(step)
    for path, rewrite in rewrites.items():
        parsed = program.file(path)
        if parsed is not None:
            free = [edit for edit in rewrite.edits if not any(conflict(edit, other) for other in done.get(path, ()))]
            yield from ((parsed, edit) for edit in free)
            yield from ((parsed, found) for found in rewrite.found)


def quoted(file: ParsedFile, text: str) -> str:
    """A string in the quotes that the file mostly uses."""
    quote = '"' if file.text.count('"') > file.text.count("'") else "'"
    return f"{quote}{text}{quote}"
