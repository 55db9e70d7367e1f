"""The Python code that calls the operators that a project's CUDA code exports: by their names, file by file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from gpu2npu.analysis.cuda_cpp.extensions import extension_name
from gpu2npu.python.facts.reading import loaded_module
from gpu2npu.python.facts.record import FileFacts
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.project import Project
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, chain, last_name

# Names that methods of any module, optimizer, tensor or container may have, too: such a name says nothing alone.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """forward backward fwd bwd apply step update get set add run call init free sync copy load save create destroy
        reset close open start stop write read size max min sum mean flush wait test main append pop put send recv relu
        gelu silu softmax layer_norm rms_norm dropout bias_add transpose matmul linear attention embedding""",
    )
)
# How variables that hold an extension are called; used where the project has a Python function of the same name.
_EXTENSION = re.compile(r"ext|cuda|_c$|_module|kernel|_ops|lib|_op$", re.IGNORECASE)
_BUILDERS = frozenset({"load", "load_inline"})


class OperatorNames:
    """Finds the operator that a name in Python code means. `apis` are as reports name them: "my_ext.nms" for what
    pybind exports, "nms" where the extension's name is not known, "torchvision::nms" for torch.ops.torchvision.nms."""

    def __init__(self, apis: Iterable[str]) -> None:
        self._endings: dict[str, str] = {}
        self._leaves: dict[str, str | None] = {}
        words: set[str] = set()
        for api in sorted(apis):
            parts = api.replace("::", ".").partition("(")[0].split(".")
            # What a torch library registers is in torch.ops; its Python wrapper often has the same name elsewhere.
            ending = ["ops", *parts] if "::" in api else parts[-2:]
            self._endings.setdefault(".".join(ending), api)
            leaf = parts[-1]
            words.update([leaf] if leaf not in _COMMON else parts[-2:-1])
            self._leaves[leaf] = api if self._leaves.get(leaf, api) == api and leaf not in _COMMON else None
        self._words = frozenset(words)

    def named(self, qualified: str) -> str | None:
        """The operator with a qualified name; an overload of it (torch.ops.vision.nms.default) counts."""
        parts = qualified.split(".")
        if qualified.startswith("torch.") and not qualified.startswith("torch.ops."):
            return None
        if len(parts) > 2 and parts[-1] in ("default", "out", "apply"):
            parts = parts[:-1]
        return self._endings.get(".".join(parts[-3:])) or self._endings.get(".".join(parts[-2:]))

    def method(self, name: str, receiver: str, is_python: bool) -> str | None:
        """The operator that an attribute of an unknown object is, if its name is unlike that of any usual method.

        `receiver` is the last part of what the object is called. `is_python`: some Python function of the project has
        that name, too, so that the receiver has to look like an extension.
        """
        return None if is_python and not _EXTENSION.search(receiver) else self._leaves.get(name)

    def may_be_in(self, facts: FileFacts | None) -> bool:
        """Return whether a file has a word that a use of some operator cannot do without."""
        if facts is None or not self._words:
            return False
        modules = (text.rpartition(".")[2] for text in facts.texts)
        return not self._words.isdisjoint(facts.names) or not self._words.isdisjoint(modules)


def callers(apis: Iterable[str], project: Project) -> dict[str, tuple[str, ...]]:
    """For each operator that some Python file of the project uses, where: "path:line", sorted. A use is a call, or the
    name where it is alone, as in `kernel = _C.nms`."""
    operators = OperatorNames(apis)
    found: dict[str, set[tuple[str, int]]] = {}
    concerned = [path for path in sorted(project.files) if operators.may_be_in(project.facts(path, path))]
    defined = {name for path in concerned for name in _defined(project.names(path))}
    for path in concerned:
        names = project.names(path)
        for api, line in _uses(names, operators, defined) if names is not None else ():
            found.setdefault(api, set()).add((path, line))
    return {api: tuple(f"{path}:{line}" for path, line in sorted(places)) for api, places in found.items()}


def _defined(names: Names | None) -> Iterator[str]:
    """The names of the functions and methods of a file."""
    opened = names.file.scopes if names is not None else ()
    yield from (node.name for node in opened if isinstance(node, FUNCTIONS))


def _uses(names: Names, operators: OperatorNames, defined: set[str]) -> Iterator[tuple[str, int]]:
    for use, scope in names.file.uses:
        for node in chain(use) if isinstance(use, ast.Attribute | ast.Name) else ():
            if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            qualified = _qualified(node, scope, names)
            api = operators.named(qualified) if qualified is not None else _method(node, operators, defined)
            if api is not None:
                yield api, node.lineno


def _qualified(node: ast.Attribute | ast.Name, scope: Scope, names: Names) -> str | None:
    """The qualified name of an expression, also where it starts at a variable that holds a loaded extension."""
    root, *members = chain(node)
    for loaded in map(loaded_extension, scope.values(root)):
        if loaded is not None:
            return ".".join([loaded, *(member.attr for member in members if isinstance(member, ast.Attribute))])
    qualified = names.qualified(node, scope)
    return qualified.lstrip(".") if qualified is not None else None


def _method(node: ast.Attribute | ast.Name, operators: OperatorNames, defined: set[str]) -> str | None:
    """The operator that an attribute of an unknown object seems to be; never one of `self`."""
    if isinstance(node, ast.Name) or (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
        return None
    return operators.method(node.attr, last_name(node.value) or "", node.attr in defined)


def loaded_extension(value: ast.expr | None) -> str | None:
    """The name in `load(name="wkv", sources=...)`, `load_inline("wkv", ...)` or `importlib.import_module("wkv")`."""
    if not isinstance(value, ast.Call):
        return None
    sources = any(keyword.arg in ("sources", "cuda_sources", "cpp_sources") for keyword in value.keywords)
    if last_name(value.func) in _BUILDERS and (sources or len(value.args) > 1):
        return extension_name(value)
    return loaded_module(value)
