"""The facts of a file, found in its tree and in what the walk over it has kept."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gpu2npu.python.facts.outline import Outline, decoded_outline, encoded_outline, outline_of
from gpu2npu.python.facts.record import Exports, FileFacts, Origin, OriginKind, decoded, encoded
from gpu2npu.python.facts.value_walk import value_facts
from gpu2npu.python.facts.values import encoded_values
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.file import PythonFile, parsed_file
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Scope, value_of
from gpu2npu.python.tree.syntax import (
    FORS,
    FUNCTIONS,
    IMPORT_FUNCTIONS,
    WITHS,
    dotted_name,
    import_module,
    imported_names,
    is_main_guard,
    is_static,
    last_name,
    string_value,
)
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.python.tree.walk import Use

# Calls that import the module their string names.
IMPORTERS = IMPORT_FUNCTIONS | {"importorskip"}
# Those of projects, which give a module that is imported when it is used, and the keywords by which they give a member.
_LAZY = re.compile(r"(?i)^lazy_?(import|load(er)?|module)$")
_MODULE = re.compile(r"([A-Za-z_][\w.]*)(?:\s*[<>=!~].*)?")
_MEMBERS = frozenset({"name", "attribute", "member", None})


_LINE_END = re.compile(r"\r\n|\r|\n")  # those that Python counts
# The facts of files by their bytes, as many as have so many bytes together; those from elsewhere still as bytes.
_RETAINED = 256_000_000
_known: OrderedDict[bytes, FileFacts | bytes | None] = OrderedDict()
_known_size = 0


def read_facts(source: bytes, path: str) -> FileFacts | None:
    """The facts of a file of which the bytes are known; None where they are not text or not Python. The tree that is
    made for them is kept for a while as that of the file at `path`."""
    if source in _known:
        return _remembered(source)
    try:
        return facts_of(parsed_file(read_source(source, path)))
    except (SourceReadError, TreeError):
        remember(source, None)
        return None


def read_outline(source: bytes, path: str) -> Outline | None:
    """The outline of a file; None where it is not text or not Python."""
    facts = read_facts(source, path)
    return decoded_outline(facts.outline) if facts is not None else None


def facts_of(file: PythonFile) -> FileFacts:
    """The facts of a parsed file."""
    source = file.source.encode(file.text)
    found = _remembered(source) if source in _known else None
    if found is None:
        found = _facts_in(file)
        remember(source, found)
    return found


def code_of(source: bytes) -> str:
    """A digest of what other files can see of a file whose facts are known: of its code, without comments; of all its
    bytes, where it is not Python."""
    known = _known.get(source)
    facts = decoded(known) if isinstance(known, bytes) else known
    return facts.code if facts is not None else hashlib.sha256(source).hexdigest()


def is_known(source: bytes) -> bool:
    """Return whether the facts of a file need no parse."""
    return source in _known


def remember(source: bytes, facts: FileFacts | bytes | None) -> None:
    """Take the facts of a file: found here, or encoded from another process or the store."""
    global _known_size
    _known_size += len(source) if source not in _known else 0
    _known[source] = facts
    while _known_size > _RETAINED and len(_known) > 1:
        _known_size -= len(_known.popitem(last=False)[0])


def encoded_facts(source: bytes, path: str, with_values: bool = False) -> bytes:
    """The facts of a file as bytes, with the edges of its values if they are wanted."""
    known = _known.get(source)
    if isinstance(known, bytes):
        return known
    facts = read_facts(source, path)
    if with_values and facts is not None and not facts.values:
        values = value_facts(parsed_file(read_source(source, path)))
        facts = replace(facts, values=encoded_values(values) if values is not None else b"")
        remember(source, facts)
    return encoded(facts)


def _remembered(source: bytes) -> FileFacts | None:
    known = _known[source]
    if isinstance(known, bytes):
        _known[source] = known = decoded(known)
    return known


def _facts_in(file: PythonFile) -> FileFacts:
    top = file.module.bindings
    bound = {name: tuple(map(_origin, bindings)) for name, bindings in top.items()}
    words = _Words(file)
    # A method may add to it; the text is looked at, as to visit the uses takes longer.
    calls = list(_calls_on_all(file.uses)) if "__all__" in words.names and "__all__." in file.text else []
    exports = _exports(top.get("__all__", ()), calls)
    imports = frozenset(_imports(file))
    names, texts, called, stored, bases = map(
        frozenset, (words.names, words.texts, words.called, words.stored, words.bases)
    )
    body = file.tree.body
    is_guarded, acts = any(map(is_main_guard, body)), any(map(_acts, body))
    code = hashlib.sha256(_without_comments(file).encode("utf-8", "surrogatepass")).hexdigest()
    stars = tuple(file.stars)
    outline = encoded_outline(outline_of(file))
    methods = {name: tuple(each) for name, each in words.methods.items()}
    return FileFacts(
        bound, stars, imports, exports, names, texts, called, stored, bases, methods, is_guarded, acts, code, outline
    )


def _without_comments(file: PythonFile) -> str:
    """The lines of a file without comments at their ends, but for those behind a quote, which may be in a string."""
    lines = _LINE_END.split(file.text)
    if "#" not in file.text:
        return "\n".join(lines).rstrip()
    quoted: set[int] = set()
    for node in file.parents:
        kind = node.__class__
        if (kind is ast.Constant or kind is ast.JoinedStr) and node.lineno != node.end_lineno:  # type: ignore[attr-defined]
            quoted.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]
    for number, line in enumerate(lines, 1):
        if "#" in line and number not in quoted:
            code, _, _ = line.partition("#")
            if "'" not in code and '"' not in code:
                lines[number - 1] = code.rstrip()
    return "\n".join(lines).rstrip()


def _acts(statement: ast.stmt) -> bool:
    """Return whether a statement loops, or calls something for its effect: `main()`."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, (*FORS, *WITHS, ast.While))


