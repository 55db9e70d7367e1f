"""All codemods over one project: which files they rewrite, which files they add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.program import Program
from gpu2npu.engine import ProjectContext
from gpu2npu.records import FileRewrite, StructuralEdit


class CodemodError(ValueError):
    """A codemod cannot do what the user asked for; the message is one sentence for them."""


# A codemod looks at the whole program and says what to do to its files.
Codemod = Callable[[Program, CodemodChoice], Mapping[str, FileRewrite]]


@dataclass(frozen=True)
class Plan:
    """What the codemods do: rewrites by path, and files that the output gets besides, by path."""

    rewrites: Mapping[str, FileRewrite] = field(default_factory=dict)
    new_files: Mapping[str, bytes] = field(default_factory=dict)


_CODEMODS: tuple[Codemod, ...] = ()


def plan_codemods(sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice) -> Plan:
    """Look over the project's Python files, and parse those that some codemod could be for.

    Where two codemods want the same characters, the first in the order above has them.
    """
    program = Program.of({path: source for path, source in sources.items() if path not in choice.excluded}, context)
    rewrites: dict[str, FileRewrite] = {}
    for codemod in _CODEMODS:
        for path, rewrite in codemod(program, choice).items():
            rewrites[path] = _joined(rewrites.get(path, FileRewrite()), rewrite)
    return Plan(rewrites)


def _joined(earlier: FileRewrite, later: FileRewrite) -> FileRewrite:
    free = [edit for edit in later.edits if not any(_overlap(edit, other) for other in earlier.edits)]
    return FileRewrite(
        tuple(sorted({*earlier.edits, *free})), tuple(dict.fromkeys((*earlier.findings, *later.findings)))
    )


def _overlap(one: StructuralEdit, other: StructuralEdit) -> bool:
    return one.start < other.end and other.start < one.end
