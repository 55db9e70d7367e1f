"""Edits and findings at nodes of a file, and those of one codemod by file."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from msgspec.structs import replace

from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import RULE
from gpu2npu.engine.skips import EVERY_RULE, Skips, find_skips
from gpu2npu.python.text.edits import conflict
from gpu2npu.python.text.templates import plain
from gpu2npu.records import Bounds, Edit, FileRewrite, FindingKind, Found, NewText, Text

# The rules whose findings are replaced, by the name they report, where that is not RULE.
_RULES = {
    "torch.nn.parallel.DataParallel": "parallel-data-parallel",
    "torch.nn.parallel.data_parallel.DataParallel": "module-data-parallel",
    "torch.nn.parallel.data_parallel": "parallel-data-parallel-function",
}
# The module that must be imported for code that says `torch.npu` or `.npu()`.
NPU = ("torch_npu",)


class GroupEdit(Edit, frozen=True):
    """An edit whose new text asks the process group. `single_process` is the text for code that also runs without one;
    None: there has to be one. `optional` means that other programs that run the code need none for it."""

    single_process: Text | None = None
    optional: bool = False


def decided(edit: GroupEdit, text: Text | Literal[""]) -> Edit:
    """The edit with one of its two texts."""
    is_block = edit.is_block
    return Edit(edit.place, text, edit.rule, edit.message, needs=edit.needs, imports=edit.imports, is_block=is_block)


# What a codemod does to a file, one thing at a time.
Step = tuple[ParsedFile, Edit | Found]


def replaced(file: ParsedFile, node: ast.AST, text: Text, message: str, needs: tuple[str, ...] = ()) -> Step:
    """The node's code becomes `text`."""
    return file, Edit(file.bounds(node), text, RULE, message, needs=needs)


def span_removed(file: ParsedFile, start: int, end: int, message: str) -> Step:
    return file, Edit((start, end), "", RULE, message)


def inserted(file: ParsedFile, offset: int, text: Text, message: str, needs: tuple[str, ...] = ()) -> Step:
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


def quoted(file: ParsedFile, text: str) -> NewText:
    """A string in the quotes that the file mostly uses."""
    quote = '"' if file.text.count('"') > file.text.count("'") else "'"
    return plain(f"{quote}{text}{quote}")


@dataclass(eq=False)
class Rewriting:
    """The edits and findings of one codemod, `rule`, by file. The same edit or finding given twice counts once."""

    rule: str
    _edits: dict[str, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    _found: dict[str, list[Found]] = field(default_factory=lambda: defaultdict(list))

    def put(self, file: ParsedFile, start: int, end: int, text: Text | Literal[""], message: str) -> None:
        """Replace the characters from `start` to `end` of the source."""
        self.add(file, (Edit((start, end), text, self.rule, message),))

    def ask_group(
        self,
        file: ParsedFile,
        place: Bounds,
        text: Text,
        message: str,
        single_process: Text | None = None,
        optional: bool = False,
    ) -> None:
        """Replace what is at a place by code that asks the process group; `single_process` and `optional` are those of
        a `GroupEdit`."""
        self.add(file, (GroupEdit(place, text, self.rule, message, single_process=single_process, optional=optional),))

    def add(self, file: ParsedFile, edits: tuple[Edit, ...]) -> None:
        """Take over edits made elsewhere."""
        self._edits[file.path] += edits

    def report(self, file: ParsedFile, node: ast.AST, api: str, message: str) -> None:
        """Leave a node to the user, who reads what to do with it."""
        start, end = file.bounds(node)
        first_line = file.text[start:end].splitlines()[:1]
        place = (start, start + len(first_line[0]) if first_line else end)
        self._found[file.path].append(Found(place, self.rule, FindingKind.REVIEW, api, message))

    def files(self) -> dict[str, FileRewrite]:
        """Return the rewrites that were collected, by path, in the order of the text."""
        return {
            path: FileRewrite(
                in_order(self._edits.get(path, ())),
                tuple(sorted(set(self._found.get(path, ())), key=lambda each: (each.place, each.api, each.message))),
            )
            for path in sorted({*self._edits, *self._found})
        }
