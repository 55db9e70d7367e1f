"""Import statements: what a rename does to them, and where a module that became necessary is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpu2npu.python.facts.record import FileFacts
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import closure, is_taken
from gpu2npu.python.project.project import EVERY_FILE, IMPORTS, Project
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Imported, Scope
from gpu2npu.python.tree.syntax import Import, member_of
from gpu2npu.rulebook.rule import Rulebook


class ImportSite(Struct, frozen=True):
    """An import statement that brings torch into the file.

    `names` are the packages and local names it is about, `is_plain` means that it is `import torch`, `is_edited` that
    it imports from the NPU's module now, `is_for_types` that it is under `if TYPE_CHECKING`."""

    statement: Import
    scope: Scope
    names: frozenset[str]
    is_plain: bool
    is_edited: bool
    is_for_types: bool


class Renamed(Struct, frozen=True):
    """One imported name under a rule: where it moves, `None` for a name that stays."""

    alias: ast.alias
    old: str
    new: str | None


def leaf(qualified: str) -> str:
    return qualified.rpartition(".")[2]


def parent(qualified: str) -> str:
    return qualified.rpartition(".")[0]


def may_rename_local(binding: Imported, new: str, scope: Scope, file: PythonFile) -> bool:
    """Return whether `from torch import cuda` may become `from torch import npu` with all its uses in this file.

    Not when it is bound to something else as well, or the new name is taken. Whether other files may take it from here
    is another question, `is_public`, which takes longer.
    """
    if binding.renamed:
        return False
    old = binding.alias.name
    same = all(
        isinstance(other, Imported) and other.qualified == binding.qualified for other in scope.bindings.get(old, ())
    )
    taken = any(new in other.bindings for other in file.scopes.values())
    return same and not taken


def is_public(names: Names, name: str, scope: Scope) -> bool:
    """Return whether another file may take a name of a scope from this one: a package offers all it has."""
    if scope.kind != "module":
        return False
    exports = names.facts.exports
    is_listed = exports is not None and (name in exports.names or not exports.is_whole)
    return names.path.endswith("__init__.py") or is_listed or is_taken(names.project, names.path, name)


def split_from_import(module: str, renamed: Sequence[Renamed], keep: Mapping[ast.alias, bool]) -> str:
    """The text of a from-import whose names no longer come from one module: one statement a module.

    `keep` says for each alias whether its local name must stay, and an `as` is needed.
    """
    groups: dict[str, list[str]] = {}
    for item in renamed:
        home = parent(item.new) if item.new else module
        name = leaf(item.new or item.old)
        local = item.alias.asname
        if local is None and item.new and keep[item.alias]:
            local = leaf(item.old)
        groups.setdefault(home, []).append(f"{name} as {local}" if local is not None and local != name else name)
    heads = {home: f"from {home} import" if home else "import" for home in groups}
    return "\n".join(f"{heads[home]} {', '.join(names)}" for home, names in groups.items())


def imported_modules(facts: FileFacts) -> frozenset[str]:
    """The modules that a file may load by absolute imports: of `from a import b`, both `a` and `a.b`."""
    return frozenset(module for module in facts.imports if not module.startswith("."))


def is_joined(names: Names, wanted: frozenset[str]) -> bool:
    """Return whether a file that imports join to this one imports one of some modules: one to which its imports lead,
    or those of a file that leads to it. What one file makes, another may hand to this one."""
    project = names.project
    if names.path in project.files:  # the name of a stored answer has it (project/cache/answers.py)
        return names.path in joined_files(project, wanted)
    project.consult(names.path, EVERY_FILE)
    return not _above(project, wanted).isdisjoint(project.imported_paths(names.facts, names.path))


def leads_to(names: Names, wanted: frozenset[str]) -> bool:
    """Return whether a file imports one of some modules, itself or through files of the project."""
    project = names.project
    if names.path not in project.files:
        return names.facts.imports_one_of(wanted)
    project.consult(names.path, IMPORTS)
    return names.path in _above(project, wanted)


