"""`--affinity`: applies the kinds that were asked for, and adds the package that the new code calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Literal

from msgspec.structs import replace

from gpu2npu.codemods.affinity.catalogue import KINDS
from gpu2npu.codemods.affinity.edit import Planned, ProgramReader, planned
from gpu2npu.codemods.affinity.exclusions.derivatives import differentiates_twice
from gpu2npu.codemods.affinity.exclusions.scripted import scripted_code
from gpu2npu.codemods.choice import Codemod, CodemodChoice, Option
from gpu2npu.codemods.generated import home_package, new_folder, outermost_package
from gpu2npu.codemods.places import Step, by_file, is_skipped
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import Spelling, spelling
from gpu2npu.python.text.concrete import has_comment
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.templates import bare_operand, call, code, followed
from gpu2npu.records import Bounds, Edit, FileRewrite, NewText, Operation, Text
from gpu2npu.shapes.catalogue import available
from gpu2npu.shapes.kind import AffinityKind, AffinityReplacement, FusedMatch
from gpu2npu.shapes.terms import Term
from gpu2npu.support.release_tables import table_for

MODULE = "ascend_affinity"
CODEMOD = Codemod(
    "affinity",
    option=Option(
        ("--affinity",),
        "Use the NPU's fused operators for code that spells them out: `safe` changes nothing but rounding, `all` "
        "also what docs/affinity.md describes, or some kinds such as rms-norm.",
        "safe|all|KIND,...",
        "affinity.catalogue:chosen",
    ),
    folder=MODULE,
    is_relative=True,
    precedence=80,
)


def affinity(
    program: TrainingProgram, choice: CodemodChoice, within: Mapping[str, Set[str]] | None = None
) -> dict[str, FileRewrite]:
    """The rewrites of the chosen kinds that the release has operators for; of files and kinds `within`, if given."""
    table = table_for(program.version)
    kinds = [KINDS[name] for name in choice.options["affinity"] if available(KINDS[name], table)]
    if not all(kind.second_derivatives for kind in kinds) and differentiates_twice(program):
        kinds = [kind for kind in kinds if kind.second_derivatives]
    words = b"|".join(re.escape(word) for kind in kinds for word in kind.words)
    steps: list[Step] = []
    found = program.with_word(words) if within is None else program.parsed(sorted(within))
    for file in found if kinds else ():
        source = program.sources[file.path]
        spelled = [kind for kind in kinds if any(word in source for word in kind.words)]
        if within is not None:
            spelled = [kind for kind in spelled if kind.id in within[file.path]]
        steps += _with_imports_above(program, file, spelled)
    return by_file(steps)


def _with_imports_above(program: TrainingProgram, file: ParsedFile, kinds: Sequence[AffinityKind]) -> list[Step]:
    """The steps of some kinds in a file, with new imports above all new code: one of the file may be below it."""
    steps = list(_rewritten(program, file, kinds, None))
    edits = [step for _, step in steps if isinstance(step, Edit)]
    first = min((edit.place[0] for edit in edits if not _inserts_import(edit)), default=0)
    is_late = any(edit.place[0] > first for edit in edits if _inserts_import(edit))
    return list(_rewritten(program, file, kinds, first)) if is_late else steps


def _rewritten(
    program: TrainingProgram, file: ParsedFile, kinds: Sequence[AffinityKind], before: int | None
) -> Iterator[Step]:
    reading = ProgramReader.of(program, file)
    done: set[ast.AST] = set()
    added: set[Text | Literal[""]] = set()
    for node in ast.walk(file.tree):  # outer nodes first
        for kind in kinds:
            if node in done or not kind.looks_at(node):
                continue
            found = kind.find(reading, node) if not is_skipped(file, node, kind.id) else None
            if isinstance(found, AffinityReplacement) and (found.at is not None or not _is_commented(file, node)):
                done.update((node, file.statement(node)))
                yield from _once(list(_replaced(program, file, node, kind, found, before)), added)
            elif isinstance(found, FusedMatch) and found.is_certain and not _is_commented(file, node):
                assert isinstance(node, ast.expr)
                plan = planned(reading, node, found)
                if (
                    plan is not None
                    and done.isdisjoint(plan.deleted)
                    and _is_allowed(program, file, node, kind, found, plan)
                ):
                    done.update(part for each in (node, *plan.deleted) for part in ast.walk(each))
                    yield from _once(list(_steps(program, file, node, kind, found, plan, before)), added)


def _is_commented(file: ParsedFile, node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and has_comment(file, node)


def _once(steps: Sequence[Step], added: set[Text | Literal[""]]) -> Iterator[Step]:
    """The steps without insertions of imports that are `added` already."""
    inserted = {id(step): step[1].text for step in steps if isinstance(step[1], Edit) and _inserts_import(step[1])}
    yield from (step for step in steps if inserted.get(id(step)) not in added)
    added.update(inserted.values())


def _inserts_import(edit: Edit) -> bool:
    return bool(edit.imports) and edit.place[0] == edit.place[1]


def _replaced(
    program: TrainingProgram,
    file: ParsedFile,
    node: ast.AST,
    kind: AffinityKind,
    found: AffinityReplacement,
    before: int | None,
) -> Iterator[Step]:
    if found.function and scripted_code(program).holds(file, node):
        return
    if found.imports:
        home = _home(program, file)
        module = f"{home}.{MODULE}.flash_attention" if home.strip(".") else f"{home}{MODULE}.flash_attention"
        new = code("from {module} import {names}", module=module, names=found.imports)
        yield file, Edit(file.bounds(node), new, kind.id, kind.message, imports=(MODULE,))
        return
    for each in (found, *found.more):
        spelled = _module(program, file, before) if each.function else Spelling("")
        for edit in spelled.edits:
            yield file, replace(edit, rule=kind.id)
        text = each.text if each.text is not None else call(_function(spelled, each.function), *each.arguments)
        yield file, Edit(each.at or file.bounds(node), text, kind.id, kind.message)


def _is_allowed(
    program: TrainingProgram, file: ParsedFile, node: ast.expr, kind: AffinityKind, found: FusedMatch, plan: Planned
) -> bool:
    """Return whether no comment keeps a part of the code, and TorchScript, which cannot read the module of fused
    operators, does not compile it."""
    if any(is_skipped(file, each, kind.id) for each in plan.deleted):
        return False
    return "." in found.function or not scripted_code(program).holds(file, node)


def applicable(program: TrainingProgram, wanted: Mapping[str, Set[str]]) -> dict[str, list[tuple[int, str]]]:
    """The places that the kinds `wanted` of each file rewrite: lines of code and of enclosing heads, with the kind."""
    found: dict[str, list[tuple[int, str]]] = {}
    named = set().union(*wanted.values())
    choice = CodemodChoice(options={"affinity": [name for name in KINDS if name in named]})
    for path, rewrite in affinity(program, choice, wanted).items():
        file = program.file(path)
        assert file is not None
        heads = [(file.bounds(each), file.span(each).start_line) for each in file.definitions]
        for edit in rewrite.edits:
            start, end = edit.place
            lines = range(file.text.count("\n", 0, start) + 1, file.text.count("\n", 0, end) + 2)
            enclosing = [line for bounds, line in heads if bounds[0] <= start and end <= bounds[1]]
            found.setdefault(path, []).extend((line, edit.rule) for line in (*lines, *enclosing))
    return found


def fixed(program: TrainingProgram, names: Sequence[str]) -> dict[str, bytes]:
    """The files that kinds rewrite, as they are then, and the module that they import."""
    rewrites = affinity(program, CodemodChoice(options={"affinity": names}))
    found: dict[str, bytes] = {}
    for path, rewrite in rewrites.items():
        file = program.file(path)
        assert file is not None
        found[path] = file.source.encode(Edited(file.text, rewrite.edits).text)
    return found | new_folder(program, rewrites, MODULE, is_relative=True)


def _steps(
    program: TrainingProgram,
    file: ParsedFile,
    node: ast.expr,
    kind: AffinityKind,
    found: FusedMatch,
    plan: Planned,
    before: int | None,
) -> Iterator[Step]:
    own = "." not in found.function
    spelled = _module(program, file, before) if own else spelling(file, found.function, before=before)
    for edit in spelled.edits:
        yield file, replace(edit, rule=kind.id)
    name = _function(spelled, found.function if own else "")
    new = call(name, *_arguments(file, found, plan))
    text = followed(new, code(found.behind)) if found.behind else new
    yield file, Edit(file.bounds(node), text, kind.id, kind.message)
    for statement in plan.deleted:
        message = f"Part of what {name} computes."
        yield file, Edit(file.bounds(statement), "", kind.id, message, operation=Operation.DELETE)


def _function(spelled: Spelling, name: str) -> NewText:
    """A function of a module as a file spells it, or what is spelled itself."""
    return code("{module}.{name}", module=spelled.name, name=name) if name else code(spelled.name)


def _arguments(file: ParsedFile, found: FusedMatch, plan: Planned) -> Iterator[Text | Bounds]:
    nodes = iter(plan.arguments)
    for argument in found.arguments:
        if isinstance(argument, Term):
            yield file.bounds(next(nodes))
        elif isinstance(argument, str):
            yield code(argument)
        else:
            yield code(argument.text, **{field: bare_operand(file, next(nodes)) for field in argument.terms})


def _module(program: TrainingProgram, file: ParsedFile, before: int | None) -> Spelling:
    """The name of the module of fused operators in a file, and its import: in a package, relative to it."""
    home = _home(program, file)
    return spelling(file, MODULE, f"from {home} import {MODULE}" if home else "", before)


def _home(program: TrainingProgram, file: ParsedFile) -> str:
    """The package that has the module, as an import in a file writes it: dots up to the outermost that the file is in,
    or the name of one that it imports; "" where the module is beside the program."""
    own = outermost_package(program, file.path)
    if own is not None:
        return "." * (file.path.count("/") - own.count("/"))
    return (home_package(program, file.path) or "").rpartition("/")[2]
