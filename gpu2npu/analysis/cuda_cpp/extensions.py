"""The C++ extensions that a project builds with torch.utils.cpp_extension, and those of CUDA sources that it builds by
setuptools alone, read from its Python files, never run."""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Assigned, Scope, value_of
from gpu2npu.python.tree.syntax import IMPORTS, argument_of, imported_names, last_name, string_value
from gpu2npu.records import FindingKind

_BUILDERS = ("CUDAExtension", "CppExtension", "SyclExtension", "Extension", "load", "load_inline")
# A file that builds an extension has one of these.
_WORDS = re.compile(rb"\b(?:(?:CUDA|Cpp)?Extension|cpp_extension|load_inline)\b")
# What a line of .gitmodules, requirements or a conda environment fetches or installs.
_INSTALLED = re.compile(
    r"^[ \t]*(?:path[ \t]*=[ \t]*)?(?:-[ \t]+)?(?:(?:-e|--editable)[ =]*)?[\"']?(?P<what>(?!-)[^\s\"'#;\[=]+)",
    re.MULTILINE,
)
_FOR_CUDA = re.compile(r"(?P<name>.+)-(?:cu\d{2,3}|cuda\d*x?|gpu)")
_SOURCE_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class Extension(Struct, frozen=True):
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
        """Return whether `source`, a path of the project, is one of the extension's sources."""
        folder = posixpath.dirname(self.path)
        exact = {posixpath.normpath(posixpath.join(folder, spelled)) for spelled in self.sources}
        # A source that is spelled `os.path.join(here, "csrc", "nms.cpp")` shows only its last part.
        bare = {spelled for spelled in self.sources if "/" not in spelled}
        below = not folder or source.startswith(f"{folder}/")
        return source in exact or (below and posixpath.basename(source) in bare)


def extensions(project: Project, start: str = "") -> list[Extension]:
    """The extensions whose name is plain text, from the Python files of a project whose names begin with `start`."""
    found: list[Extension] = []
    for path in sorted(each for each in project.files if posixpath.basename(each).startswith(start)):
        names = project.names(path) if _WORDS.search(project.read(path)) is not None else None
        if names is not None:
            calls = ((node, scope) for node, scope in names.file.uses if isinstance(node, ast.Call))
            found += filter(None, (_from_call(call, scope, names) for call, scope in calls))
    return found


def built_modules(project: Project, others: Mapping[str, bytes]) -> dict[str, tuple[FindingKind, str]]:
    """The modules that the project's own files build, or may build, from CUDA sources, each with what to say of it.

    A `setup.py` shows its sources; a folder that .gitmodules or requirements (`others`) name may be empty here; other
    packages show it by their names."""
    found: dict[str, tuple[FindingKind, str]] = {}
    for each in extensions(project, "setup"):
        if each.cuda:
            message = f"{each.path} builds it from CUDA sources: it needs a counterpart in Ascend C."
            names = [each.name, *([each.name.partition(".")[0]] if _is_all(each, project) else ())]
            if "." not in each.name:  # built beside the file that says so
                names.append(".".join([*filter(None, posixpath.dirname(each.path).split("/")), each.name]))
            found.update(dict.fromkeys(names, (FindingKind.UNSUPPORTED, message)))
    known = {*sys.stdlib_module_names, *(path.partition("/")[0].removesuffix(".py") for path in project.files)}
    for path, source in others.items():
        for line in _INSTALLED.finditer(source.decode("utf-8", "replace")):
            what = line["what"].removeprefix("file:")
            name = re.sub(r"(\.git)?(@[^/]*)?(#.*)?$", "", what.rstrip("/")).rpartition("/")[2]
            folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), what))
            is_folder = "/" in what and "://" not in what
            if _module(name) in known or (is_folder and any(each.startswith(f"{folder}/") for each in project.files)):
                continue
            if is_folder:
                message = (
                    f"{path} names {what}, which is not in this copy: fetch it (git submodule update --init) and "
                    f"migrate again. What it builds from CUDA sources needs a counterpart in Ascend C."
                )
                found.setdefault(_module(name), (FindingKind.UNKNOWN, message))
            elif (match := _FOR_CUDA.fullmatch(re.split(r"[=<>!~\[]", name)[0])) is not None:
                message = f"{path} installs a build for CUDA: take one for Ascend or for the CPU."
                found.setdefault(_module(match["name"]), (FindingKind.UNKNOWN, message))
    found.pop("torch", None)
    return found