class _Words:
    """The identifiers, texts, called names, assigned attributes, names of base classes, and parameters of methods of a
    file's code."""

    def __init__(self, file: PythonFile) -> None:
        self.names: set[str] = set()
        self.texts: set[str] = set()
        self.called: set[str] = set()
        self.stored = {*file.stored}
        self.bases: set[str] = set()
        self.methods: dict[str, list[tuple[str, ...]]] = {}
        names, texts, called = self.names, self.texts, self.called
        for node, _ in file.uses:
            kind = node.__class__
            if kind is ast.Name:
                names.add(node.id)  # type: ignore[attr-defined]
            elif kind is ast.Constant:
                texts.add(node.value)  # type: ignore[attr-defined]
            elif kind is ast.Attribute:
                self._add_chain(node)
            elif kind is ast.Call:
                func = node.func  # type: ignore[attr-defined]
                if func.__class__ is ast.Name:
                    called.add(func.id)
                    if func.id == "setattr" and (name := string_value(node.args[1] if node.args[1:] else None)):  # type: ignore[attr-defined]
                        self.stored.add(name)
                elif func.__class__ is ast.Attribute:
                    called.add(func.attr)
            elif kind is ast.keyword:
                names.add(node.arg or "")  # type: ignore[attr-defined]
            elif kind is ast.JoinedStr:
                texts.update(text for part in node.values if (text := string_value(part)))  # type: ignore[attr-defined]
        for opener, scope in file.scopes.items():
            if opener.__class__ is ast.ClassDef:
                for base in opener.bases:
                    of = base.value if base.__class__ is ast.Subscript else base  # without type arguments
                    self.bases.add(of.attr if of.__class__ is ast.Attribute else getattr(of, "id", ""))
                if scope.kind == "class":
                    self._add_methods(scope)
            names.update(name for name, bound in scope.bindings.items() if any(map(_is_assigned, bound)))
        for statement, _ in file.imports:
            names.update(alias.name for alias in statement.names)
            if isinstance(statement, ast.ImportFrom):
                names.add(statement.module or "")
        self.texts = {text for text in texts if len(text.split(None, 1)) == 1 and not text[-1].isspace()}

    def _add_methods(self, cls: Scope) -> None:
        for name, bound in cls.bindings.items():
            for each in bound:
                if isinstance(each, Defined) and isinstance(each.node, FUNCTIONS):
                    given = [each.arg for each in (*each.node.args.posonlyargs, *each.node.args.args)]
                    first = 0 if is_static(each.node) else 1
                    self.methods.setdefault(name, []).append(tuple(given[first:]))

    def _add_chain(self, node: ast.AST) -> None:
        add = self.names.add
        while node.__class__ is ast.Attribute:
            add(node.attr)
            node = node.value
        if node.__class__ is ast.Name:
            add(node.id)


