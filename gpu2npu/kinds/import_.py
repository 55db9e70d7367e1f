"""Rules for imported packages, and for what installs them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from gpu2npu.distributions import normalised
from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.imports import is_compiled
from gpu2npu.engine.rewriting.code_imports import CodeImports
from gpu2npu.engine.rewriting.name_uses import is_type_checking
from gpu2npu.engine.rewriting.statements import added, removal
from gpu2npu.python.facts.outline import is_caught
from gpu2npu.python.facts.reading import IMPORTERS
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import (
    IMPORTS,
    Import,
    import_module,
    imported_names,
    last_name,
    local_name,
    string_value,
)
from gpu2npu.records import Edit, FindingKind, Found, Severity
from gpu2npu.rulebook.in_code import BUILT, WHY
from gpu2npu.rulebook.match import Evidence, Json, Match, leaf, listed, spellings
from gpu2npu.rulebook.rule import Addition, Report, Rule, Rulebook, Then

if TYPE_CHECKING:
    from gpu2npu.engine.line_sites import Site
    from gpu2npu.python.meaning.names import Names


class ImportMatch(Match, frozen=True):
    """An import of a package, and its name in requirements; `*_cuda` is any module with that ending, `*_cuda_*` any
    with that part, except Python modules of the project."""

    module: str
    distributions: frozenset[str] = frozenset()

    key = "import"
    shape: ClassVar[Json] = {
        "import": {
            "description": "A package or module that is imported, with everything under it; *_cuda is any by that "
            "ending, *_cuda_* any with that part.",
            "type": "string",
            "pattern": "^(\\*\\w+\\*?|[A-Za-z_]\\w*(\\.[A-Za-z_]\\w*)*)$",
        },
        "distributions": {
            "description": "The names it is installed by, as in requirements.txt.",
            "$ref": "#/$defs/words",
        },
    }
    actions = ("remove", "add", "own_devices", "plugin")
    additions = ("statement",)
    starter: ClassVar[Json] = {
        "$comment": "An import of a package: here only reported, with what to do about it.",
        "why": "The package has CUDA kernels alone.",
        "match": {"import": "fastlib_cuda", "distributions": ["fastlib-cuda"]},
        "then": {"report": {"kind": "unsupported", "message": "Use fastlib_ascend, version 2 or later."}},
        "examples": [{"keep": "import fastlib_cuda\n", "reports": "unsupported"}],
    }

    @property
    def is_ending(self) -> bool:
        """Return whether it is for modules of many packages, by how their names end."""
        return self.module.startswith("*")

    @property
    def evidence(self) -> Evidence:
        if not self.is_ending and leaf(self.module).startswith("_"):  # also `from . import _C`
            return Evidence(pattern=rf"\b{leaf(self.module)}\b")
        if not self.is_ending:
            return Evidence(self.module)
        part = self.module.strip("*")
        return Evidence(pattern=part if self.module.endswith("*") else rf"{part}\b")

    @property
    def outside_python(self) -> tuple[Evidence, ...]:
        return tuple(each for name in sorted(self.distributions) for each in spellings(normalised(name)))

    @property
    def distribution_names(self) -> frozenset[str]:
        return self.distributions

    @property
    def text(self) -> str:
        names = f", installed as {listed(self.distributions)}" if self.distributions else ""
        if self.is_ending:
            return f"imports of modules `{self.module}` that the project does not have in Python{names}"
        return f"imports of `{self.module}` and of what is under it{names}"

    @property
    def subject(self) -> str:
        return f"import {self.module}"

    @property
    def word(self) -> str:
        return leaf(self.module)

    def severity(self, kind: FindingKind) -> Severity:
        """A package with a version for the NPU belongs to the environment; other packages have no replacement."""
        return Severity.BLOCKER if kind is FindingKind.UNSUPPORTED else Severity.ENVIRONMENT

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        add = entry["then"].get("add", {})
        if add and entry["match"]["import"].startswith("*"):
            yield "then.add", "is for one package; an ending of names is for many"
        if add.get("place", "before") not in ("before", "after"):
            yield "then.add.place", f"{add['place']!r} is not a place beside an import; possible: 'before', 'after'"

    def meets(self, other: Match) -> bool:
        return isinstance(other, ImportMatch) and self.module == other.module

    def why_not(self, site: Site, names: Names) -> str | None:
        statement = site.file.parents.get(site.node)
        imported = imported_names(statement) if isinstance(statement, IMPORTS) else []
        if any(f"{name}.".startswith(f"{self.module}.") for _, name in imported):
            return "a package is reported once in a file, where it is first imported"
        return "another module is imported here" if imported else None

    @property
    def package(self) -> str:
        return self.module

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        packages = Packages(work)
        return {ast.Import: packages.statement, ast.ImportFrom: packages.statement, ast.Call: packages.call}


def rules_for_built(modules: Mapping[str, tuple[FindingKind, str]], rulebook: Rulebook) -> Rulebook:
    """The rulebook with rules for modules that the project builds from CUDA sources, each with what is said of it;
    a rule that knows such a module comes first."""
    known = {rule.match.package for rule in rulebook.rules}
    rules = [
        Rule(BUILT, WHY[BUILT], match, Then(report=Report(kind, message, match.severity(kind))), ())
        for module, (kind, message) in sorted(modules.items())
        if module not in known
        for match in [ImportMatch(module)]
    ]
    return Rulebook((*rulebook.rules, *rules), rulebook.roles) if rules else rulebook


_FINDERS = frozenset({"find_spec", "find_loader", "distribution", "version"})
_OPTIONAL = "The import is optional here: the program has another way."
_INSTALLED = re.compile(
    r"available|installed|enabled|(^|_)(has|have|with)_\w", re.IGNORECASE
)  # in a condition before an import
_SHORT = 3  # characters of a package's name that other names have by chance


class Packages:
    """Applies import rules in one file."""

    def __init__(self, work: FileRules) -> None:
        self.names = work.names
        self.file = work.file
        self.table = work.table
        self.matches = work.matches
        self.reported: set[tuple[str, FindingKind, str]] = set()
        self.extended: set[str] = set()  # rules that have added their statement

    def statement(self, node: Import, _: Scope) -> bool:
        """Judge an import statement; gives whether it is taken out as a whole."""
        self.extensions(node)
        if not self.table.packages:
            return False
        if isinstance(node, ast.ImportFrom) and node.level:
            self.built(node)
            return False
        matched = [(name, self.rule(name)) for _, name in imported_names(node)]
        for rule in dict.fromkeys(rule for _, rule in matched if rule is not None):
            named = [name for name, found in matched if found is rule]
            self.report(rule, node, node, named[0])
            if rule.then.add is not None:
                self.add(rule, rule.then.add, node)
            if not rule.then.remove or self.is_optional(node, named[0]):
                continue
            bound = {local_name(alias, node) for alias in node.names}
            reading = (each for each in self.file.unordered().get(ast.Name, ()) if isinstance(each, ast.Name))
            is_read = any(each.id in bound for each in reading)
            if len(named) == len(matched) and not is_read:
                self.matches.edit(removal(self.file, node, rule.id, rule.why))
                return True
            if rule.then.report is None:
                message = (
                    f"{rule.why} Other code of this file uses it: take this out by hand."
                    if is_read
                    else f"{rule.why} The statement imports something else as well: take this out by hand."
                )
                self.matches.review(rule, self.file.bounds(node), named[0], message)
        return False

    def built(self, node: ast.ImportFrom) -> None:
        """Judge a relative import: `from . import _C` of a module that the project builds for the package."""
        for alias in node.names:
            qualified = "." * node.level + ".".join(filter(None, [node.module, alias.name]))
            rule = self.table.built_rule(qualified, self.names.path)
            module = rule.match.package if rule is not None else None
            if rule is not None and module is not None and module.endswith(alias.name):
                self.report(rule, node, node, module)

    def add(self, rule: Rule, add: Addition, node: Import) -> None:
        """Add a statement beside the first import of a package in the file, with the import that it needs."""
        statements = {self.file.code(each) for each in self.file.block(node)}
        if rule.id in self.extended or add.code in statements:
            return
        self.extended.add(rule.id)
        imports = CodeImports(self.names, may_edit=False, spelling=set())
        written = imports.written(rule, self.file.scope_of(node), add.code)
        edit: Edit | None = None
        if written is not None:
            missing = tuple(module for module in written[1] if not self._is_imported(module, node))
            separator = f"{self.file.newline}{self.file.indentation(self.file.bounds(node)[0])}"
            lines = [*(f"import {module}" for module in missing), written[0]]
            edit = added(self.file, node, rule, add, separator.join(lines), ())
        if edit is not None:
            self.matches.edit(replace(edit, imports=missing))
        else:
            message = f"{rule.why} There is no line of its own for `{add.code}` here: add it by hand."
            self.matches.review(rule, self.file.bounds(node), self.file.code(node), message)

    def _is_imported(self, module: str, node: Import) -> bool:
        """Return whether a module is spelled out by an import at the top of the file up to this statement."""
        end = self.file.bounds(node)[1]
        names = [
            alias.name
            for statement, scope in self.file.imports
            if isinstance(statement, ast.Import) and scope.kind == "module" and self.file.bounds(statement)[1] <= end
            for alias in statement.names
            if alias.asname is None
        ]
        return any(name == module or name.startswith(f"{module}.") for name in names)

    def extensions(self, node: Import) -> None:
        """Judge modules by how their names end, where the project has no such module in Python: compiled ones."""
        if not self.table.endings:
            return
        for alias, name in imported_names(node):
            top = name.partition(".")[0]
            if (rule := self._ending(name)) is not None:
                self.report(rule, node, node, top)
            elif isinstance(node, ast.ImportFrom) and alias.name != "*":
                rule = self.table.ending_rule(alias.name)
                if rule is not None and is_compiled(self.names, import_module(node), alias.name):
                    self.report(rule, node, node, name)

    def rule(self, module: str) -> Rule | None:
        """The rule for a module, unless the project has one of that name itself."""
        rule = self.table.package_rule(module)
        is_own = rule is not None and rule.id != BUILT and self._has_own(module.partition(".")[0])
        return None if is_own else rule

    def _has_own(self, top: str) -> bool:
        """Return whether the project has a module of that name where an absolute import finds it.

        Within a package it is under the package's own name, as `kernels.triton` does.
        """
        project = self.names.project
        path = project.module_path(top, self.names.path)
        if path is None:
            return False
        holder = path.removesuffix("/__init__.py").rpartition("/")[0]
        return not holder or f"{holder}/__init__.py" not in project.files

    def call(self, node: ast.Call, _: Scope) -> None:
        """Judge `importlib.import_module("fastlib")` and its like."""
        if node.args and last_name(node.func) in IMPORTERS:
            module = string_value(node.args[0])
            rule = (self.rule(module) or self._ending(module)) if module else None
            if rule is not None:
                self.report(rule, node.args[0], node, module or "")

    def _ending(self, module: str) -> Rule | None:
        """Return the rule for the end of a module's name, where the project has no such module in Python."""
        top = module.partition(".")[0]
        rule = self.table.ending_rule(top) if self.table.package_rule(module) is None else None
        return rule if top and self.names.project.module_path(top, self.names.path) is None else None

    def report(self, rule: Rule, node: ast.AST, inside: ast.AST, module: str) -> None:
        """Report a package at `node`, which is in, or is, the import or call `inside`."""
        if rule.then.trait is not None:
            self.matches.traits.add(rule.then.trait)
        report = rule.then.report
        if report is None or rule.then.keep or self._is_for_types(inside):
            return
        kind, message, severity, advice = report.kind, report.message, report.severity, ""
        if kind is not FindingKind.REVIEW and self.is_optional(inside, module):
            kind, message, severity, advice = FindingKind.REVIEW, f"{message} {_OPTIONAL}", Severity.NOTE, _OPTIONAL
        several = rule.id == BUILT or (isinstance(rule.match, ImportMatch) and rule.match.is_ending)
        key = (rule.id, kind, module if several else "")
        if key not in self.reported:  # once a file
            self.reported.add(key)
            place = self.file.bounds(node)
            self.matches.report(Found(place, rule.id, kind, module, message, severity, advice))

    def _is_for_types(self, node: ast.AST) -> bool:
        """Return whether an import is done for type checkers alone."""
        return any(
            isinstance(above, ast.If) and below in above.body and is_type_checking(above.test)
            for above, below in self.file.steps(node)
        )

    def is_optional(self, node: ast.AST, module: str) -> bool:
        """Return whether the program goes on without an import: it catches the error, or asks first."""
        if is_caught(self.file, node):
            return True
        package = _plain(module.partition(".")[0])
        for above, below in self.file.steps(node):
            if isinstance(above, ast.If) and below in above.body:
                value = (
                    self.file.scope_of(above).only_value(above.test.id) if isinstance(above.test, ast.Name) else None
                )
                if any(_tests_for_package(each, package) for each in (above.test, value) if each is not None):
                    return True
            before = self.file.before(below) if isinstance(below, ast.stmt) else ()
            if any(_ends_without_package(each, package) for each in before):
                return True
        return False


