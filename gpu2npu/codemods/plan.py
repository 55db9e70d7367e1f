"""All codemods over one project: which files they rewrite, which files they add.

A project is planned in parts that import nothing from each other, so that each can be planned by another process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu2npu.codemods.amp_model import amp_model, no_such_model
from gpu2npu.codemods.choice import CodemodChoice, CodemodError
from gpu2npu.codemods.data_parallel import data_parallel
from gpu2npu.codemods.generated import beside_programs
from gpu2npu.codemods.modelarts import modelarts
from gpu2npu.codemods.places import in_order
from gpu2npu.codemods.plugin import is_silent, plugin
from gpu2npu.codemods.program import Program, has_backward
from gpu2npu.codemods.references import FUNCTION_WORD
from gpu2npu.codemods.similar import similar
from gpu2npu.codemods.specify_device import specify_device
from gpu2npu.codemods.spelling import WORD
from gpu2npu.engine import ProjectContext
from gpu2npu.python.edits import conflict
from gpu2npu.python.imports import ImportGraph
from gpu2npu.python.library import Library
from gpu2npu.records import Edit, FileRewrite

# A codemod looks at the whole program and says what to do to its files; None where what it was asked for is not there.
Codemod = Callable[[Program, CodemodChoice], Mapping[str, FileRewrite] | None]


@dataclass(frozen=True)
class Plan:
    """The work of the codemods: rewrites by path, and files that the output gets besides, by path.

    `failures` are the reasons for which files could not be looked at, by path.
    """

    rewrites: Mapping[str, FileRewrite] = field(default_factory=dict)
    new_files: Mapping[str, bytes] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Some files of a project, with everything that they import of it. Picklable.

    `wanted` are the files that some codemod could be for, `imports` the files that each imports, `trains` says whether
    any file of the project computes gradients.
    """

    sources: Mapping[str, bytes]
    wanted: tuple[str, ...]
    imports: Mapping[str, frozenset[str]]
    version: str
    library: Library
    choice: CodemodChoice
    trains: bool


@dataclass(frozen=True)
class PlannedPart:
    """`has_model` says that the part has the model of `CodemodChoice.amp_model`."""

    plan: Plan
    has_model: bool


# Plans parts, in any order: `map`, or that of an Executor.
Spread = Callable[[Callable[[Part], PlannedPart], Sequence[Part]], Iterable[PlannedPart]]

_CODEMODS: tuple[Codemod, ...] = (data_parallel, amp_model, specify_device, similar, modelarts, plugin)
# The folder of code that the files import which a codemod of some rule has rewritten.
_FOLDERS = {"similar": "ascend_function", "modelarts": "ascend_modelarts_function"}
# Small parts are planned together until they have so many bytes.
_PART_SIZE = 200_000


def plan_codemods(
    sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice, spread: Spread = map
) -> Plan:
    """Look over the project's Python files, and parse those that some codemod could be for.

    Where two codemods want the same characters, the first in the order above has them. Raises CodemodError if one
    cannot do what it was asked for.
    """
    included = {path: source for path, source in sources.items() if path not in choice.excluded}
    if choice.main is not None and choice.main not in included:
        raise CodemodError(f"The entry file '{choice.main}' is excluded from the migration.")
    planned = list(spread(plan_part, list(_parts(included, context, choice))))
    failures = {path: reason for part in planned for path, reason in part.plan.failures.items()}
    if choice.amp_model is not None and not failures and not any(part.has_model for part in planned):
        raise no_such_model(choice.amp_model)
    rewrites = {path: rewrite for part in planned for path, rewrite in part.plan.rewrites.items()}
    new_files = {path: content for part in planned for path, content in part.plan.new_files.items()}
    return Plan({path: rewrites[path] for path in sorted(rewrites)}, new_files, failures)


def _parts(sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice) -> Iterator[Part]:
    """The parts of a project that some codemod could be for."""
    if not any(_concerns(choice, context.version, path, source) for path, source in sources.items()):
        return
    trains = has_backward(sources)
    paths: list[str] = []
    size = 0
    graph = ImportGraph.of(Program.of(sources, context))
    for component in graph.components():
        if any(_concerns(choice, context.version, path, sources[path]) for path in component):
            paths += component
            size += sum(len(sources[path]) for path in component)
        if size > _PART_SIZE:
            yield _part(sources, paths, graph, context, choice, trains)
            paths, size = [], 0
    if paths:
        yield _part(sources, paths, graph, context, choice, trains)


def _part(
    sources: Mapping[str, bytes],
    paths: Sequence[str],
    graph: ImportGraph,
    context: ProjectContext,
    choice: CodemodChoice,
    trains: bool,
) -> Part:
    main = choice.main if choice.main in paths else None
    own = {path: sources[path] for path in paths}
    imports = {path: graph.imports[path] for path in paths}
    wanted = tuple(path for path in paths if _concerns(choice, context.version, path, sources[path]))
    return Part(own, wanted, imports, context.version, context.project.library, replace(choice, main=main), trains)


def _concerns(choice: CodemodChoice, version: str, path: str, source: bytes) -> bool:
    """Return whether a codemod may have to change a file."""
    if choice.amp_model is not None or choice.specify_device or choice.modelarts or choice.similar:
        return True
    if choice.data_parallel and any(text in source and re.search(word, source) for word, text in (WORD, FUNCTION_WORD)):
        return True
    return path == choice.main or is_silent(source, version)


def plan_part(part: Part) -> PlannedPart:
    """The codemods over one part of a project."""
    program = Program(part.sources, part.library, part.version, part.trains)
    program.once(ImportGraph, lambda: ImportGraph.from_imports(part.imports))
    rewrites: dict[str, FileRewrite] = {}
    has_model = False
    for codemod in _CODEMODS:
        found = codemod(program, part.choice)
        has_model = has_model or (codemod is amp_model and found is not None)
        for path, rewrite in (found or {}).items():
            rewrites[path] = _joined(rewrites.get(path, FileRewrite()), rewrite)
    ordered = {path: replace(rewrite, edits=_in_order(rewrite.edits)) for path, rewrite in rewrites.items()}
    new_files: dict[str, bytes] = {}
    for rule, folder in _FOLDERS.items():
        importing = [path for path, rewrite in rewrites.items() if any(edit.rule == rule for edit in rewrite.edits)]
        if importing:
            new_files |= beside_programs(program, importing, folder)
    return PlannedPart(Plan(ordered, new_files), has_model)


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
