"""The bytes of one file in, a MigratedFile out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.elsewhere.alone import leave_devices_alone
from gpu2npu.engine.elsewhere.code import elsewhere, holds_any
from gpu2npu.engine.elsewhere.cuda import tests_device
from gpu2npu.engine.elsewhere.devices import leave_devices
from gpu2npu.engine.imports import imported_modules, modules_joined
from gpu2npu.engine.match import find_matches
from gpu2npu.engine.matches import Matches, ReceiverQuestion
from gpu2npu.engine.outcome import Migration, migrated_file
from gpu2npu.engine.skips import Skips, find_skips
from gpu2npu.engine.table import RuleTable, outside, rule_table
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import OWN, infer_kinds
from gpu2npu.python.meaning.types import UNKNOWN
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.text.source import SourceFile, SourceReadError, read_source
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import Bounds, Edit, FileRewrite, FindingKind, Found, MigratedFile, Severity
from gpu2npu.rulebook.rule import Rulebook

RETAINED = (
    "What this condition decides on is CUDA's own, so it stays as it is, and finds no CUDA on an NPU: where the "
    "code has a counterpart for Ascend, add a branch for it."
)
NAMED = (
    "What runs under this condition is CUDA's own, and the name is true on an NPU as well, as other code tests it too: "
    "also test `torch.version.cuda is not None` here, or add a branch for Ascend."
)
KERNELS = (
    "Only CUDA kernels, or tests for a GPU, are under this condition, which stays as it is: check which code runs for "
    "tensors on an NPU instead."
)


def has_trigger(source: bytes, rulebook: Rulebook, context: ProjectContext) -> bool:
    """Return whether a file contains a text that some rule could be for; without one it stays as it is.

    Raises:
        ExpressionTimeError: The search for a rule's expression takes too long.
    """
    text = _without_nulls(source)
    return rule_table(rulebook, context.version).trigger.is_in(text) or context.has_other_name(text)


def may_have_trigger(source: bytes, rulebook: Rulebook, context: ProjectContext) -> bool:
    """Return whether `has_trigger` may be true. This takes no time to speak of, whatever the rules are."""
    text = _without_nulls(source)
    return rule_table(rulebook, context.version).trigger.may_be_in(text) or context.has_other_name(text)


def _without_nulls(source: bytes) -> bytes:
    """The bytes of UTF-16, which is reported to be saved anew, as those of ASCII."""
    return source.replace(b"\0", b"") if b"\0" in source else source


def migrate_source(
    source: bytes, path: str, rulebook: Rulebook, context: ProjectContext, rewrite: FileRewrite | None = None
) -> MigratedFile:
    """Apply the rules to one file, beside what the codemods do to it.

    A file that cannot be migrated comes back with the reason as its failure."""
    return migrate_python(source, path, rulebook, context, rewrite).record


def migrate_python(
    source: bytes | str, path: str, rulebook: Rulebook, context: ProjectContext, rewrite: FileRewrite | None = None
) -> Migration:
    """Apply the rules to the bytes of a file, or to a text that is a part of another file, as a cell of a notebook is.

    `rewrite` is what the codemods do to it; rules and codemods all go by the source."""
    content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if rewrite is None and not has_trigger(content, rulebook, context):
        return Migration(MigratedFile(path))
    try:
        read = SourceFile(path, source, "utf-8", b"") if isinstance(source, str) else read_source(source, path)
        names = Names.of(read, context.project)
        file = names.file
        skips = find_skips(file.text)
        imported, joined = imported_modules(names.facts), partial(modules_joined, names)
        without = outside(rulebook, path, skips.file, imported, context.imported, joined)
        table = rule_table(rulebook, context.version, without)
        if table.users_names:
            names = Names(file, context.project, wanted=table.users_names)
        matches = find_matches(names, context, table, skips)
        leave_devices_alone(names, table, matches)
        leave_devices(names, table, matches)
        if matches.edits or matches.found or matches.questions:
            _leave_other_branches(matches, names, table)
        for question in matches.questions:
            _settle(question, matches, names)
        _apply_skips(matches, skips, file)
        matches.found = [found for found in matches.found if not _is_replaced(found, matches.edits)]
        return migrated_file(file, matches, table, rewrite or FileRewrite(), context.writes)
    except (SourceReadError, TreeError) as error:
        return Migration(MigratedFile(path, failure=str(error)))
    except UnicodeEncodeError as error:
        return Migration(MigratedFile(path, failure=f"the result does not fit its encoding {error.encoding}"))


def unreadable(source: bytes, path: str) -> str | None:
    """Return why a Python file could not be migrated if there were something to migrate in it; None where it could."""

    try:
        Names.of(read_source(source, path), ProjectContext().project)
    except (SourceReadError, TreeError) as error:
        return str(error)
    return None


def _leave_other_branches(matches: Matches, names: Names, table: RuleTable) -> None:
    """Drop what is in code that runs on no NPU, but not the new names of what the file imports."""
    file = names.file
    stays = elsewhere(names, table, [item.place for item in _answered(matches)])
    matches.found += [each for test, value in stays.cuda.named for each in _woken(test, value, matches, file)]

    def is_local(place: Bounds) -> bool:
        text = file.text[place[0] : place[1]]
        return text.isidentifier() and not file.text.endswith((".", "def "), 0, place[0])

    def is_reported(found: Found) -> bool:
        # A variable such as FORCE_CUDA is set outside the code, whatever the condition does.
        is_variable = table.variable_rule(found.api) is not None and not holds_any(stays.branches, found.place)
        if found.api.startswith("torch.cuda.") and stays.has(found.place):
            return False
        return is_variable or not stays.has_finding(found.place)

    if stays.branches or stays.cuda.conditions:
        reported = [found for found in matches.found if is_reported(found)]
        conditions = [
            found for place in stays.cuda.conditions for found in _retained_condition(place, matches, reported, file)
        ]
        matches.edits = [edit for edit in matches.edits if not stays.has(edit.place) or is_local(edit.place)]
        matches.found = [*reported, *conditions]
        matches.questions = [question for question in matches.questions if not stays.has(question.edit.place)]


def _woken(test: Bounds, value: Bounds, matches: Matches, file: PythonFile) -> list[Found]:
    """The finding at a condition that is true on an NPU since its name's value is edited."""
    rules = [edit.rule for edit in matches.edits if holds(value, edit.place)]
    text = file.text[slice(*test)]
    return [Found(test, rule, FindingKind.REVIEW, text, NAMED, Severity.CHANGE) for rule in rules[:1]]


