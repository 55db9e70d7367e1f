"""One file of any kind in, a MigratedFile out. No I/O."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module

from msgspec.structs import replace

from gpu2npu.engine import Migration, ProjectContext, may_have_trigger, migrate_python
from gpu2npu.engine.knowledge import Knowledge, SetVariable, knowledge_for
from gpu2npu.engine.marks import Mark, merged, review
from gpu2npu.engine.skips import Skips, find_skips
from gpu2npu.engine.table import outside
from gpu2npu.formats import kinds
from gpu2npu.formats.code_installs import install_findings, may_install
from gpu2npu.formats.dependencies import conda_dependencies, setup_cfg_dependencies, toml_dependencies
from gpu2npu.formats.dockerfile import dockerfile_marks
from gpu2npu.formats.ini_reader import read_ini
from gpu2npu.formats.json_reader import read_json
from gpu2npu.formats.kinds import FileKind, kind_of
from gpu2npu.formats.makefile import makefile_marks
from gpu2npu.formats.marks import records, resolved, with_edits
from gpu2npu.formats.nodes import FormatError, Items, Node, entry, without_data
from gpu2npu.formats.notebook import migrate_notebook
from gpu2npu.formats.required_packages import is_for_others
from gpu2npu.formats.requirements import lock_marks, requirements_marks
from gpu2npu.formats.settings import data_marks, data_values, expression_marks, settings_marks, tag_marks
from gpu2npu.formats.shell import shell_marks
from gpu2npu.formats.toml_reader import read_toml
from gpu2npu.formats.yaml_reader import read_yaml
from gpu2npu.python.facts.values import DataValues
from gpu2npu.python.text.offsets import Lines
from gpu2npu.python.text.source import SourceFile, SourceReadError, read_settings, read_source
from gpu2npu.records import Edit, FileRewrite, FindingKind, Found, MigratedFile, Severity, Span
from gpu2npu.rulebook.expression import ExpressionTimeError
from gpu2npu.rulebook.in_code import PLUGIN
from gpu2npu.rulebook.rule import Rulebook

# A larger file is data and no configuration: it is not parsed, only searched.
LARGEST = 5_000_000
_TOO_LARGE = "it is too large for a configuration and was not read: look for devices in it"
_DEVICE = re.compile(r"[\"']?npu(:.*)?[\"']?")
# What dotenv reads with blanks, and no shell.
_SPACED = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)(?:[ \t]+=[ \t]*|=[ \t]+)"
    r"(?P<quote>[\"']?)(?P<value>[^\s\"'#]+)(?P=quote)[ \t]*(?:#.*)?\r?$",
    re.MULTILINE,
)
_WITH_PYTHON = (FileKind.JSON, FileKind.YAML)
# MONAI's `$torch.device('cuda')`, `${eval:"torch.cuda.is_available()"}`, `!!python/name:torch.cuda.empty_cache`
_EXPRESSION = re.compile(
    r"""[\s"']\$(?!\{)[^\n]*(?:cuda|nccl|gpu)|\btorch\.(?:cuda\.\w+|device)\(|\.cuda\(|!!python/[^\s\[]*torch\.cuda"""
)
_IN_EXPRESSION = ("$", "torch.", ".cuda(")  # each has one of these, which are found many times as fast
_COMPARED = "Conditions of this workflow compare the entry: change it here and in them, or in neither."
# The key of an entry, also of one in a list, as the text before it ends.
_KEY = re.compile(r"(\w+)[\"']?:[ \t]*(?:\[[^\]\n:]*|(?:\r?\n[ \t]*-[^\n:]*)*\r?\n[ \t]*-[ \t]*)?[\"']?$")
_TESTED = r"{1}{0}\s*[!=]=|[!=]=\s*{1}{0}\b|(?:contains|endsWith|startsWith)\(\s*{1}{0}\b"
_GIVEN = r"(\w+)[\"']?:[ \t]*[\"']?\${{{{\s*{1}{0}\s*}}}}"  # another name of an entry
_CONTEXTS = r"\b(?:matrix|env)\."  # https://docs.github.com/en/actions/reference/workflows-and-actions/contexts
_NO_PLUGIN = (
    "No Python file of this project imports torch_npu or would after the migration, and PyTorch below 2.5 does not "
    "load it by itself: add `import torch_npu` after `import torch` in the program that reads this."
)


