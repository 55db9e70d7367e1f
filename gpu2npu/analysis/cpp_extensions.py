"""The C++ extensions that a project builds with torch.utils.cpp_extension, read from its Python files, never run."""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BUILDERS = ("CUDAExtension", "CppExtension", "SyclExtension", "load", "load_inline")
_TRIGGERS = (b"CUDAExtension", b"CppExtension", b"cpp_extension", b"load_inline")
_Bindings = Mapping[str, list[ast.expr]]
_SOURCE_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")


@dataclass(frozen=True)
class Extension:
    """An extension built by the Python file `path`. `name` is what Python imports; `sources` are the file names that
    the call spells out, as they are spelled; `functions` those that load_inline exports. `cuda`: it compiles CUDA code.
    `line` is where it is built.
    """

    path: str
    name: str
    sources: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    cuda: bool = False
    line: int = 1

    def builds(self, source: str) -> bool:
        """Whether `source`, a path of the project, is one of the extension's sources."""
        folder = posixpath.dirname(self.path)
        exact = {posixpath.normpath(posixpath.join(folder, spelled)) for spelled in self.sources}
        # A source that is spelled `os.path.join(here, "csrc", "nms.cpp")` shows only its last part.
        bare = {spelled for spelled in self.sources if "/" not in spelled}
        below = not folder or source.startswith(f"{folder}/")
        return source in exact or (below and posixpath.basename(source) in bare)


def extensions(files: Mapping[str, bytes]) -> list[Extension]:
    """Those whose name is plain text, from the Python files among `files`."""
    found: list[Extension] = []
    for path in sorted(files):
        if path.endswith(".py") and any(trigger in files[path] for trigger in _TRIGGERS):
            found.extend(_in_file(path, files[path]))
    return found


def _in_file(path: str, source: bytes) -> Iterator[Extension]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    bound = _bindings(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            extension = _from_call(path, node, bound)
            if extension is not None:
                yield extension


def _bindings(module: ast.Module) -> dict[str, list[ast.expr]]:
    """Every value that a name is given anywhere in the file, by `=` or `+=`: setup scripts build their lists so."""
    bound: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
        value = node.value if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) else None
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                bound.setdefault(target.id, []).append(value)
    return bound


def _builders(function: ast.expr, bound: _Bindings) -> set[str]:
    """The builders that a call may mean: `extension = CUDAExtension` under some condition is common."""
    values = bound.get(function.id, []) if isinstance(function, ast.Name) else []
    return {_last_name(value) for value in (function, *values)}.intersection(_BUILDERS)


def _last_name(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def _from_call(path: str, call: ast.Call, bound: _Bindings) -> Extension | None:
    builders = _builders(call.func, bound)
    if not builders:
        return None
    values: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    values.update(zip(("name", "sources"), call.args, strict=False))
    name = values.get("name")
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    sources = tuple(text for text in _strings(values.get("sources"), bound) if text.endswith(_SOURCE_SUFFIXES))
    if builders == {"load"} and not sources:
        # torch.load, yaml.load and many others are called so too.
        return None
    cuda = "CUDAExtension" in builders or "cuda_sources" in values or any(text.endswith(".cu") for text in sources)
    functions = tuple(_functions(values.get("functions"), bound)) if "load_inline" in builders else ()
    return Extension(path, name.value, sources, functions, cuda, call.lineno)


def _strings(node: ast.expr | None, bound: _Bindings) -> Iterator[str]:
    """The string literals in an expression and in what its names are bound to."""
    if node is None:
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            for value in bound.get(inner.id, []):
                yield from _strings(value, {})
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _functions(node: ast.expr | None, bound: _Bindings) -> Iterator[str]:
    """load_inline takes one name, a list of them, or a dict from name to docstring."""
    if isinstance(node, ast.Dict):
        for key in node.keys:
            yield from _strings(key, bound)
    else:
        yield from _strings(node, bound)
