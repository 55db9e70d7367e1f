"""What a module binds at its top level, told by Python's own parser: faster than by LibCST, and mostly enough."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu2npu.engine.python_tree import python_tree

# Calls that import the module their string names.
IMPORTERS = frozenset({"importorskip", "import_module", "__import__"})
# What follows `global`, and perhaps more, and what `:=` binds: a name too many costs a parse, one too few an answer.
_GLOBAL = re.compile(r"\bglobal\b([\w\s,\\]*)")
_WALRUS = re.compile(r"(\w+)\s*:=")
# With the lines that are empty, indented, comments, or the end of a signature.
_DEFINITION = re.compile(
    r"^(?P<kind>class|def|async[ \t]+def)[ \t]+(?P<name>\w+)[^\r\n]*(?:\r?\n|$)(?:(?:[ \t\f)\]}#][^\r\n]*)?\r?\n)*"
    r"(?:[ \t\f)\]}#][^\r\n]*\Z)?",
    re.MULTILINE,
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Outline:
    """`imported` has, for names that imports bind, the qualified name of the first import; `defined` are names of
    functions and classes, `plain` those assigned what is no name's meaning (`x = 1`), `other` those bound in any other
    way. `stars` are the modules that stars import from."""

    imported: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)

    def binds(self, name: str) -> bool:
        """Whether the module may bind a name itself."""
        known = name in self.imported or name in self.defined or name in self.plain or name in self.other
        return known or not name.isascii()  # Python normalizes identifiers, we do not

    def may_have(self, name: str) -> bool:
        """Whether another module may get `name` from this one."""
        return bool(self.stars) or self.binds(name)

    def is_import(self, name: str) -> bool:
        """Whether a name means what its first import does, whatever stands in for it where that fails."""
        return name in self.imported and name not in self.defined and name not in self.other

    def is_own(self, name: str) -> bool:
        """Whether a name means nothing of another module: a function, a class, a constant."""
        return (name in self.defined or name in self.plain) and name not in self.imported and name not in self.other


def read_outline(text: str) -> Outline | None:
    """None where this Python cannot parse the text: LibCST may know more."""
    tree = _parsed(without_bodies(text)) or _parsed(text)
    if tree is None:
        return None
    outline = Outline()
    for statement in _statements(tree):
        _bind(outline, statement)
    if "global" in text:
        outline.other.update(word for listed in _GLOBAL.findall(text) for word in re.findall(r"\w+", listed))
    if ":=" in text:
        outline.other.update(_WALRUS.findall(text))
    return outline


def without_bodies(text: str) -> str:
    """The text with `class A: pass` in place of each class or function at its top level: most of a file's parse."""
    return _DEFINITION.sub(_without_body, text)


def _without_body(match: re.Match[str]) -> str:
    whole = match[0]
    goes_on = whole.rstrip("\r\n").endswith("\\")
    if goes_on or any(whole.count(quotes) % 2 for quotes in ('"""', "'''")):
        return whole  # the last line is no last line of a definition, or the first is in a string
    return f"{match['kind']} {match['name']}{'' if match['kind'] == 'class' else '()'}: pass\n"


def _parsed(text: str) -> ast.Module | None:
    try:
        return python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements at the top level, those in `if`, `try` and so on too, and the parts of them that bind names."""
    pending: list[ast.AST] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.If, ast.While)):
            pending += reversed([*node.body, *node.orelse])
        elif not isinstance(node, (*_DEFINITIONS, ast.Assign, ast.AnnAssign, ast.expr)) or isinstance(
            node, (ast.Tuple, ast.List, ast.Starred)
        ):
            pending += reversed(list(ast.iter_child_nodes(node)))


def _bind(outline: Outline, node: ast.AST) -> None:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for name, qualified in _imports(node):
            if name == "*":
                outline.stars.append(qualified)
            else:
                outline.imported.setdefault(name, qualified)
    elif isinstance(node, _DEFINITIONS):
        outline.defined.add(node.name)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            _assign(outline, target, node.value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        outline.other.add(node.id)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
        outline.other.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        outline.other.add(node.rest)


def _assign(outline: Outline, target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Name):
        (outline.other if _has_meaning(value) else outline.plain).add(target.id)
        return
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            outline.other.add(node.id)


def _has_meaning(value: ast.expr | None) -> bool:
    """Whether a value may be something with a qualified name: another name, or a module that a call imports."""
    if isinstance(value, ast.Call):
        called = value.func
        while isinstance(called, ast.Call):
            called = called.func
        last = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        return last in IMPORTERS
    return isinstance(value, (ast.Name, ast.Attribute))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that a statement binds and the qualified names they mean; a star with the module."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname is not None else (root, root)
        return
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        separator = "" if module.endswith(".") else "."
        yield ("*", module) if alias.name == "*" else (alias.asname or alias.name, f"{module}{separator}{alias.name}")
