"""One difference between two versions of a project as a rule, and the meaning of names as rules speak of them."""

from __future__ import annotations

import ast
import builtins
from functools import cached_property

from msgspec import Struct

from gpu2npu.python.meaning.instances import Instances
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import Own
from gpu2npu.python.tree.syntax import DEFINITIONS, imported_names, is_super, local_name
from gpu2npu.rulebook.match import Json


class FileMeanings:
    """Asks one version of a file what its expressions mean."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.file = names.file

    @cached_property
    def _instances(self) -> Instances:
        return Instances(self.names)

    def qualified(self, node: ast.AST) -> str | None:
        """The qualified name of an expression that means something of a package outside the project."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        found = self.names.qualified(node, self.file.scope_of(node))
        return found if found is not None and self.is_foreign(found) else None

    def is_foreign(self, qualified: str) -> bool:
        """Return whether a qualified name is of a package outside the project."""
        top = qualified.partition(".")[0]
        return bool(top) and self.names.project.module_path(top, self.file.path) is None

    def is_own(self, node: ast.AST) -> bool:
        """Return whether an expression names a class or function of the project."""
        return self.names.definition(node, self.file.scope_of(node)) is not None

    def is_builtin(self, node: ast.Name) -> bool:
        return hasattr(builtins, node.id) and self.file.scope_of(node).lookup(node.id) is None

    def class_of(self, node: ast.expr) -> str | None:
        """The qualified name of the one foreign class that an object is of, or that its class derives from."""
        scope = self.file.scope_of(node)
        if is_super(node) or (isinstance(node, ast.Name) and node.id == "self"):
            cls = scope.enclosing_class()
            return self.base_of(cls.node) if cls is not None and isinstance(cls.node, ast.ClassDef) else None
        found = set(self._instances.classes(node, scope))
        for each in self._instances.types.of(node, scope):
            if isinstance(each, Own) and isinstance(each.cls.node, ast.ClassDef):
                found |= {base for base in [FileMeanings(each.names).base_of(each.cls.node)] if base is not None}
        foreign = {each for each in found if self.is_foreign(each)}
        return next(iter(foreign)) if len(foreign) == 1 else None

    def base_of(self, cls: ast.ClassDef) -> str | None:
        """The first base of a class that is of a package outside the project."""
        return next(filter(None, map(self.qualified, cls.bases)), None)

    def imports_for(self, node: ast.AST) -> str:
        """The imports of the file that the names in a piece of it need, one a line."""
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        lines: dict[str, None] = {}
        for statement, _ in self.file.imports:
            for alias, _ in imported_names(statement):
                if local_name(alias, statement) not in used:
                    continue
                if isinstance(statement, ast.Import):
                    lines[ast.unparse(ast.Import([alias]))] = None
                else:
                    lines[ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))] = None
        return "".join(f"{line}\n" for line in lines)

    def enclosing_definition(self, node: ast.AST) -> ast.AST | None:
        """The nearest function or class around a node."""
        return next((each for each in self.file.above(node) if isinstance(each, DEFINITIONS)), None)


class Sample(Struct, frozen=True):
    """A text that an example may show: the file name that says its kind, and the text before."""

    file: str
    text: str


class Observed(Struct, frozen=True):
    """One difference: what a rule for it matches and does then, as in a rule file, and the place before (line from 1).

    `samples` are texts that have the place, the shortest first. A name that stays as it is is observed too, as renamed
    to itself: it speaks against a rule for all names beside it.
    """

    match: Json
    then: Json
    path: str
    line: int
    samples: tuple[Sample, ...]
