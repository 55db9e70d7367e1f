"""Which functions of a library reach, through any chain of calls, something that an NPU lacks or that a migration has
to rewrite: an unsupported API, a CUDA operator, a CUDA API, an API of which nothing is known.

The library is read, never imported. Calls are followed through its files, its classes and what its packages re-export;
what a variable holds is told from annotations, assignments, defaults and what functions return. A call through an
object of which nothing is told is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpu2npu.analysis.cpp_extensions import extensions
from gpu2npu.analysis.cuda_callers import OperatorNames
from gpu2npu.analysis.cuda_operators import operator_lines
from gpu2npu.analysis.third_party_facts import read_facts
from gpu2npu.analysis.third_party_graph import Graph, Step, call_graph, chain
from gpu2npu.analysis.third_party_modules import module_names
from gpu2npu.analysis.third_party_names import Library, public_names
from gpu2npu.analysis.third_party_needs import Needs
from gpu2npu.analysis.third_party_records import Facts
from gpu2npu.engine import without_own
from gpu2npu.garbage import uncollected
from gpu2npu.records import PathNote
from gpu2npu.report.third_party import Affected, Need, ReachedNeed
from gpu2npu.rulebook import Rulebook, load_rulebook

Read = Callable[[list[tuple[str, str, bytes]]], Iterable[Facts]]


def read_all(files: list[tuple[str, str, bytes]]) -> list[Facts]:
    """The facts of each file, given as path, module and bytes, in this process."""
    return [read_facts(path, module, source) for path, module, source in files]


@uncollected()
def analyse_library(
    root: Path, files: Mapping[str, bytes], version: str, read: Read = read_all
) -> tuple[list[ReachedNeed], list[PathNote]]:
    """What the functions of a library need, and a note for each file that could not be read.

    `files` are its Python, C++ and CUDA files by path in the folder `root`, which is only a name here. `version` is one
    of support.tables.VERSIONS. `read` may share the work among processes.
    """
    # A setup script is no part of what users import.
    python = {path: source for path, source in files.items() if path.endswith(".py") and not path.endswith("setup.py")}
    library, notes = read_library(root, python, read)
    operators = OperatorNames(api for _, api in operator_lines(files, extensions(files)))
    rulebook: Rulebook = without_own(load_rulebook(()), python, root.name)
    graph = call_graph(library, Needs(version, rulebook, operators))
    names = _Names(library)
    return [_reached(graph, need, names) for need in graph.needs], notes


@uncollected()
def read_library(root: Path, python: Mapping[str, bytes], read: Read = read_all) -> tuple[Library, list[PathNote]]:
    """The modules of a library, and a note for each file that is not valid."""
    modules = module_names(root, python)
    facts = list(read([(path, modules[path], python[path]) for path in sorted(python)]))
    notes = [PathNote(each.path, each.failure, failed=True) for each in facts if each.failure]
    return Library(each for each in facts if not each.failure), notes


class _Names:
    """Where the nodes of the graph are defined, and what they can be called. A node reaches many needs, and is a link
    of many chains: what is told of it is one object for all."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._public = public_names(library)
        self._all: dict[str, tuple[str, ...]] = {}
        self._links: dict[tuple[str, int], tuple[str, str, int]] = {}

    def all(self, node: str) -> tuple[str, ...]:
        """The names a node can be imported by, its own last."""
        if node not in self._all:
            self._all[node] = self._names(node)
        return self._all[node]

    def link(self, node: str, line: int) -> tuple[str, str, int]:
        """A link of a chain: the node, the path where it is defined, and the line where the chain goes on."""
        if (node, line) not in self._links:
            self._links[node, line] = node, self.place(node)[0], line
        return self._links[node, line]

    def _names(self, node: str) -> tuple[str, ...]:
        others = self._public.get(node, ())
        owner, _, method = node.rpartition(".")
        if owner in self._library.classes and node not in self._library.classes:
            others = tuple(f"{name}.{method}" for name in self._public.get(owner, ()))
        return (*others, node)

    def place(self, node: str) -> tuple[str, int]:
        """The path and line of its definition; for an inherited method, of the class."""
        if node in self._library.functions:
            return self._library.functions[node][0].path, self._library.functions[node][1].line
        name = node if node in self._library.classes else node.rpartition(".")[0]
        facts, class_ = self._library.classes[name]
        return facts.path, class_.line


def _reached(graph: Graph, need: Need, names: _Names) -> ReachedNeed:
    steps = graph.reaching(need)
    chains = {node: chain(node, steps) for node in steps if not _is_constructor(node, steps)}
    nearest_first = sorted(chains, key=lambda node: (len(chains[node]), node))
    return ReachedNeed(need, tuple(_affected(node, chains[node], names) for node in nearest_first))


def _is_constructor(node: str, steps: Mapping[str, Step]) -> bool:
    """Whether it is only told of by its class, which is there too."""
    owner, _, name = node.rpartition(".")
    return name in ("__init__", "__new__", "__post_init__") and owner in steps


def _affected(node: str, links: list[tuple[str, int]], names: _Names) -> Affected:
    path, line = names.place(node)
    return Affected(names.all(node), path, line, tuple(names.link(each, at) for each, at in links))