def may_concern(source: bytes, path: str, rulebook: Rulebook, context: ProjectContext) -> bool:
    """Return whether a file contains a word that some rule could be for; without one it stays as it is."""
    kind = kind_of(path, source[: kinds.HEAD_BYTES])
    if kind is None:
        return False
    if kind is FileKind.PYTHON:
        return may_have_trigger(source, rulebook, context) or may_install(source)
    if b"\0" in source[:4]:  # a wide encoding
        source = read_settings(source, path).text.encode("utf-8", "surrogatepass")
    if kind is FileKind.NOTEBOOK and (may_have_trigger(source, rulebook, context) or may_install(source)):
        return True
    if kind is FileKind.REQUIREMENTS:  # short, and its names are written in many ways
        return True
    if b"torch" in source and (kind in _INSTALLING or b"install" in source):
        return True
    knowledge = knowledge_for(rulebook, context.version)
    if len(source) > LARGEST:  # it is reported, at most
        return any(rule.text.encode() in source for rule in knowledge.table.strings)
    return knowledge.trigger.may_be_in(source)


def migrate_file(
    source: bytes, path: str, rulebook: Rulebook, context: ProjectContext, rewrite: FileRewrite | None = None
) -> MigratedFile:
    """Apply the rules to one file, of the kind that its path says; `rewrite` is for one of Python.

    A file that a rule's expression cannot be searched for in time comes back with that as its failure."""
    try:
        if kind_of(path, source[: kinds.HEAD_BYTES]) is FileKind.PYTHON:
            migrated = migrate_python(source, path, rulebook, context, rewrite).record
            return _with_installs(migrated, source, rulebook, context) if may_install(source) else migrated
        return _migrate_other(source, path, rulebook, context).record
    except ExpressionTimeError as error:
        return MigratedFile(path, failure=str(error))


def _with_installs(migrated: MigratedFile, source: bytes, rulebook: Rulebook, context: ProjectContext) -> MigratedFile:
    """The record of a Python file with the findings about what its code installs."""
    try:
        file = read_source(source, migrated.path)
    except SourceReadError:  # the failure of the record, where anything is to be migrated
        return migrated
    without = outside(rulebook, migrated.path, find_skips(file.text).file, frozenset(), context.imported)
    knowledge = dataclasses.replace(knowledge_for(rulebook, context.version, without), uses_device=context.uses_device)
    found = install_findings(file, context.project, knowledge)
    return replace(migrated, findings=merged(migrated.findings, found))


def values_in(source: bytes, path: str, rulebook: Rulebook, context: ProjectContext) -> DataValues | None:
    """The values of a configuration that some string rule could be for; None of any other file."""
    kind = kind_of(path)
    if kind not in kinds.TREES or len(source) > kinds.SMALL or kinds.is_lock(path):
        return None
    knowledge = knowledge_for(rulebook, context.version)
    text = read_settings(source, path).text
    words = {rule.text for rule in knowledge.table.strings if rule.text in text}
    if not words:
        return None
    try:
        marks = _marks(text, path, kind, dataclasses.replace(knowledge, text=text, uses_device=context.uses_device))
        values = data_values(read_tree(text, kind), text, _compared(marks, text))
    except (FormatError, ExpressionTimeError, RecursionError):
        return None
    held = (*values.facts.labels, *(each.value or "" for each in values.facts.texts))  # and not in a comment alone
    return values if any(word in each for each in held for word in words) else None


