"""A Python module as an analysis reads it: what its names mean, also where an import leads to another file."""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from gpu2npu.analysis.python_scopes import Assigned, Binding, Code, Defined, Imported, Scope, collect
from gpu2npu.engine.context import ProjectContext
from gpu2npu.engine.python_tree import python_tree
from gpu2npu.python.source import SourceError, read_source
from gpu2npu.records import Span
from gpu2npu.support.tables import without_repeats

# The syntax tree of a larger file takes gigabytes; it was written by a program, as data.
MAX_BYTES = 4_000_000
_KEPT_MODULES = 24  # trees of other files that are kept for the next question
_MAX_STEPS = 12  # longer than any chain of re-exports
_FROM_TORCH = re.compile(
    rb"^[ \t]*from[ \t]+(torch(?:\.\w+)*)[ \t]+import[ \t]*(?:\(([^)]*)\)|([^\n#(]*))", re.MULTILINE
)
_IMPORTED = re.compile(rb"(\w+)(?:[ \t]+as[ \t]+(\w+))?[ \t\r\n]*(?:,|$|#[^\n]*)")
_IMPORT_TORCH = re.compile(
    rb"^[ \t]*import[ \t]+(torch(?:\.\w+)*)(?:[ \t]+as[ \t]+(\w+))?[ \t]*(?:#|;|\r?$)", re.MULTILINE
)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


class UnreadableError(ValueError):
    """A file cannot be analysed; the message is for the user."""


@dataclass(eq=False)
class Project:
    """The files around a module, read when an import has to be followed."""

    files: frozenset[str] = frozenset()
    read: Callable[[str], bytes] | None = None
    consulted: dict[str, set[str]] = field(default_factory=dict)  # by file, those that answers about it may depend on
    _modules: OrderedDict[str, PythonModule | None] = field(default_factory=OrderedDict)
    _paths: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _torch_names: dict[str, dict[str, str]] = field(default_factory=dict)

    def path(self, module: str, importer: str) -> str | None:
        """The file that `module` (dotted, relative with leading dots) means in the file `importer`."""
        key = (module, importer.rpartition("/")[0])
        if key not in self._paths:
            self._paths[key] = ProjectContext(files=self.files).module_path(module, importer)
        found = self._paths[key]
        if found is not None:
            self.consulted.setdefault(importer, set()).add(found)
        return found

    def torch_names(self, path: str) -> dict[str, str]:
        """The names of torch that a file imports, told from its bytes: to follow each import of each file by parsing
        what it leads to would double the work."""
        if path not in self._torch_names:
            try:
                self._torch_names[path] = _torch_names(self.read(path)) if self.read is not None else {}
            except OSError:
                self._torch_names[path] = {}
        return self._torch_names[path]

    def module(self, path: str) -> PythonModule | None:
        """Another file, None where it cannot be read or parsed, or mentions no torch."""
        if path in self._modules:
            self._modules.move_to_end(path)
            return self._modules[path]
        self._modules[path] = None  # a file that imports itself
        self._modules[path] = self._load(path)
        while len(self._modules) > _KEPT_MODULES:
            self._modules.popitem(last=False)
        return self._modules.get(path)

    def _load(self, path: str) -> PythonModule | None:
        if self.read is None:
            return None
        try:
            source = self.read(path)
            return read_module(source, path, self) if b"torch" in source else None
        except (OSError, UnreadableError):
            return None


