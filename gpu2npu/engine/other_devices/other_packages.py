"""Code that computes with a package that knows no NPU, and has nothing of PyTorch: its devices stay as they are."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from gpu2npu.engine.imports import imported_modules, imported_packages
from gpu2npu.engine.other_devices.choices import may_be_move
from gpu2npu.engine.other_devices.foreign_calls import foreign_rule
from gpu2npu.engine.strings.words import holds as is_named_so
from gpu2npu.engine.strings.words import is_word
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import closure, importers
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, IMPORTS, argument_keyword, argument_value, arguments, string_value
from gpu2npu.records import Edit
from gpu2npu.rulebook.rule import Role, Rule

_TORCH, _CUDA = "torch", "cuda"
_SHARED_WITH_TESTS = "conftest.py"
_Region = ast.Module | ast.ClassDef
# What may be between a device and the call that it is given to.
_BETWEEN = (ast.JoinedStr, ast.FormattedValue, ast.IfExp, ast.BoolOp, ast.List, ast.Tuple, ast.Dict, ast.keyword)


class OtherPackageCode:
    """The files and classes that compute with such a package alone."""

    def __init__(self, names: Names, table: RuleTable) -> None:
        self.names, self.table = names, table
        role = next((each.role for each in table.strings if each.text == _CUDA), None)
        is_used = role is not None and not table.foreign_packages.isdisjoint(imported_packages(names.file))
        self.role = role or Role()
        self._ruled = {each.rule.id for each in table.strings if is_used and each.role is role}
        self._regions = list(self.regions()) if is_used else []
        self._packages: dict[_Region, Rule | None] = {}

    def rule_for(self, edit: Edit) -> Rule | None:
        """The rule for the package whose device an edit would change; None where it is none of such code."""
        if edit.rule not in self._ruled:
            return None
        for region in self._regions:
            if not isinstance(region, ast.Module) and not holds(self.names.file.bounds(region), edit.place):
                continue
            if region not in self._packages:
                self._packages[region] = self.package_of(region)
            return None if self.is_given_away(edit, region) else self._packages[region]
        return self._chooser(edit)

    def _chooser(self, edit: Edit) -> Rule | None:
        """The rule for the package whose answer decides on a device: `"cuda" if tf.test.is_gpu() else "cpu"`."""
        file = self.names.file
        whole = (each for each in file.unordered().get(ast.IfExp, ()) if holds(file.bounds(each), edit.place))
        tests = [each.test for each in whole if isinstance(each, ast.IfExp)]
        called = [
            self.names.qualified(each.func, file.scope_of(each)) for each in walk(*tests) if isinstance(each, ast.Call)
        ]
        rules = (foreign_rule(each or "", self.names, self.table) for each in called)
        return next(filter(None, rules), None)

    def regions(self) -> Iterator[_Region]:
        """The file, or its innermost classes with imports of their own, where nothing is of PyTorch."""
        tree = self.names.file.tree
        if not any(_TORCH in package for package in imported_packages(self.names.file)):
            if not _reaches_torch(self.names):
                yield tree
            return
        for node in walk(tree):
            if not isinstance(node, ast.ClassDef) or any(isinstance(each, ast.ClassDef) for each in walk(*node.body)):
                continue
            inside = [each for each in walk(*node.body) if isinstance(each, IMPORTS)]
            if inside and not any(_is_of_torch(each) for each in walk(*node.body)):
                yield node

    def package_of(self, region: _Region) -> Rule | None:
        """The rule for the package that a region gives devices to; None where it moves what it computes with, or gives
        other packages or files devices as well."""
        found: Rule | None = None
        decorators = _in_decorators(region)
        for call in walk(*region.body):
            if not isinstance(call, ast.Call) or call in decorators:
                continue
            if may_be_move(self.names, call):
                return None
            qualified = self.names.qualified(call.func, self.names.file.scope_of(call)) or ""
            if not any(map(self._is_device, arguments(call))):
                continue
            rule = foreign_rule(qualified, self.names, self.table)
            if rule is None and (self._is_of_others(qualified) or self._is_of_other_file(call)):
                return None
            found = found or rule
        return found

    def _is_device(self, argument: ast.expr | ast.keyword) -> bool:
        value = argument_value(argument)
        text = string_value(value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value)
        is_text = (text or "").partition(":")[0] == _CUDA
        is_named = isinstance(value, (ast.Name, ast.Attribute)) and is_named_so(value, self.role)
        return is_text or is_named or is_word(argument_keyword(argument), self.role)

    def _is_of_others(self, qualified: str) -> bool:
        """Return whether a name is of another package that is neither Python's nor the project's own."""
        package = qualified.partition(".")[0]
        is_theirs = package in imported_packages(self.names.file) and package not in sys.stdlib_module_names
        return is_theirs and self.names.project.module_path(package, self.names.path) is None

    def _is_of_other_file(self, call: ast.Call) -> bool:
        """Return whether a call runs the project's own code of another file, which may give a device to PyTorch."""
        made = self.names.definition(call.func, self.names.file.scope_of(call))
        return made is not None and made.names.path != self.names.path

    def is_given_away(self, edit: Edit, region: _Region) -> bool:
        """Return whether a device is returned by a class, or written in a call of another package, which may give it to
        PyTorch; the parameters of a test stay in it."""
        file = self.names.file
        strings = (each for each in walk(*region.body) if isinstance(each, (ast.Constant, ast.JoinedStr)))
        node: ast.AST | None = next((each for each in strings if holds(file.bounds(each), edit.place)), None)
        while node is not None and not isinstance(node, (ast.Call, ast.Return)):
            above = file.parents.get(node)
            node = above if isinstance(above, (*_BETWEEN, ast.Call, ast.Return)) else None
        if isinstance(node, ast.Return):
            return isinstance(region, ast.ClassDef)
        if node is None or node in _in_decorators(region):
            return False
        qualified = self.names.qualified(node.func, file.scope_of(node)) or ""
        return self._is_of_others(qualified) and foreign_rule(qualified, self.names, self.table) is None


def _reaches_torch(names: Names) -> bool:
    """Return whether a file that imports this one, itself or through others, has something of PyTorch; what pytest
    shares with all tests of a folder may be read by any of them."""
    project, path = names.project, names.path
    above = sorted(closure([path], lambda each: importers(project, each, path)))
    facts = [each for other in above if other != path and (each := project.facts(other, path)) is not None]
    return any(other.rpartition("/")[2] == _SHARED_WITH_TESTS for other in above) or any(
        _TORCH in module.partition(".")[0] for each in facts for module in imported_modules(each)
    )


def _in_decorators(region: _Region) -> frozenset[ast.AST]:
    """The nodes of decorators, which give a test its parameters."""
    decorated = (node for node in walk(*region.body) if isinstance(node, DEFINITIONS))
    return frozenset(node for each in decorated for node in walk(*each.decorator_list))


def _is_of_torch(node: ast.AST) -> bool:
    if isinstance(node, IMPORTS):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        return any(_TORCH in name for name in (module, *(alias.name for alias in node.names)))
    return isinstance(node, ast.Name) and _TORCH in node.id