def read_tree(text: str, kind: FileKind) -> list[Node]:
    """The roots of a file of keys and values, one for each document. Raises FormatError."""
    module, function = kinds.TREES[kind].split(":")
    root: Node | list[Node] = getattr(import_module(f"gpu2npu.formats.{module}"), function)(text)
    return root if isinstance(root, list) else [root]


def gives_device(source: bytes, path: str, rulebook: Rulebook, context: ProjectContext) -> bool:
    """Return whether a file that is not Python gives programs a device, once migrated; a notebook is a program."""
    if kind_of(path, source[: kinds.HEAD_BYTES]) in (FileKind.PYTHON, FileKind.NOTEBOOK):
        return False
    ids = _of_devices(rulebook)
    changes = migrate_file(source, path, rulebook, context).changes
    return any(_DEVICE.fullmatch(change.after) and change.rule in ids for change in changes)


@lru_cache(maxsize=16)
def _of_devices(rulebook: Rulebook) -> frozenset[str]:
    """The ids of the rules whose "npu" is a device of torch: of users' rules those for strings in that role."""
    return frozenset(rule.id for rule in rulebook.rules if rule.builtin or "device" in rule.match.roles)


def migrate_part(text: str, path: str, rulebook: Rulebook, context: ProjectContext) -> Migration:
    """Apply the rules to a text that another file holds, of the kind that its own path says."""
    source = text.encode("utf-8", "surrogatepass")
    if kind_of(path, source[: kinds.HEAD_BYTES]) is FileKind.PYTHON:
        return migrate_python(text, path, rulebook, context)
    return _migrate_other(source, path, rulebook, context)


def _migrate_other(source: bytes, path: str, rulebook: Rulebook, context: ProjectContext) -> Migration:
    """Apply the rules to a file that is not Python."""
    kind = kind_of(path, source[: kinds.HEAD_BYTES])
    if kind is None or not may_concern(source, path, rulebook, context):
        return Migration(MigratedFile(path))
    file = read_settings(source, path)
    text = file.text
    skips = find_skips(text) if kind not in (FileKind.JSON, FileKind.NOTEBOOK) else Skips()
    without = outside(rulebook, path, skips.file, frozenset(), context.imported)
    is_script = kind is FileKind.SHELL and not kinds.is_environment_file(path)
    own = unexported_variables(text) if is_script else frozenset()
    knowledge = knowledge_for(rulebook, context.version, without)
    knowledge = dataclasses.replace(knowledge, text=text, own=own, uses_device=context.uses_device)
    if kind is FileKind.NOTEBOOK:
        result, edited = _notebook(text, path, rulebook, context, knowledge)
        content = None if result.content is None else file.encode(result.content.decode())
        return Migration(replace(result, content=content), edited)
    marks = _marks(text, path, kind, knowledge)
    may_have_python = kind in _WITH_PYTHON and len(text) <= LARGEST and any(part in text for part in _IN_EXPRESSION)
    if may_have_python and _EXPRESSION.search(text) is not None:
        marks += _python_marks(text, kind, rulebook, context)
    marks = _compared(marks, text)
    if path in context.data:
        read = list(data_marks(read_tree(text, kind), path, knowledge, context))
        places = {mark.place for mark in read}
        stay = [mark.place for mark in read if isinstance(mark, Found)]
        marks = [
            mark
            for mark in marks
            if mark.place not in places and not any(start <= mark.place[0] < end for start, end in stay)
        ] + read
    if not context.has_plugin:
        marks += _without_plugin(marks, rulebook)
    lines = Lines.of(text)
    spans = ((mark, _line_of(mark, lines)) for mark in marks)
    marks = resolved(mark for mark, span in spans if not skips.covers(mark.rule, span.start_line, span.end_line))
    return _file(file, marks, rulebook)