def _is_assigned(binding: Binding) -> bool:
    return binding.__class__ is Assigned


def _calls_on_all(uses: Iterable[Use]) -> Iterator[ast.Call]:
    """The calls of methods of `__all__`."""
    for node, _ in uses:
        if isinstance(node, ast.Call) and (dotted_name(node.func) or "").startswith("__all__."):
            yield node


def _exports(bindings: Sequence[Binding], calls: Sequence[ast.Call]) -> Exports | None:
    """The names in what is assigned to `__all__`, and in what is added to it."""
    if not bindings and not calls:
        return None
    parts = [part for binding in bindings for part in _exported(binding)]
    for call in calls:
        name, given = last_name(call.func), call.args[0] if call.args else None
        parts += [given] if name == "append" else _parts(given) if name == "extend" else [None]
    names = [string_value(part) for part in parts]
    return Exports(frozenset(name for name in names if name is not None), None not in names)


def _exported(binding: Binding) -> Sequence[ast.AST | None]:
    """The items that a statement puts into `__all__`."""
    statement = binding.statement if isinstance(binding, Assigned) else None
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return ()
    if isinstance(statement, ast.AugAssign):
        return _parts(statement.value)
    return _parts(value_of(binding))


def _parts(value: ast.AST | None) -> list[ast.AST | None]:
    """The items of a list or of a sum of lists, None for those that are not written out."""
    if isinstance(value, ast.BinOp):
        return [*_parts(value.left), *_parts(value.right)]
    if not isinstance(value, (ast.List, ast.Tuple)):
        return [None]
    return [part for each in value.elts for part in (_parts(each.value) if isinstance(each, ast.Starred) else [each])]


def _origin(binding: Binding) -> Origin:
    if isinstance(binding, Imported):
        return Origin(OriginKind.IMPORT, binding.qualified)
    if isinstance(binding, Defined):
        return _DEFINITION
    value = value_of(binding)
    dotted = dotted_name(value) if value is not None else None
    if dotted is not None:
        return Origin(OriginKind.ALIAS, dotted)
    loaded = loaded_module(value)
    return _VALUE if loaded is None else Origin(OriginKind.LOADED, loaded)


_DEFINITION, _VALUE = Origin(OriginKind.DEFINITION), Origin(OriginKind.VALUE)


def loaded_module(node: ast.AST | None) -> str | None:
    """The module that a call such as `import_module("x")` or `lazy_import("x>=2")` imports; None for anything else."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = last_name(node.func) or ""
    if name in IMPORTERS:
        return string_value(node.args[0])
    found = _MODULE.fullmatch(string_value(node.args[0]) or "") if _LAZY.search(name) and len(node.args) == 1 else None
    return found[1] if found and all(each.arg not in _MEMBERS for each in node.keywords) else None


def _imports(file: PythonFile) -> Iterator[str]:
    for statement, _ in file.imports:
        if isinstance(statement, ast.ImportFrom):
            yield import_module(statement)
        for _, qualified in imported_names(statement):
            yield qualified
