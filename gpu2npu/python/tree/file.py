"""One Python file with everything that its own text says: tree, offsets, scopes, uses of names."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import takewhile

from msgspec import Struct

from gpu2npu.python.text.offsets import Lines, indentation, line_before, newline_of
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.tree.nodes import ByKind
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import COMPREHENSIONS, DEFINITIONS, FUNCTIONS, Import, blocks, dotted_name
from gpu2npu.python.tree.syntax_tree import TreeError, parse
from gpu2npu.python.tree.walk import Use, Walk
from gpu2npu.records import Span


class PythonFile(Struct, frozen=True, eq=False):
    """A parsed file. `scopes` has the scope that a definition, lambda or comprehension opens, `parents` the node above
    each node, `uses` what `walk` says; `imports` are the import statements, `stars` the modules that stars import,
    `stored` the names of attributes that are assigned."""

    source: SourceFile
    lines: Lines
    tree: ast.Module
    module: Scope
    scopes: Mapping[ast.AST, Scope]
    parents: Mapping[ast.AST, ast.AST]
    uses: Sequence[Use]
    imports: Sequence[tuple[Import, Scope]]
    stars: Sequence[str]
    stored: Set[str]
    _kinds: dict[type[ast.AST], list[ast.AST]]  # by the first who needs them

    @property
    def path(self) -> str:
        """The path in the project, with forward slashes."""
        return self.source.path

    @property
    def text(self) -> str:
        return self.source.text

    def bounds(self, node: ast.AST) -> tuple[int, int]:
        """The offsets of a node's first character and of the one behind its last, without parentheses around it."""
        return self.lines.bounds(node)

    def span(self, node: ast.AST) -> Span:
        """The place of a node as reports give it."""
        return self.lines.span(*self.bounds(node))

    def code(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.bounds(node)
        return self.text[start:end]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes above a node, the nearest first, the module last."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def steps(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """The nodes above a node, the nearest first, each with the one right below it."""
        above = self.parents.get(node)
        while above is not None:
            yield above, node
            node, above = above, self.parents.get(above)

    def within(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes above a node that are inside its function, the nearest first."""
        return takewhile(lambda each: not isinstance(each, FUNCTIONS), self.above(node))

    def call_of(self, node: ast.AST) -> ast.Call | None:
        """The call that calls what a node is: `f(x)` for its `f`."""
        parent = self.parents.get(node)
        return parent if isinstance(parent, ast.Call) and parent.func is node else None

    def unordered(self) -> ByKind:
        """The nodes in the module by their types, in no order: no walk is needed."""
        if not self._kinds:
            for node in self.parents:
                self._kinds.setdefault(node.__class__, []).append(node)
        return self._kinds

    def line_before(self, offset: int) -> str:
        """The line that an offset is in, up to the offset."""
        return line_before(self.text, offset)

    def indentation(self, offset: int) -> str:
        """The white space that the line of an offset begins with."""
        return indentation(self.text, offset)

    @property
    def newline(self) -> str:
        """The line end that the file uses."""
        return newline_of(self.text)

    def block(self, statement: ast.AST) -> list[ast.stmt]:
        """The statements of the block that one is in."""
        return next(block for block in blocks(self.parents[statement]) if statement in block)

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the block of a statement that are before it."""
        block = self.block(statement)
        return block[: block.index(statement)]

    def value_start(self, keyword: ast.keyword) -> int:
        """The offset of the value of a keyword argument, with parentheses around it."""
        start = self.bounds(keyword)[0] + len(keyword.arg or "**")
        while self.text[start] in "= \t\f\r\n\\":
            start += 1
        return start

    def statement(self, node: ast.AST) -> ast.stmt:
        """The smallest statement that holds a node, or is it."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which the names of an expression or statement are looked up."""
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if isinstance(parent, ast.comprehension) and child is parent.iter:
                opener = self.parents[parent]
                assert isinstance(opener, COMPREHENSIONS)
                if opener.generators[0] is parent:  # the first iterable belongs to the scope outside
                    child, parent = opener, self.parents.get(opener)
                    continue
            scope = self.scopes.get(parent)
            if scope is not None:
                if _is_inside(parent, child):
                    return scope
                if scope.parent is not None and scope.parent.kind == "types" and self._sees_types(node, parent, child):
                    return scope.parent
            child, parent = parent, self.parents.get(parent)
        return self.module

    def reads(self, name: str, scope: Scope) -> list[ast.expr]:
        """The places where a dotted name of a scope is read: the variable, or the attribute in the same class."""
        is_attribute, last = "." in name, name.rpartition(".")[2]
        alike = self.unordered().get(ast.Attribute if is_attribute else ast.Name, ())
        named = [each for each in alike if last in (getattr(each, "attr", None), getattr(each, "id", None))]
        expressions = [each for each in named if isinstance(each, (ast.Attribute, ast.Name))]
        read = [each for each in expressions if isinstance(each.ctx, ast.Load)]
        if is_attribute:
            cls, same = scope.enclosing_class(), [each for each in read if dotted_name(each) == name]
            return [each for each in same if self.scope_of(each).enclosing_class() == cls]
        known = scope.lookup(name)
        return [each for each in read if self.scope_of(each).lookup(name) == known]

    def _sees_types(self, node: ast.AST, definition: ast.AST, child: ast.AST) -> bool:
        """Return whether an expression in a child of a generic definition sees its type parameters: not in decorators
        and defaults."""
        if isinstance(child, ast.arguments):
            return any(
                isinstance(each, ast.arg) for each in takewhile(lambda each: each is not child, self.above(node))
            )
        return isinstance(definition, DEFINITIONS) and child not in definition.decorator_list


def _is_inside(opener: ast.AST, child: ast.AST) -> bool:
    """Return whether a child of a node that opens a scope is evaluated in that scope."""
    if isinstance(opener, DEFINITIONS):
        return isinstance(child, ast.stmt)
    if isinstance(opener, ast.Lambda):
        return child is opener.body
    return True


def read_file(source: SourceFile) -> PythonFile:
    """Parse a decoded file. Raises TreeError: it is not Python of this interpreter's version, or is nested too
    deeply."""
    lines = Lines.of(source.text)
    tree = parse(source.text)
    walk = Walk(tree, lines)
    found = (walk.module, walk.scopes, walk.parents, walk.uses, walk.imports, walk.stars, walk.stored)
    return PythonFile(source, lines, tree, *found, {})


# The files parsed last in this process, by their text, up to so many characters: 35 bytes of memory each.
RETAINED = 4_000_000
_recent: OrderedDict[SourceFile, PythonFile | TreeError] = OrderedDict()
_recent_size = 0


def parsed_file(source: SourceFile) -> PythonFile:
    """The same as `read_file`, parsed once for all who ask soon one after the other. Copies of a text at other paths
    are files of their own: what is known of a node belongs to one file."""
    global _recent_size
    found = _recent.get(source)
    if found is None:
        try:
            found = read_file(source)
        except TreeError as error:
            found = error
        _recent[source] = found
        _recent_size += len(source.text)
        while _recent_size > RETAINED and len(_recent) > 1:
            _recent_size -= len(_recent.popitem(last=False)[0].text)
    _recent.move_to_end(source)
    if isinstance(found, TreeError):
        raise TreeError(*found.args)
    return found


def forget_files() -> None:
    """Free the files that were parsed last."""
    global _recent_size
    _recent.clear()
    _recent_size = 0