def _python_marks(text: str, kind: FileKind, rulebook: Rulebook, context: ProjectContext) -> list[Mark]:
    try:
        roots = read_tree(text, kind)
    except FormatError:  # it is reported already
        return []
    tags = tag_marks(text, rulebook, context) if kind is FileKind.YAML else ()
    return [*expression_marks(roots, rulebook, context), *tags]


def _compared(marks: list[Mark], text: str) -> list[Mark]:
    """Marks with findings in place of edits of entries of a workflow's matrix, or of its variables, that conditions
    compare: `matrix.device ==`, `env.DEVICE ==`."""
    return [_if_compared(mark, text) for mark in marks] if marks and re.search(_CONTEXTS, text) is not None else marks


def _if_compared(mark: Mark, text: str) -> Mark:
    key = _KEY.search(text[: mark.place[0]])
    if not isinstance(mark, Edit) or key is None:
        return mark
    names = [key[1], *re.findall(_GIVEN.format(key[1], _CONTEXTS), text)]  # DEVICE: ${{ matrix.device }}
    if not any(re.search(_TESTED.format(each, _CONTEXTS), text) for each in names):
        return mark
    return Found(mark.place, mark.rule, FindingKind.REVIEW, text[slice(*mark.place)], _COMPARED, Severity.CHANGE)


def _without_plugin(marks: Sequence[Mark], rulebook: Rulebook) -> list[Mark]:
    """The finding at the first device that a file gives to programs none of which loads torch_npu."""
    edits = [mark for mark in marks if isinstance(mark, Edit) and mark.rule in _of_devices(rulebook)]
    devices = [mark for mark in edits if _DEVICE.fullmatch("".join(map(str, mark.pieces)))]
    return [
        Found(mark.place, PLUGIN, FindingKind.REVIEW, "torch_npu", _NO_PLUGIN, Severity.CHANGE) for mark in devices[:1]
    ]


def _line_of(mark: Mark, lines: Lines) -> Span:
    """Return the lines of a mark.

    What is inserted, as torch-npu is after torch, belongs to the line it is behind.
    """
    start, end = mark.place
    last = max(end - 1, 0)
    return lines.span(min(start, last), last)


def _notebook(text: str, path: str, rulebook: Rulebook, context: ProjectContext, knowledge: Knowledge) -> Migration:
    try:
        return migrate_notebook(text, path, rulebook, context, knowledge)
    except FormatError as error:
        mentions = (_unread(text, knowledge, str(error), form) for form in (_VALUE, r"\.(?P<value>{0})\b"))
        return Migration(MigratedFile(path, failure=str(error) if any(mentions) else None))


def _file(file: SourceFile, marks: list[Mark], rulebook: Rulebook) -> Migration:
    changes, findings = records(file.text, marks)
    rules = {mark.rule for mark in marks if isinstance(mark, Edit)}
    traits = {rule.then.trait for rule in rulebook.rules if rule.id in rules and rule.then.trait is not None}
    edited = with_edits(file.text, marks) if changes else None
    content = file.encode(edited.text) if edited is not None else None
    return Migration(MigratedFile(file.path, content, changes, findings, traits=frozenset(traits)), edited)


def _marks(text: str, path: str, kind: FileKind, knowledge: Knowledge) -> list[Mark]:
    if len(text) > LARGEST:
        return _unread(text, knowledge, _TOO_LARGE)
    try:
        if kind in _READERS:
            return _READERS[kind](text, path, knowledge)
        words = _words(text, knowledge)
        return [mark for root in read_tree(text, kind) for mark in _settings(root, words, knowledge)]
    except FormatError as error:
        return _unread(text, knowledge, str(error))


# A value in a configuration.
_VALUE = r"[:=\[,][ \t]*[\"']?(?P<value>{0})(?::\d+)?[\"':]?[ \t]*(?=[,\]\n}}]|$)"


