"""The C++ extensions that a project builds with torch.utils.cpp_extension, read from its Python files, never run."""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BUILDERS = ("CUDAExtension", "CppExtension", "SyclExtension", "load", "load_inline")
_TRIGGERS = (b"CUDAExtension", b"CppExtension", b"cpp_extension", b"load_inline")
_SOURCE_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")


@dataclass(frozen=True)
class Extension:
    """An extension built by the Python file `path`. `name` is what Python imports; `sources` are the file names that
    the call spells out, as they are spelled; `functions` those that load_inline exports. `cuda`: it compiles CUDA code.
    """

    path: str
    name: str
    sources: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    cuda: bool = False

    def builds(self, source: str) -> bool:
        """Whether `source`, a path of the project, is one of the extension's sources."""
        folder = posixpath.dirname(self.path)
        exact = {posixpath.normpath(posixpath.join(folder, spelled)) for spelled in self.sources}
        # A source that is spelled `os.path.join(here, "csrc", "nms.cpp")` shows only its last part.
        bare = {spelled for spelled in self.sources if "/" not in spelled}
        return source in exact or posixpath.basename(source) in bare


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
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _called(node.func) in _BUILDERS:
            extension = _from_call(path, node)
            if extension is not None:
                yield extension


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _from_call(path: str, call: ast.Call) -> Extension | None:
    values: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    values.update(zip(("name", "sources"), call.args, strict=False))
    name = values.get("name")
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    builder = _called(call.func)
    sources = tuple(text for text in _strings(values.get("sources")) if text.endswith(_SOURCE_SUFFIXES))
    if builder == "load" and not sources:
        # torch.load, yaml.load and many others are called so too.
        return None
    cuda = builder == "CUDAExtension" or "cuda_sources" in values or any(text.endswith(".cu") for text in sources)
    functions = tuple(_functions(values.get("functions"))) if builder == "load_inline" else ()
    return Extension(path, name.value, sources, functions, cuda)


def _strings(node: ast.expr | None) -> Iterator[str]:
    if node is None:
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _functions(node: ast.expr | None) -> Iterator[str]:
    """load_inline takes one name, a list of them, or a dict from name to docstring."""
    if isinstance(node, ast.Dict):
        for key in node.keys:
            yield from _strings(key)
    else:
        yield from _strings(node)
