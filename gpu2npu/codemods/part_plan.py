"""All codemods over one part of a project. project_plan.py imports them where a part has something to do for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gpu2npu.codemods.choice import CODEMODS, ProjectPart, imported
from gpu2npu.codemods.generated import new_folder
from gpu2npu.codemods.places import in_order
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.project_plan import Plan, PlannedPart
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.text.edits import conflict
from gpu2npu.records import Edit, FileRewrite


def plan_part(part: ProjectPart) -> PlannedPart:
    """The codemods over one part of a project."""
    installed = part.choice.installed
    program = TrainingProgram(
        part.sources, part.library, part.version, part.trains, part.packages, installed, part.facts
    )
    program.once(ImportGraph, lambda: ImportGraph.from_imports(part.imports))
    rewrites: dict[str, FileRewrite] = {}
    without: set[str] = set()
    for codemod in CODEMODS:
        if not codemod.is_wanted(part.choice) and not (codemod.takes_main and part.choice.main is not None):
            continue
        # A codemod looks at the whole program and gives None where what it was asked for is not there.
        found: Mapping[str, FileRewrite] | None = imported(codemod.plan)(program, part.choice)
        without |= {codemod.name} if found is None else set()
        for path, rewrite in (found or {}).items():
            rewrites[path] = _joined(rewrites.get(path, FileRewrite()), rewrite)
    ordered = {path: replace(rewrite, edits=_in_order(rewrite.edits)) for path, rewrite in rewrites.items()}
    new_files: dict[str, bytes] = {}
    for codemod in CODEMODS:
        new_files |= new_folder(program, rewrites, codemod.folder, codemod.is_relative) if codemod.folder else {}
    return PlannedPart(Plan(ordered, new_files), frozenset(without))


def _joined(earlier: FileRewrite, later: FileRewrite) -> FileRewrite:
    free = [edit for edit in later.edits if not any(conflict(edit, other) for other in earlier.edits)]
    return FileRewrite(
        in_order((*earlier.edits, *free)),
        tuple(dict.fromkeys((*earlier.found, *later.found))),
        earlier.traits | later.traits,
    )


def _in_order(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits in order, with those that insert at one place merged into one, imports first."""
    merged: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.place, not edit.imports)):
        last = merged[-1] if merged else None
        if last is not None and last.place == edit.place and edit.place[0] == edit.place[1]:
            message = last.message if edit.message in last.message else f"{last.message} {edit.message}"
            needs = tuple(dict.fromkeys((*last.needs, *edit.needs)))
            imports = (*last.imports, *edit.imports)
            merged[-1] = replace(last, text=(*last.pieces, *edit.pieces), message=message, needs=needs, imports=imports)
        else:
            merged.append(edit)
    return tuple(merged)