def _unread(text: str, knowledge: Knowledge, reason: str, form: str = _VALUE) -> list[Mark]:
    """Report a file that cannot be read only if it mentions a device or backend where a value may be."""
    for rule in knowledge.table.strings:
        mention = re.search(form.format(re.escape(rule.text)), text)
        if mention is not None and rule.role.words:
            message = f"The file stays as it is: {reason}. Look for this and similar code in it."
            return [review(rule.rule, mention.start("value"), mention.end("value"), mention["value"], message)]
    return []


def _shell(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    if kinds.is_makefile(path):
        return makefile_marks(text, knowledge)
    marks = shell_marks(text, knowledge)
    for given in _SPACED.finditer(text) if kinds.is_environment_file(path) else ():
        value = SetVariable(given["value"], given.start("value"))
        marks += knowledge.variable(given["name"], given.start("name"), value)
        marks += knowledge.value(given["name"], given["value"], given.start("value"))
    return marks


def _yaml(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    marks: list[Mark] = []
    words = _words(text, knowledge)
    for document in read_yaml(text):
        marks += _settings(document, words, knowledge)
        if isinstance(entry(document, "dependencies"), Items):
            marks += conda_dependencies(document, text, knowledge)
    return marks


def _json(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    words = _words(text, knowledge)
    return _settings(read_json(text, words), words, knowledge)


def _words(text: str, knowledge: Knowledge) -> list[int] | None:
    """The offsets of what rules could be for; None for a text that is too small for data."""
    return knowledge.trigger.places_in(text) if len(text) > kinds.SMALL else None


def _settings(root: Node, words: Sequence[int] | None, knowledge: Knowledge) -> list[Mark]:
    return settings_marks(root if words is None else without_data(root, words), knowledge)


def _toml(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    root = read_toml(text)
    if kinds.is_lock(path):
        return list(lock_marks(root, knowledge))
    return _settings(root, _words(text, knowledge), knowledge) + toml_dependencies(root, text, knowledge)


def _ini(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    root = read_ini(text)
    marks = settings_marks(root, knowledge)
    if path.rpartition("/")[2] == "setup.cfg":
        marks += setup_cfg_dependencies(root, text, knowledge)
    return marks


def _requirements(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    name = path.rpartition("/")[2].lower()
    installs = "constraint" not in name and not is_for_others(name.partition(".")[0])
    return requirements_marks(text, knowledge, installs)


def _dockerfile(text: str, path: str, knowledge: Knowledge) -> list[Mark]:
    return dockerfile_marks(text, knowledge)


_Reader = Callable[[str, str, Knowledge], list[Mark]]
# The kinds of files that have more in them than keys and values, or are read in part.
_READERS: dict[FileKind, _Reader] = {
    FileKind.SHELL: _shell,
    FileKind.YAML: _yaml,
    FileKind.JSON: _json,
    FileKind.TOML: _toml,
    FileKind.INI: _ini,
    FileKind.REQUIREMENTS: _requirements,
    FileKind.DOCKERFILE: _dockerfile,
}
# Kinds in which a torch that is installed asks for a torch-npu beside it.
_INSTALLING = frozenset({FileKind.TOML, FileKind.INI, FileKind.YAML})


# A line that sets a variable and does nothing else, and what hands variables to programs.
_SET = re.compile(
    r"^[ \t]*(?P<name>[A-Z]\w*)[ \t]*[:?+]?="
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|\"']*|[ \t][^\n]*)[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_EXPORT = re.compile(r"(?:\b(?:export|declare|typeset|env|ENV)|(?<!\S)-(?:x|e|-env))\b[^\n]*|\bset[ \t]+-\w*a")


def unexported_variables(text: str) -> frozenset[str]:
    """The variables that a script or makefile sets and does not export: `CUDA_FLAG=--cuda`."""
    exported = " ".join(match[0] for match in _EXPORT.finditer(text))
    if re.search(r"\bset[ \t]", exported) is not None:
        return frozenset()
    names = {match["name"] for match in _SET.finditer(text)}
    return frozenset(name for name in names if re.search(rf"\b{name}\b", exported) is None)
