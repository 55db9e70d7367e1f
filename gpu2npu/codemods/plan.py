"""All codemods over one project: which files they rewrite, which files they add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu2npu.codemods.amp_model import amp_model
from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.data_parallel import data_parallel
from gpu2npu.codemods.generated import beside_programs
from gpu2npu.codemods.modelarts import modelarts
from gpu2npu.codemods.program import Program
from gpu2npu.codemods.similar import similar
from gpu2npu.codemods.specify_device import specify_device
from gpu2npu.engine import ProjectContext
from gpu2npu.records import FileRewrite, StructuralEdit

# A codemod looks at the whole program and says what to do to its files.
Codemod = Callable[[Program, CodemodChoice], Mapping[str, FileRewrite]]


@dataclass(frozen=True)
class Plan:
    """What the codemods do: rewrites by path, and files that the output gets besides, by path."""

    rewrites: Mapping[str, FileRewrite] = field(default_factory=dict)
    new_files: Mapping[str, bytes] = field(default_factory=dict)


_CODEMODS: tuple[Codemod, ...] = (data_parallel, amp_model, specify_device, similar, modelarts)
# The folder of code that the files import which a codemod of some rule has rewritten.
_FOLDERS = {"similar": "ascend_function", "modelarts": "ascend_modelarts_function"}


def plan_codemods(sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice) -> Plan:
    """Look over the project's Python files, and parse those that some codemod could be for.

    Where two codemods want the same characters, the first in the order above has them.
    """
    program = Program.of({path: source for path, source in sources.items() if path not in choice.excluded}, context)
    rewrites: dict[str, FileRewrite] = {}
    for codemod in _CODEMODS:
        for path, rewrite in codemod(program, choice).items():
            rewrites[path] = _joined(rewrites.get(path, FileRewrite()), rewrite)
    ordered = {path: replace(rewrite, edits=_in_order(rewrite.edits)) for path, rewrite in rewrites.items()}
    new_files: dict[str, bytes] = {}
    for rule, folder in _FOLDERS.items():
        importing = [path for path, rewrite in rewrites.items() if any(edit.rule == rule for edit in rewrite.edits)]
        if importing:
            new_files |= beside_programs(program, importing, folder)
    return Plan(ordered, new_files)


def _joined(earlier: FileRewrite, later: FileRewrite) -> FileRewrite:
    free = [edit for edit in later.edits if not any(edit.overlaps(other) for other in earlier.edits)]
    return FileRewrite(
        tuple(sorted({*earlier.edits, *free})), tuple(dict.fromkeys((*earlier.findings, *later.findings)))
    )


def _in_order(edits: Iterable[StructuralEdit]) -> tuple[StructuralEdit, ...]:
    """What is inserted at one place becomes one edit, imports first."""
    merged: list[StructuralEdit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end, not edit.text.startswith(("import ", "from ")))):
        last = merged[-1] if merged else None
        if last is not None and last.start == last.end == edit.start == edit.end:
            message = last.message if edit.message in last.message else f"{last.message} {edit.message}"
            merged[-1] = replace(last, text=last.text + edit.text, message=message)
        else:
            merged.append(edit)
    return tuple(merged)
