"""Which function of a library calls which, and which of them need something that an NPU lacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpu2npu.analysis.third_party_names import Library, Value
from gpu2npu.analysis.third_party_needs import Needs
from gpu2npu.analysis.third_party_records import Expression, Facts, Function, Use
from gpu2npu.report.third_party import Need

_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_RUNS = ("forward", "__call__")
_AUTOGRAD = "torch.autograd.Function"
_KEEPING = frozenset({"append", "add", "update", "setdefault", "extend", "insert", "dict", "set", "list", "namedtuple"})


class Step(NamedTuple):
    """What a function goes to next in a chain, and the line where: `callee` is None at the place of the need."""

    callee: str | None
    line: int


@dataclass
class Graph:
    """Nodes are the dotted names of functions, of classes (what making an object runs) and, for the code that a module
    runs when it is imported, of modules. `callers` has, for each, who calls it and in which line; `needs` who needs
    something itself, and where."""

    callers: dict[str, dict[str, int]] = field(default_factory=dict)
    needs: dict[Need, dict[str, int]] = field(default_factory=dict)

    def call(self, caller: str, callee: str, line: int) -> None:
        if caller != callee:
            self.callers.setdefault(callee, {}).setdefault(caller, line)

    def reaching(self, need: Need) -> dict[str, Step]:
        """Every node from which the need is reached, with the first step of a shortest chain there."""
        reached = {node: Step(None, line) for node, line in sorted(self.needs[need].items())}
        waiting = deque(reached)
        while waiting:
            node = waiting.popleft()
            for caller, line in self.callers.get(node, {}).items():
                if caller not in reached:
                    reached[caller] = Step(node, line)
                    waiting.append(caller)
        return reached


def chain(node: str, reached: Mapping[str, Step]) -> list[tuple[str, int]]:
    """The nodes from `node` to the need, each with the line where it goes on."""
    found = []
    following: str | None = node
    while following is not None:
        step = reached[following]
        found.append((following, step.line))
        following = step.callee
    return found


def call_graph(library: Library, needs: Needs) -> Graph:
    """The graph of a whole library."""
    graph = Graph()
    python_names = {name.rpartition(".")[2] for name in library.functions}
    for name, (facts, function) in library.functions.items():
        library.touched = _PropertyReads(graph, name, function.line)
        for use in function.uses:
            _enter(graph, library, needs, name, facts, function, use, python_names)
        library.touched = lambda touched: None
    for name in library.classes:
        _enter_class(graph, library, needs, name)
    return graph


@dataclass
class _PropertyReads:
    graph: Graph
    caller: str
    line: int

    def __call__(self, name: str) -> None:
        self.graph.call(self.caller, name, self.line)


def _enter(
    graph: Graph,
    library: Library,
    needs: Needs,
    name: str,
    facts: Facts,
    function: Function,
    use: Use,
    python_names: set[str],
) -> None:
    if isinstance(library.touched, _PropertyReads):
        library.touched.line = use.line
    values = library.evaluate(use.value, facts, function)
    run = use.how if not _is_kept(library, facts, function, use) else "read"
    for value in values:
        for callee in _runs(library, value, run):
            graph.call(name, callee, use.line)
        how = {"outside": use.how, "member": "member" if use.how == "call" else ""}.get(value.kind, "")
        need = needs.of(value.name, how) if how else None
        if need is not None:
            graph.needs.setdefault(need, {}).setdefault(name, use.line)
    if not values and use.how == "call" and use.value is not None and use.value[0] == "attribute":
        receiver = _last_name(use.value[1])
        own = receiver == function.first and bool(function.owner)
        need = needs.of_method(use.value[2], receiver, use.value[2] in python_names) if not own else None
        if need is not None:
            graph.needs.setdefault(need, {}).setdefault(name, use.line)


def _is_kept(library: Library, facts: Facts, function: Function, use: Use) -> bool:
    """Whether what is handed on is only kept: in a table, a list, or an object that is no torch.nn.Module."""
    if use.how != "pass" or use.to is None:
        return False
    name = _last_name(use.to).lower()
    if "regist" in name or name in _KEEPING:
        return True
    made = library.evaluate(use.to, facts, function)
    return any(value.kind == "class" and not library.is_module(value.name) for value in made)


def _runs(library: Library, value: Value, how: str) -> Iterator[str]:
    """The nodes that a use of a value runs: a class that is handed on is taken to be made, a function to be called."""
    if (value.kind == "function" and how != "read") or (value.kind == "class" and how != "read"):
        yield value.name
    elif value.kind == "object" and how == "call":
        yield runs_node(library, value.name)


def runs_node(library: Library, name: str) -> str:
    """The node of calling an object of a class: its own `forward` or `__call__`, or one that stands for an inherited
    one together with the parts that this class gives it; of an autograd function, its `apply`."""
    if _AUTOGRAD in library.line_of_classes(name):
        return f"{name}.apply"
    method = next((each for each in _RUNS if library.method(name, each) is not None), "forward")
    return f"{name}.{method}"


def _enter_class(graph: Graph, library: Library, needs: Needs, name: str) -> None:
    """Making an object runs its constructors; an outside base is a need of whoever makes one. A torch.nn.Module runs
    the modules that its constructor makes; an autograd function its `forward` and `backward`."""
    facts, class_ = library.classes[name]
    for constructor in _CONSTRUCTORS:
        method = library.method(name, constructor)
        if method is not None:
            graph.call(name, method, class_.line)
    for base in library.bases(name):
        if base.kind == "class":
            graph.call(name, base.name, class_.line)
        need = needs.of(base.name, "call") if base.kind == "outside" else None
        if need is not None:
            graph.needs.setdefault(need, {}).setdefault(name, class_.line)
    run = runs_node(library, name)
    inherited = next((found for method in _RUNS if (found := library.method(name, method)) is not None), None)
    if inherited is not None and inherited != run:
        graph.call(run, inherited, class_.line)
    if _AUTOGRAD in library.line_of_classes(name):
        for method in ("forward", "backward", "setup_context"):
            if (found := library.method(name, method)) is not None:
                graph.call(run, found, class_.line)
    if library.is_module(name):
        for part, line in _parts(library, facts, name):
            graph.call(run, runs_node(library, part), line)


def _parts(library: Library, facts: Facts, name: str) -> Iterator[tuple[str, int]]:
    """The modules of the library that a module's own constructor makes."""
    function = facts.functions.get(f"{library.classes[name][1].name}.__init__")
    for use in function.uses if function is not None else ():
        if use.how != "call":
            continue
        for value in library.evaluate(use.value, facts, function or Function("", 1)):
            if value.kind == "class" and value.name != name and library.is_module(value.name):
                yield value.name, use.line


def _last_name(value: Expression) -> str:
    """The last name of what an attribute is read from: "ext_module" in `self.ext_module.nms`."""
    if value is None:
        return ""
    if value[0] in ("attribute", "name", "local"):
        return str(value[-1])
    return _last_name(value[1]) if value[0] in ("call", "element") else ""