@dataclass(eq=False)
class PythonModule:
    """One module. `path` is relative to the project."""

    path: str
    text: str
    code: Code
    project: Project
    _meanings: dict[tuple[int, str], str | None] = field(default_factory=dict)

    def qualified(self, node: ast.expr, scope: Scope) -> str | None:
        """`torch.nn.functional.relu` for an expression that means it, whatever it is spelled; else None."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            root = self.name(node.id, scope)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            root = self._gotten(node, scope)
        else:
            return None
        if root is None or not names:
            return root
        names.append(root)
        names.reverse()
        return self.follow(".".join(names))

    def _gotten(self, node: ast.Call, scope: Scope) -> str | None:
        """What getattr(torch, "x") gives."""
        if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant) or not isinstance(node.args[1].value, str):
            return None
        owner = self.qualified(node.args[0], scope)
        return f"{owner}.{node.args[1].value}" if owner is not None else None

    def name(self, name: str, scope: Scope) -> str | None:
        """The qualified name that `name` is bound to where it is used in `scope`; None for a definition or a value."""
        found = scope.lookup(name)
        if found is None:
            return "torch" if name == "torch" and self.code.stars else None
        owner, bindings = found
        key = (id(owner), name)
        if key not in self._meanings:
            self._meanings[key] = None  # x = x
            self._meanings[key] = self._meaning(owner, bindings)
        return self._meanings[key]

    def _meaning(self, scope: Scope, bindings: list[Binding]) -> str | None:
        """What the bindings of one name agree on. The first of several imports wins, and any over a None that stands in
        for it."""
        imported: str | None = None
        assigned: set[str] = set()
        for binding in bindings:
            if isinstance(binding, Imported):
                imported = imported or self.follow(binding.qualified)
            elif not isinstance(binding, Assigned):
                return None
            elif not _is_none(binding.value):
                meaning = self._assigned(binding, scope)
                if meaning is None:
                    return None
                assigned.add(meaning)
        if imported is not None:
            return imported
        return assigned.pop() if len(assigned) == 1 else None

    def _assigned(self, binding: Assigned, scope: Scope) -> str | None:
        value = binding.value
        if isinstance(value, (ast.Name, ast.Attribute)) and not binding.part:
            return self.qualified(value, scope)
        if isinstance(value, ast.Call) and _imports(value):
            return str(value.args[0].value)  # type: ignore[attr-defined]
        return None

    def follow(self, qualified: str) -> str:
        """A name of a module of the project -> the name of torch that it is there, if it is one."""
        if of_torch(qualified) or not self.project.files:
            return without_repeats(qualified)
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        parts = qualified.lstrip(".").split(".")
        for split in range(len(parts) - 1, -1, -1):
            module = leading + ".".join(parts[:split])
            path = self.project.path(module, self.path) if module else None
            if path is not None:
                meaning = self.project.torch_names(path).get(parts[split]) if path != self.path else None
                if meaning is None:
                    return qualified
                return without_repeats(".".join((meaning, *parts[split + 1 :])))
        return qualified

    def definition(self, node: ast.expr, scope: Scope) -> tuple[PythonModule, Defined] | None:
        """The class or function of the project that an expression names, and the module it is in."""
        if isinstance(node, ast.Name):
            found = scope.lookup(node.id)
            for binding in found[1] if found is not None else ():
                if isinstance(binding, Defined):
                    return self, binding
        qualified = self.qualified(node, scope)
        return self._exported(qualified) if qualified is not None and not of_torch(qualified) else None

    def _exported(self, qualified: str, steps: int = _MAX_STEPS) -> tuple[PythonModule, Defined] | None:
        """The definition that a dotted path into the project ends at, through re-exports."""
        leading = qualified[: len(qualified) - len(qualified.lstrip("."))]
        head, _, last = qualified.lstrip(".").rpartition(".")
        path = self.project.path(leading + head, self.path) if leading or head else None
        module = self.project.module(path) if path is not None and path != self.path else None
        for binding in module.code.module.bindings.get(last, ()) if module is not None else ():
            if isinstance(binding, Defined) and module is not None:
                return module, binding
            if isinstance(binding, Imported) and module is not None and steps:
                return module._exported(binding.qualified, steps - 1)
        return None

    @cached_property
    def lines(self) -> list[str]:
        """The lines as Python counts them, with their ends."""
        return [line for line in _LINE.findall(self.text) if line]

    def source(self, node: ast.expr) -> str:
        """The text of an expression."""
        span = self.span(node)
        lines = self.lines[span.start_line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column]
        lines[0] = lines[0][span.start_column :]
        return "".join(lines)

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where a node stands, in characters."""
        end_line = node.end_lineno or node.lineno
        end = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return Span(node.lineno, self._column(node.lineno, node.col_offset), end_line, self._column(end_line, end))

    def _column(self, line: int, offset: int) -> int:
        """Python's tree counts the bytes of UTF-8."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return (
            offset if text.isascii() else len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore"))
        )


def of_torch(qualified: str) -> bool:
    """Whether a qualified name is one of torch or torch_npu."""
    return qualified.startswith(("torch.", "torch_npu.")) or qualified in ("torch", "torch_npu")


def _torch_names(source: bytes) -> dict[str, str]:
    names: dict[str, str] = {}
    if b"torch" not in source:
        return names
    for module, inside, plain in _FROM_TORCH.findall(source):
        for name, alias in _IMPORTED.findall(inside or plain):
            names[(alias or name).decode()] = f"{module.decode()}.{name.decode()}"
    for module, alias in _IMPORT_TORCH.findall(source):
        names[(alias or b"torch").decode()] = module.decode() if alias else "torch"
    return names


def _imports(call: ast.Call) -> bool:
    """Whether a call is `importlib.import_module("x")` or the like."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in ("import_module", "importorskip", "__import__") or not call.args:
        return False
    return isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def read_module(source: bytes, path: str, project: Project) -> PythonModule:
    """Raises UnreadableError where the bytes are no text or no Python that this interpreter can read."""
    if len(source) > MAX_BYTES:
        raise UnreadableError(f"it was not analysed: it is larger than {MAX_BYTES // 1_000_000} MB, as data are")
    try:
        text = read_source(source, path).text
    except SourceError as error:
        raise UnreadableError(str(error)) from error
    return parse_module(text, path, project)


def parse_module(text: str, path: str, project: Project) -> PythonModule:
    """Raises UnreadableError where the text is no Python that this interpreter can read."""
    try:
        tree = python_tree(text)
    except SyntaxError as error:
        place = f" in line {error.lineno}" if error.lineno is not None else ""  # null bytes have none
        raise UnreadableError(f"syntax error{place}: {error.msg}") from error
    except ValueError as error:  # null bytes, lone surrogates
        raise UnreadableError(f"it is no Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("its expressions are nested too deeply to be analysed") from error
    return PythonModule(path, text, collect(tree), project)