def _is_all(extension: Extension, project: Project) -> bool:
    """Return whether a package in a folder of the project cannot be imported without its extension: its `__init__`, or
    a file that this imports, does so first of all. One without Python here may be anything."""
    folder, (package, _, leaf) = posixpath.dirname(extension.path), extension.name.partition(".")
    start = f"{folder}/{package}/__init__.py"
    if not folder or start not in project.files:
        return bool(folder)
    read = filter(None, map(project.names, (start, *sorted(project.imported_by(start)))))
    imports = (each for names in read for each in names.file.tree.body if isinstance(each, IMPORTS))
    return any(leaf in name.split(".") for each in imports for _, name in imported_names(each))


def _module(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _from_call(call: ast.Call, scope: Scope, names: Names) -> Extension | None:
    name = extension_name(call)
    builders = _builders(call.func, scope, names) if name is not None else set()  # few calls have such a name
    if name is None or not builders:
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    listed = given.get("sources", call.args[1] if len(call.args) > 1 else None)
    sources = tuple(text for text in _strings(listed, scope) if text.endswith(_SOURCE_SUFFIXES))
    if builders == {"load"} and not sources:
        # torch.load, yaml.load and many others are called so too.
        return None
    cuda = "CUDAExtension" in builders or "cuda_sources" in given or any(text.endswith(".cu") for text in sources)
    if builders == {"Extension"} and not cuda:
        return None
    functions = tuple(_functions(given.get("functions"), scope)) if "load_inline" in builders else ()
    return Extension(names.path, name, sources, functions, cuda, call.lineno)


def extension_name(call: ast.Call) -> str | None:
    """The name that a call of a builder gives its extension, if it is written out."""
    return string_value(argument_of(call, "name", 0))


def _builders(function: ast.expr, scope: Scope, names: Names) -> set[str]:
    """The builders that a call may mean: `extension = CUDAExtension` under some condition is common."""
    functions = [function, *(_values(function.id, scope) if isinstance(function, ast.Name) else ())]
    spelled = (
        names.qualified(each, scope) or last_name(each) or "" for each in functions if not isinstance(each, ast.Call)
    )
    return {each.rpartition(".")[2] for each in spelled}.intersection(_BUILDERS)


def _values(name: str, scope: Scope) -> Iterator[ast.expr]:
    """Every value that a name is given, by `=` or `+=`: setup scripts build their lists so."""
    found = scope.lookup(name)
    for binding in found[1] if found is not None else ():
        if isinstance(binding, Assigned):
            added = binding.statement.value if isinstance(binding.statement, ast.AugAssign) else value_of(binding)
            yield from [added] if added is not None else []


def _strings(node: ast.expr | None, scope: Scope, deep: bool = True) -> Iterator[str]:
    """The string literals in an expression and in what its names are given."""
    for inner in walk(node) if node is not None else ():
        if isinstance(inner, ast.Name) and deep:
            for value in _values(inner.id, scope):
                yield from _strings(value, scope, deep=False)
        # f"{here}/csrc/nms.cpp" ends with what it says of a path
        text = string_value(inner.values[-1] if isinstance(inner, ast.JoinedStr) and inner.values else inner)
        if text is not None:
            yield text.lstrip("/") if isinstance(inner, ast.JoinedStr) else text


def _functions(node: ast.expr | None, scope: Scope) -> Iterator[str]:
    """load_inline takes one name, a list of them, or a dict from name to docstring."""
    for each in node.keys if isinstance(node, ast.Dict) else (node,):
        yield from _strings(each, scope)
