"""All codemods over one project: which files they rewrite, which files they add.

A project is planned in parts that import nothing from each other, so that each can be planned by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gpu2npu.codemods.choice import (
    CODEMODS,
    CodemodChoice,
    CodemodError,
    ProjectPart,
    imported,
)
from gpu2npu.codemods.program.files import TrainingProgram, has_backward, packages_of
from gpu2npu.engine import ProjectContext
from gpu2npu.python.project.imports import ImportGraph, files_naming
from gpu2npu.records import FileRewrite  # the store reads plans by the types of their fields

# Small parts are planned together until they have so many bytes.
_PART_SIZE = 200_000


class Plan(Struct, frozen=True):
    """The work of the codemods: rewrites by path, and files that the output gets besides, by path.

    `failures` are the reasons for which files could not be looked at, by path.
    """

    rewrites: Mapping[str, FileRewrite] = field(default_factory=dict)
    new_files: Mapping[str, bytes] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


class PlannedPart(Struct, frozen=True):
    """`without` are the codemods, by name, that were asked for something the part does not have."""

    plan: Plan
    without: frozenset[str] = frozenset()


# Plans parts, in any order: `map`, or that of an Executor.
Spread = Callable[[Callable[[ProjectPart], PlannedPart], Sequence[ProjectPart]], Iterable[PlannedPart]]


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
    planned = _planned(list(_parts(included, context, choice)), spread)
    failures = {path: reason for part in planned for path, reason in part.plan.failures.items()}
    for codemod in CODEMODS if not failures else ():
        everywhere = all(codemod.name in part.without for part in planned)
        if codemod.missing and codemod.is_wanted(choice) and everywhere:
            raise CodemodError(codemod.missing.format(given=choice.options[codemod.name]))
    rewrites = {path: rewrite for part in planned for path, rewrite in part.plan.rewrites.items()}
    new_files = {path: content for part in planned for path, content in part.plan.new_files.items()}
    return Plan({path: rewrites[path] for path in sorted(rewrites)}, new_files, failures)


def components(part: ProjectPart) -> list[ProjectPart]:
    """Return the pieces of a part that import nothing from each other and have files that are wanted."""
    whole = replace(part, wanted=frozenset(part.wanted))
    pieces = (_of_paths(whole, paths) for paths in ImportGraph.from_imports(part.imports).components())
    return [piece for piece in pieces if piece.wanted]


def _of_paths(part: ProjectPart, paths: Sequence[str]) -> ProjectPart:
    """The part with some of its files, which import nothing from the others."""
    return replace(
        part,
        sources={path: part.sources[path] for path in paths},
        wanted=tuple(path for path in paths if path in part.wanted),
        imports={path: part.imports[path] for path in paths},
        facts={path: part.facts[path] for path in paths if path in part.facts},
        choice=replace(part.choice, main=part.choice.main if part.choice.main in paths else None),
    )


def _planned(parts: Sequence[ProjectPart], spread: Spread) -> list[PlannedPart]:
    if not parts:  # as of most projects: the codemods need not be imported
        return []
    from gpu2npu.codemods.part_plan import plan_part  # before workers are started, which then have it

    return list(spread(plan_part, parts))


def _parts(sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice) -> Iterator[ProjectPart]:
    """The parts of a project that some codemod could be for."""
    concerned = candidate_files(choice, sources, context)
    if not concerned:
        return
    graph, given = ImportGraph.of(TrainingProgram.of(sources, context)), context.project.given
    trains, packages = has_backward(sources), packages_of(sources)
    whole = ProjectPart(
        sources, concerned, graph.imports, context.version, context.project.library, choice, trains, packages, given
    )
    paths: list[str] = []
    size = 0
    for component in graph.components():
        if not concerned.isdisjoint(component):
            paths += component
            size += sum(len(sources[path]) for path in component)
        if size > _PART_SIZE:
            yield _of_paths(whole, paths)
            paths, size = [], 0
    if paths:
        yield _of_paths(whole, paths)


def candidate_files(choice: CodemodChoice, sources: Mapping[str, bytes], context: ProjectContext) -> frozenset[str]:
    """The files that a codemod may have to change; `choice.main` whatever is skipped."""
    found = {path for path in sources if path == choice.main}
    names: list[frozenset[str]] = []
    for codemod in CODEMODS:
        if not codemod.is_wanted(choice):
            continue
        if codemod.option is not None or not (codemod.names or codemod.files):
            return frozenset(sources)
        if codemod.files:
            found |= imported(codemod.files)(sources, context, choice)
        if codemod.names and _may_name(codemod.names, sources):
            names.append(codemod.names)
    if names:
        program = TrainingProgram.of(sources, context)
        found.update(*(files_naming(program, each) for each in names))
    return frozenset(found)


def _may_name(names: frozenset[str], sources: Mapping[str, bytes]) -> bool:
    """Return whether some file has the package of a name in it."""
    packages = {name.partition(".")[0].encode() for name in names}
    return any(package in source for source in sources.values() for package in packages)
