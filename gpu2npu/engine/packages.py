"""Rules about imported packages: a finding at the import, or the import taken out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import libcst as cst

from gpu2npu.engine.edits import Edit
from gpu2npu.engine.matches import Found, Matches
from gpu2npu.engine.names import Names
from gpu2npu.engine.scopes import import_module
from gpu2npu.engine.table import RuleTable
from gpu2npu.engine.tree import children, dotted_name, last_name, string_value
from gpu2npu.records import FindingKind, Operation
from gpu2npu.rulebook.rule import ImportMatch, Rule, Rulebook

_IMPORTERS = frozenset({"import_module", "__import__", "importorskip"})
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_INSTALLED = re.compile(r"available|installed|(^|_)has_\w", re.IGNORECASE)  # in what is asked before an import


def without_own(rulebook: Rulebook, files: Iterable[str], root: str) -> Rulebook:
    """The rulebook without import rules for packages that the project itself is, or has at its top.

    `files` are its Python files, relative; `root` is the name of its folder.
    """
    own = {root}
    for path in files:
        parts = path.removeprefix("src/").split("/")
        own.add(parts[0] if len(parts) > 1 else parts[0].removesuffix(".py"))
    kept = [
        rule
        for rule in rulebook.rules
        if not (isinstance(rule.match, ImportMatch) and rule.match.module.partition(".")[0] in own)
    ]
    return Rulebook(tuple(kept), rulebook.roles)


class Packages:
    """Applies import rules in one module. `above` is the walk's own list of the nodes above the current one."""

    def __init__(self, names: Names, table: RuleTable, matches: Matches, above: list[cst.CSTNode]) -> None:
        self.names = names
        self.table = table
        self.matches = matches
        self.above = above
        self.reported: set[tuple[str, FindingKind]] = set()

    def statement(self, node: cst.Import | cst.ImportFrom) -> bool:
        """Judge an import statement; tells whether it is taken out as a whole."""
        self.extensions(node)
        if not self.table.packages or (isinstance(node, cst.ImportFrom) and node.relative):
            return False
        matched = [(alias, self.rule(name)) for alias, name in _imported(node)]
        for rule in dict.fromkeys(rule for _, rule in matched if rule is not None):
            aliases = [alias for alias, found in matched if found is rule]
            module = next(name for alias, name in _imported(node) if alias is aliases[0])
            self.report(rule, node, module)
            if not rule.then.remove or self.is_optional():
                continue
            if len(aliases) == len(matched):
                self.remove(rule, node)
                return True
            if rule.then.report is None:
                message = f"{rule.why} The statement imports something else as well: take this out by hand."
                self.matches.add(Found(node, rule.id, FindingKind.REVIEW, module, message), self.above)
        return False

    def extensions(self, node: cst.Import | cst.ImportFrom) -> None:
        """Judge modules by how their names end, where the project has no such module in Python: compiled ones."""
        if not self.table.endings:
            return
        for alias, name in _imported(node):
            top = name.partition(".")[0]
            member = dotted_name(alias.name) if isinstance(alias, cst.ImportAlias) else None
            if top and self.table.package_rule(name) is None and (rule := self.table.ending_rule(top)) is not None:
                if self.names.context.module_path(top, self.names.path) is None:
                    self.report(rule, node, top)
            elif isinstance(node, cst.ImportFrom) and member is not None:
                rule = self.table.ending_rule(member)
                if rule is not None and self._is_compiled(import_module(node), member):
                    self.report(rule, node, name)

    def _is_compiled(self, package: str, name: str) -> bool:
        """Whether a package of the project can have the name only as a module that is not written in Python."""
        dotted = f"{package}{'' if package.endswith('.') else '.'}{name}"
        if self.names.context.module_path(dotted, self.names.path) is not None:
            return False
        other = self.names.module(package)
        if other is None:  # a folder without __init__.py can have modules alone
            return not package.strip(".") and bool(self.names.context.files)
        return other.path.endswith("__init__.py") and not (
            other.scopes.star_imports or name in other.scopes.module.bindings
        )

    def rule(self, module: str) -> Rule | None:
        """The rule for a module, unless the project has one of that name itself."""
        rule = self.table.package_rule(module)
        return None if rule is None or self._has_own(module.partition(".")[0]) else rule

    def _has_own(self, top: str) -> bool:
        """Whether the project has a module of that name where an absolute import finds it: within a package it lies
        under the package's own name, as `kernels.triton` does."""
        context = self.names.context
        path = context.module_path(top, self.names.path)
        if path is None:
            return False
        holder = path.removesuffix("/__init__.py").rpartition("/")[0]
        return not holder or f"{holder}/__init__.py" not in context.files

    def call(self, node: cst.Call) -> None:
        """`importlib.import_module("flash_attn")` and its like."""
        if node.args and last_name(node.func) in _IMPORTERS:
            module = string_value(node.args[0].value)
            rule = self.rule(module) if module is not None else None
            if rule is not None:
                self.report(rule, node.args[0].value, module or "")

    def report(self, rule: Rule, node: cst.CSTNode, module: str) -> None:
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        report = rule.then.report
        if report is None or rule.then.keep:
            return
        kind, message = report.kind, report.message
        if kind is not FindingKind.REVIEW and self.is_optional():
            kind, message = FindingKind.REVIEW, f"{message} The import is optional here: the program has another way."
        if (rule.id, kind) not in self.reported:  # once a file says it
            self.reported.add((rule.id, kind))
            self.matches.add(Found(node, rule.id, kind, module, message), self.above)

    def is_optional(self) -> bool:
        """Whether the program goes on without the import: it catches the error, or asks first."""
        for node, below in zip(self.above, [*self.above[1:], None], strict=True):
            if isinstance(node, cst.Try) and below is node.body and any(map(_catches, node.handlers)):
                return True
            if isinstance(node, cst.If) and below is node.body and _asks_for_package(node.test):
                return True
        return False

    def remove(self, rule: Rule, node: cst.Import | cst.ImportFrom) -> None:
        """Take the statement out with its line; where the block would be empty, `pass` stands in for it."""
        line = self.above[-1]
        block = self.above[-2] if len(self.above) > 1 else line
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        if alone and len(children(block)) > 1 and isinstance(block, (cst.Module, cst.IndentedBlock)):
            edit = Edit(line, "", rule.id, rule.why, shown=node, operation=Operation.DELETE)
        else:
            edit = Edit(node, "pass", rule.id, rule.why)
        self.matches.add(edit, self.above)


def _imported(node: cst.Import | cst.ImportFrom) -> list[tuple[cst.CSTNode, str]]:
    """What a statement imports, with the whole dotted name of each."""
    if isinstance(node, cst.Import):
        return [(alias, dotted_name(alias.name) or "") for alias in node.names]
    module = import_module(node)
    if isinstance(node.names, cst.ImportStar):
        return [(node.names, module)]
    package = module if module.endswith(".") else f"{module}."
    return [(alias, f"{package}{dotted_name(alias.name)}") for alias in node.names]


def _asks_for_package(test: cst.BaseExpression) -> bool:
    """Whether a condition is about what is installed: `is_apex_available()`, `has_horovod and name == "hvd"`."""
    if isinstance(test, cst.BooleanOperation):
        return isinstance(test.operator, cst.And) and any(map(_asks_for_package, (test.left, test.right)))
    return _INSTALLED.search(last_name(test) or "") is not None


def _catches(handler: cst.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds: Sequence[cst.CSTNode] = [handler.type]
    if isinstance(handler.type, cst.Tuple):
        kinds = [element.value for element in handler.type.elements]
    return any(last_name(kind) in _CAUGHT for kind in kinds)
