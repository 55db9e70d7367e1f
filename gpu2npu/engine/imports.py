"""Import statements: what a rename does to them, and where a module that became necessary is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from gpu2npu.engine.scopes import Imported, Scope, Scopes, import_module
from gpu2npu.engine.tree import dotted_name, elements, string_value


@dataclass(frozen=True)
class Renamed:
    """One imported name under a rule: where it moves, `None` for a name that stays."""

    alias: cst.ImportAlias
    old: str
    new: str | None


def leaf(qualified: str) -> str:
    return qualified.rpartition(".")[2]


def parent(qualified: str) -> str:
    return qualified.rpartition(".")[0]


def may_rename_local(binding: Imported, new: str, scope: Scope, scopes: Scopes, is_public: bool) -> bool:
    """Whether `from torch import cuda` may become `from torch import npu` with all its uses in this file.

    Not when the name is re-exported (`is_public`), bound to something else as well, or the new name is taken.
    """
    if is_public or binding.renamed:
        return False
    old = dotted_name(binding.alias.name) or ""
    same = all(
        isinstance(other, Imported) and other.qualified == binding.qualified for other in scope.bindings.get(old, ())
    )
    taken = any(new in other.bindings for other in scopes.by_node.values())
    exported = scopes.module.bindings.get("__all__", ())
    listed = any(
        string_value(element) == old
        for definition in exported
        for element in elements(getattr(definition, "value", None) or cst.Tuple(()))
    )
    return same and not taken and not listed


def split_from_import(statement: cst.ImportFrom, module: str, renamed: list[Renamed], keep: Mapping[int, bool]) -> str:
    """The text of a from-import whose names no longer come from one module: one statement a module.

    `keep` tells for each alias, by id, whether its local name must stay, and an `as` is needed.
    """
    groups: dict[str, list[str]] = {}
    for item in renamed:
        target = item.new or item.old
        home = parent(target) if item.new else module
        name = leaf(target)
        local = dotted_name(item.alias.asname.name) if item.alias.asname is not None else None
        if local is None and item.new and keep[id(item.alias)]:
            local = leaf(item.old)
        groups.setdefault(home, []).append(f"{name} as {local}" if local is not None and local != name else name)
    heads = {home: f"from {home} import" if home else "import" for home in groups}
    return "\n".join(f"{heads[home]} {', '.join(names)}" for home, names in groups.items())


def has_comment(statement: cst.ImportFrom) -> bool:
    """Whether a comment stands inside the statement, where a rewrite would lose it."""
    return "#" in cst.Module(()).code_for_node(statement)


@dataclass(frozen=True)
class ImportSite:
    """An import statement that brings torch into the file.

    `line` is the statement line that holds it, `names` the packages and local names it is about, `plain` says that it
    is `import torch`, `edited` that it imports from the NPU's module now.
    """

    statement: cst.Import | cst.ImportFrom
    line: cst.CSTNode
    scope: Scope
    names: frozenset[str]
    plain: bool
    edited: bool
    typing_only: bool


def imported_modules(scopes: Scopes) -> frozenset[str]:
    """The modules the file may load: of `from a import b`, both `a` and `a.b`."""
    modules: set[str] = set()
    for statement, _ in scopes.imports:
        if isinstance(statement, cst.Import):
            modules.update(dotted_name(alias.name) or "" for alias in statement.names)
        elif not statement.relative:
            module = import_module(statement)
            modules.add(module)
            if not isinstance(statement.names, cst.ImportStar):
                modules.update(f"{module}.{dotted_name(alias.name)}" for alias in statement.names)
    return frozenset(modules)


def import_of(package: str, wanted: str | None) -> str:
    """The module to import so that code can spell `package`: what the rule wants imported, where that binds it."""
    return wanted if wanted is not None and wanted.partition(".")[0] == package else package


def imports_package(scopes: Scopes, package: str) -> bool:
    """Whether the file imports `package`, or something of it, anywhere already: enough to have it loaded."""
    return any(module.partition(".")[0] == package for module in imported_modules(scopes))


def binds_module(scopes: Scopes, module: str) -> bool:
    """Whether the file has `import module` (or a submodule of it) at module level, so that it can be spelled out."""
    for statement, scope in scopes.imports:
        if isinstance(statement, cst.Import) and scope.kind == "module":
            names = [dotted_name(alias.name) or "" for alias in statement.names if alias.asname is None]
            if any(name == module or name.startswith(f"{module}.") for name in names):
                return True
    return False


def anchor(sites: list[ImportSite]) -> tuple[ImportSite, bool] | None:
    """Of the torch imports of one scope, in source order: which one the new import goes to, and whether above it.

    It goes below `import torch`. Where a statement further up already imports from the NPU's module, which exists
    only once the plugin is loaded, it goes above that one.
    """
    usable = [site for site in sites if not site.typing_only]
    if not usable:
        return None
    chosen = next((site for site in usable if site.plain), usable[0])
    for site in usable:
        if site.edited:
            return site, True
        if site is chosen:
            break
    return chosen, False