def _tests_for_package(test: ast.expr, package: str) -> bool:
    """Return whether a condition is about what is installed, or names the package as a choice: `is_lib_available()`,
    `has_horovod and name == "hvd"`, `args.backend == "unsloth"`, `use_fastlib`."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(_tests_for_package(each, package) for each in test.values)
    if isinstance(test, ast.Compare):
        sides = [test.left, *test.comparators]
        if isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) and isinstance(test.comparators[0], ast.Constant):
            return _tests_for_package(test.left, package)  # is not None
        return isinstance(test.ops[0], ast.Eq) and any(_names_package(string_value(side), package) for side in sides)
    if isinstance(test, ast.Call) and last_name(test.func) in _FINDERS and test.args:
        return _names_package((string_value(test.args[0]) or "").partition(".")[0], package)
    name = last_name(test.func if isinstance(test, ast.Call) else test) or ""
    return _INSTALLED.search(name) is not None or (len(package) > _SHORT and package in _plain(name))


def _names_package(choice: str | None, package: str) -> bool:
    """Return whether a text is the name of a package, or begins with it: "flashinfer-trtllm"."""
    plain = _plain(choice or "")
    return plain == package or (len(package) > _SHORT and plain.startswith(package))


def _plain(name: str) -> str:
    """A name as it is compared: "fast_lib", "fast-lib" and "FastLib" are one."""
    return re.sub(r"[-_.]", "", name).lower()


def _ends_without_package(statement: ast.stmt, package: str) -> bool:
    """Return whether code ends without a package: `if not is_fastlib_available(): raise`, `assert is_fastlib...`."""
    if isinstance(statement, ast.Assert):
        return _tests_for_package(statement.test, package)
    if not isinstance(statement, ast.If) or not isinstance(statement.body[-1], (ast.Raise, ast.Return)):
        return False
    test = statement.test
    alternatives = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    return any(
        isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) and _tests_for_package(each.operand, package)
        for each in alternatives
    )
