"""Which functions and classes a program may run, as far as their names tell.

A function counts as called where its name appears in code that runs, whatever the name means there. That says too much
where two functions share a name, and too little only where a name is put together at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from gpu2npu.codemods.program import ParsedFile
from gpu2npu.engine.tree import children, dotted_name, last_name

Definition = cst.FunctionDef | cst.ClassDef

# Decorators that leave a function to those who call it; others may put it into a registry, or make it a command.
_PLAIN = frozenset(
    {
        "abstractmethod", "autocast", "cache", "cached_property", "classmethod", "contextmanager", "dataclass",
        "enable_grad", "inference_mode", "lru_cache", "no_grad", "overload", "property", "script", "setter",
        "staticmethod", "wraps",
    }
)  # fmt: skip


def reached_definitions(entry: ParsedFile, others: Iterable[ParsedFile]) -> frozenset[int]:
    """The ids of the functions and classes that may run when `entry` is started and loads the other files."""
    loaded = list(others)
    search = _Search()
    for file in (entry, *loaded):
        search.index(file.module, None)
    search.run(entry.module.body)
    for file in loaded:
        search.run([statement for statement in file.module.body if not is_main_guard(statement)])
    return frozenset(search.reached)


def is_main_guard(statement: cst.CSTNode) -> bool:
    """`if __name__ == '__main__':`"""
    if not isinstance(statement, cst.If) or not isinstance(statement.test, cst.Comparison):
        return False
    parts = [statement.test.left, *(target.comparator for target in statement.test.comparisons)]
    return any(isinstance(part, cst.Name) and part.value == "__name__" for part in parts)


@dataclass(eq=False)
class _Search:
    by_name: dict[str, list[Definition]] = field(default_factory=dict)
    owner: dict[int, Definition] = field(default_factory=dict)  # the class of a method
    named: set[str] = field(default_factory=set)
    reached: set[int] = field(default_factory=set)

    def index(self, node: cst.CSTNode, within: cst.ClassDef | None) -> None:
        """Remember every definition under its name."""
        for child in children(node):
            if isinstance(child, (cst.FunctionDef, cst.ClassDef)):
                self.by_name.setdefault(child.name.value, []).append(child)
                if within is not None:
                    self.owner[id(child)] = within
                self.index(child, child if isinstance(child, cst.ClassDef) else None)
            else:
                self.index(child, within)

    def run(self, code: Iterable[cst.CSTNode]) -> None:
        """What code that runs names is reached, and so on."""
        pending = list(code)
        while pending:
            for item in _named_in(pending.pop()):
                if isinstance(item, str):
                    if item not in self.named:
                        self.named.add(item)
                        pending += self.reach(self.by_name.get(item, ()))
                elif _is_registered(item):
                    pending += self.reach([item])

    def reach(self, definitions: Iterable[Definition]) -> Iterator[cst.CSTNode]:
        """Mark definitions; gives their bodies, and those of the methods that then may run."""
        for definition in definitions:
            owner = self.owner.get(id(definition))
            if id(definition) in self.reached or (owner is not None and id(owner) not in self.reached):
                continue
            self.reached.add(id(definition))
            yield definition.body
            if isinstance(definition, cst.ClassDef):
                yield from definition.bases
                methods = (part for part in definition.body.body if isinstance(part, cst.FunctionDef))
                yield from self.reach([method for method in methods if self.may_run(method)])

    def may_run(self, method: cst.FunctionDef) -> bool:
        name = method.name.value
        return name in self.named or name == "forward" or (name.startswith("__") and name.endswith("__"))


def _named_in(code: cst.CSTNode) -> Iterator[str | Definition]:
    """The names in code, with the original names of imports; of definitions in it the decorators' names and the
    definition itself."""
    pending = [code]
    while pending:
        node = pending.pop()
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            yield node
            pending += node.decorators
            if isinstance(node, cst.FunctionDef):
                pending.append(node.params)
        elif isinstance(node, cst.ImportAlias):
            if node.asname is not None:
                yield (dotted_name(node.name) or "").rpartition(".")[2]
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            pending += [] if isinstance(node.names, cst.ImportStar) else node.names
        elif isinstance(node, cst.Name):
            yield node.value
        else:
            pending += children(node)


def _is_registered(definition: Definition) -> bool:
    return any(last_name(decorator.decorator) not in _PLAIN for decorator in definition.decorators)
