"""The functions of a library that reach, through any chain of calls, something that an NPU lacks or that a migration
has to rewrite: an unsupported API, a CUDA operator, a CUDA API, an API that is not known.

The library is read, never imported. Calls are followed through its files, its classes and what its packages re-export;
what a variable holds is inferred from annotations, assignments, defaults and what functions return. A call through an
object that is not known is not followed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

from gpu2npu.analysis.cuda_cpp.callers import OperatorNames
from gpu2npu.analysis.cuda_cpp.extensions import extensions
from gpu2npu.analysis.cuda_cpp.operators import operator_lines
from gpu2npu.analysis.library.graph import CONSTRUCTORS, Graph, Step, call_graph, chain_of
from gpu2npu.analysis.library.meanings import MeaningKind, Meanings
from gpu2npu.analysis.library.needs import Needs
from gpu2npu.engine import without_own
from gpu2npu.engine.torch_library import torch_project
from gpu2npu.garbage import uncollected
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.project.imports import offered_names
from gpu2npu.python.project.project import Project
from gpu2npu.python.text.source import SourceReadError, read_source
from gpu2npu.python.tree.syntax_tree import TreeError
from gpu2npu.records import PathNote
from gpu2npu.report.third_party import Affected, Need, ReachedNeed
from gpu2npu.rulebook import Rulebook, load_rulebook


@uncollected()
def analyse_library(root: Path, files: Mapping[str, bytes], version: str) -> tuple[list[ReachedNeed], list[PathNote]]:
    """The needs of the functions of a library, and a note for each file that could not be read.

    `files` are its Python, C++ and CUDA files by path in the folder `root`, which is only a name here. `version` is one
    of support.releases.VERSIONS.
    """
    # A setup script is not a part of what users import.
    own = (path for path in files if path.endswith(".py") and posixpath.basename(path) != "setup.py")
    python = {path: files[path] for path in own}
    meanings, notes = read_library(root, python)
    operators = OperatorNames(api for _, api in operator_lines(files, extensions(torch_project(files, root))))
    rulebook: Rulebook = without_own(load_rulebook(()), python, root.name)
    graph = call_graph(meanings, Needs(version, rulebook, operators))
    public = public_names(meanings)
    return [_reached(graph, need, public) for need in graph.needs], notes


def read_library(root: Path, python: Mapping[str, bytes]) -> tuple[Meanings, list[PathNote]]:
    """The model of a library, given by its Python files, and a note for each file that is not valid."""
    project = torch_project(python, root)
    reasons = {path: _failure(path, project) for path in sorted(python)}
    return Meanings(project), [PathNote(path, reason, failed=True) for path, reason in reasons.items() if reason]


def _failure(path: str, project: Project) -> str | None:
    """The reason for which a file cannot be read; None if it can."""
    try:
        Names.of(read_source(project.read(path), path), project)
    except (SourceReadError, TreeError) as error:
        return str(error)
    return None


def public_names(meanings: Meanings) -> Mapping[str, tuple[str, ...]]:
    """For each function and class, the other names that the packages of the library offer it under, shortest first."""
    found: dict[str, set[str]] = {}
    for path, module in meanings.modules.items():
        for name in offered_names(meanings.project, path) if path.endswith("__init__.py") else ():
            for meaning in meanings.member(path, name):
                dotted, public = meanings.dotted(meaning), f"{module}.{name}"
                if meaning.kind in (MeaningKind.FUNCTION, MeaningKind.CLASS) and dotted != public:
                    found.setdefault(dotted, set()).add(public)
    return {name: tuple(sorted(others, key=lambda each: (len(each), each))) for name, others in found.items()}


def _reached(graph: Graph, need: Need, public: Mapping[str, tuple[str, ...]]) -> ReachedNeed:
    steps = graph.reaching(need)
    chains = {node: chain_of(node, steps) for node in steps if not _is_constructor(node, steps)}
    nearest_first = sorted(chains, key=lambda node: (len(chains[node]), node))
    affected = []
    for node in nearest_first:
        path, line = _place(graph, node)
        links = tuple((each, _place(graph, each)[0], at) for each, at in chains[node])
        affected.append(Affected(_names(graph, node, public), path, line, links))
    return ReachedNeed(need, tuple(affected))


def _names(graph: Graph, node: str, public: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The names a node can be imported by, its own last."""
    others = public.get(node, ())
    owner, _, method = node.rpartition(".")
    if owner in graph.classes and node not in graph.classes:
        others = tuple(f"{name}.{method}" for name in public.get(owner, ()))
    return (*others, node)


def _place(graph: Graph, node: str) -> tuple[str, int]:
    """The path and line of its definition; for an inherited method, of the class."""
    return graph.places[node] if node in graph.places else graph.places[node.rpartition(".")[0]]


def _is_constructor(node: str, steps: Mapping[str, Step]) -> bool:
    """Return whether only its class is reported, which is there too."""
    owner, _, name = node.rpartition(".")
    return name in CONSTRUCTORS and owner in steps