def _answered(matches: Matches) -> list[Edit | Found]:
    """The edits and findings that rules would make."""
    return [*matches.edits, *matches.found, *(question.edit for question in matches.questions)]


def _retained_condition(
    condition: Bounds, matches: Matches, reported: Sequence[Found], file: PythonFile
) -> list[Found]:
    """The finding of the first rule that would have changed or reported something in a condition that stays; none where
    all of it is reported as it is."""
    inside = [item for item in _answered(matches) if holds_any((condition,), item.place)]
    within = sorted((item.place, item.rule) for item in inside)
    if all(item in reported for item in inside):
        return []
    _, rule = within[0]
    # Tensors on an NPU come to a condition on a device, and take its other branch; one on CUDA itself is about a build.
    is_met = any(tests_device(place, file) for place, _ in within)
    doubtful = [item for item in inside if isinstance(item, Found)]
    if is_met and doubtful == inside:  # it may be about no device: `language == "cuda"`
        return [item for item in doubtful if item not in reported]
    message, severity = (KERNELS, Severity.CHANGE) if is_met else (RETAINED, Severity.NOTE)
    return [Found(condition, rule, FindingKind.REVIEW, file.text[slice(*condition)], message, severity)]


def _settle(question: ReceiverQuestion, matches: Matches, names: Names) -> None:
    """Keep the member of an object of the project's own class; edit it where the object is anything else."""
    kinds = infer_kinds(names, question.receiver, question.member)
    if kinds == {OWN}:
        return
    edit = question.edit
    matches.edits.append(edit)
    if OWN in kinds or kinds == {UNKNOWN}:
        message = (
            f"Classes of this project define {question.member} themselves, and the type of this object is not certain: "
            f"check that it is a tensor or module."
        )
        matches.found.append(Found(edit.place, edit.rule, FindingKind.REVIEW, question.member, message))


def _is_replaced(found: Found, edits: Sequence[Edit]) -> bool:
    """Return whether a finding is of a string inside code whose replacement has it no more.

    One at a string that is edited itself is about the new one: a package is given `"npu"` now."""
    return found.api[:1] in ("'", '"') and any(
        edit.place != found.place
        and holds(edit.place, found.place)
        and not any(not isinstance(piece, str) and holds(piece, found.place) for piece in edit.pieces)
        for edit in edits
    )


def _apply_skips(matches: Matches, skips: Skips, file: PythonFile) -> None:
    """Drop what the file's own comments switch off."""

    def is_retained(item: Edit | Found) -> bool:
        span = file.lines.span(*item.place)
        return not skips.covers(item.rule, span.start_line, span.end_line)

    if skips.lines:
        matches.edits = [edit for edit in matches.edits if is_retained(edit)]
        matches.found = [found for found in matches.found if is_retained(found)]