def joined_files(project: Project, wanted: frozenset[str]) -> frozenset[str]:
    """The files to which the imports of files lead whose imports lead to one that imports one of some modules."""
    found = project.cached(("joined", wanted), lambda: closure(_above(project, wanted), project.imported_by))
    return found if found is not None else frozenset()


def _above(project: Project, wanted: frozenset[str]) -> frozenset[str]:
    """The files whose imports lead to one that imports one of some modules."""
    found = project.cached(
        ("above", wanted),
        lambda: closure(project.files_with(lambda facts: facts.imports_one_of(wanted)), project.importing),
    )
    return found if found is not None else frozenset()


def imported_packages(file: PythonFile) -> frozenset[str]:
    """The first parts of the modules that a file loads by absolute imports, anywhere in it."""
    modules: set[str] = set()
    for statement, _ in file.imports:
        if isinstance(statement, ast.Import):
            modules.update(alias.name for alias in statement.names)
        elif not statement.level:
            modules.add(statement.module or "")
    return frozenset(module.partition(".")[0] for module in modules)


def import_of(package: str, wanted: str | None) -> str:
    """The module to import so that code can spell `package`: what the rule wants imported, where that binds it."""
    return wanted if wanted is not None and wanted.partition(".")[0] == package else package


def imports_package(file: PythonFile, package: str) -> bool:
    """Return whether the file imports `package`, or something of it, anywhere already: enough to have it loaded."""
    return package in imported_packages(file)


def binds_module(file: PythonFile, module: str) -> bool:
    """Return whether the file has `import module` (or a submodule) at module level, so that it can be spelled out."""
    for statement, scope in file.imports:
        if isinstance(statement, ast.Import) and scope.kind == "module":
            names = [alias.name for alias in statement.names if alias.asname is None]
            if any(name == module or name.startswith(f"{module}.") for name in names):
                return True
    return False


def anchor(sites: Sequence[ImportSite]) -> tuple[ImportSite, bool] | None:
    """The import among those of torch in one scope, in source order, that the new import is put at; whether above it:
    below `import torch`, but above an import from the NPU's module, which exists only once the plugin is loaded."""
    usable = [site for site in sites if not site.is_for_types]
    if not usable:
        return None
    chosen = next((site for site in usable if site.is_plain), usable[0])
    for site in usable:
        if site.is_edited:
            return site, True
        if site is chosen:
            break
    return chosen, False


def without_own(rulebook: Rulebook, files: Iterable[str], root: str) -> Rulebook:
    """The rulebook without rules for the package that the project itself is, and import rules for those at its top: who
    uses a package that the project brings along is changed as who uses an installed one.

    `files` are its Python files, relative; `root` is the name of its folder, perhaps with a version.
    """
    own = {root}
    for path in files:
        parts = path.removeprefix("src/").split("/")
        own.add(parts[0] if len(parts) > 1 else parts[0].removesuffix(".py"))
    named = re.sub(r"-v?\d.*", "", root).replace("-", "_").lower()
    itself = {each for each in own if each.lower() == named} - {"torch", "torch_npu"}
    retained = [
        rule
        for rule in rulebook.rules
        if (rule.match.package or "").partition(".")[0] not in own
        and rule.match.subject.partition(".")[0] not in itself
    ]
    return Rulebook(tuple(retained), rulebook.roles)


def is_compiled(names: Names, package: str, name: str) -> bool:
    """Return whether a package of the project can have a name only as a module that is not written in Python."""
    if names.project.module_path(member_of(package, name), names.path) is not None:
        return False
    other = names.module(package)
    if other is None:  # a folder without __init__.py can have modules alone
        return not package.strip(".") and bool(names.project.files)
    file = other.file
    return file.path.endswith("__init__.py") and not (file.stars or name in file.module.bindings)
