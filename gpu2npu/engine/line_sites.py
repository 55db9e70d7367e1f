"""The names and strings on one line of a Python file: what `explain` looks at."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from gpu2npu.engine import ProjectContext
from gpu2npu.engine.strings.texts import StringText, formatted_texts, plain_text, written
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import OWN, ObjectKinds
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, IMPORTS


class Site(Struct, frozen=True):
    """A name or a string on the line. `word` is the name, or the text of the string; `node` the expression, keyword,
    definition or import that it is the (last) name of; `text` is None of a name."""

    file: PythonFile
    word: str
    node: ast.AST
    scope: Scope
    text: StringText | None = None
    context: ProjectContext = field(default_factory=ProjectContext)

    @property
    def shown(self) -> str:
        """The code of the expression, or the name of anything else."""
        return self.file.code(self.node) if isinstance(self.node, ast.expr) else self.word

    @property
    def call(self) -> ast.Call | None:
        """The call of the expression, if it is called."""
        return self.file.call_of(self.node)

    def why_not_own(self, names: Names) -> str | None:
        """Return why a member may be one that a class of the project defines, or a function of a module; None else."""
        if not isinstance(self.node, ast.Attribute):
            return None
        owner, member = self.node.value, self.node.attr
        shown = names.file.code(owner)
        if ObjectKinds(names).of(owner, self.scope, member) == {OWN}:
            return f"`{shown}` is an object of a class of this project that defines `{member}` itself"
        meaning = names.qualified(owner, self.scope)
        if meaning is not None:
            return f"`{shown}` is `{meaning}`, which was imported, and is not a tensor or module"
        candidates = sorted(self.context.project_members.get(member, ()))
        is_read = self.call is None
        files = ", ".join(each for each in candidates if self.context.has_own_class(each, member, is_read, names.path))
        known = f"classes of this project define `{member}` themselves ({files}), and `{shown}` may be one of theirs"
        return known if files else None

    @property
    def is_import(self) -> bool:
        """Return whether the name is part of an import statement."""
        return isinstance(self.file.parents.get(self.node), IMPORTS)


def sites_on_line(file: PythonFile, line: int, context: ProjectContext) -> list[Site]:
    """Every name and string that begins, or goes on, on a line of the file (counted from 1)."""
    return [replace(site, context=context) for node in ast.walk(file.tree) for site in _sites(file, node, line)]


def _sites(file: PythonFile, node: ast.AST, line: int) -> Iterator[Site]:
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        if node.lineno <= line <= (node.end_lineno or node.lineno) and file.parents.get(node) is not None:
            yield from (Site(file, text.raw, node, file.scope_of(node), text) for text in _texts(file, node))
        return
    names = [name for name in _names(node) if name]
    if names and _line_of(node) == line:
        yield from (Site(file, name, node, file.scope_of(node)) for name in names)


def _names(node: ast.AST) -> list[str | None]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, (ast.keyword, ast.arg)):
        return [node.arg]
    if isinstance(node, DEFINITIONS):
        return [node.name]
    return [*node.name.split("."), node.asname] if isinstance(node, ast.alias) else []


def _line_of(node: ast.AST) -> int:
    """The line of a node's name: of an attribute the last one."""
    end: int = getattr(node, "end_lineno", 0)
    return end if isinstance(node, ast.Attribute) else getattr(node, "lineno", 0)


def _texts(file: PythonFile, node: ast.Constant | ast.JoinedStr) -> Iterator[StringText]:
    if isinstance(node, ast.Constant) and not isinstance(node.value, str):
        return
    for literal in written(file, node):
        if literal.is_formatted:
            yield from formatted_texts(file, node, literal)
        else:
            yield plain_text(file, node, literal)
