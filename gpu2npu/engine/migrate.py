"""The bytes of one file in, a MigratedFile out."""

from __future__ import annotations

from functools import partial

from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.imports import imported_modules, is_joined
from gpu2npu.engine.match import find_matches
from gpu2npu.engine.outcome import Migration, migrated_file
from gpu2npu.engine.skips import find_skips
from gpu2npu.engine.table import outside, rule_table
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.text.source import SourceFile, SourceReadError, read_source
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import FileRewrite, MigratedFile
from gpu2npu.rulebook.rule import Rulebook


def has_trigger(source: bytes, rulebook: Rulebook, context: ProjectContext) -> bool:
    """Return whether a file contains a text that some rule could be for; without one it stays as it is. Raises
    ExpressionTimeError: the search for a rule's expression takes too long."""
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
        imported = imported_modules(names.facts)
        without = outside(rulebook, path, skips.file, imported, context.imported, partial(is_joined, names))
        table = rule_table(rulebook, context.version, without)
        if table.users_names:
            names = Names(file, context.project, wanted=table.users_names)
        matches = find_matches(names, context, table, skips)
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
