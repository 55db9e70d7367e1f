"""Uses of the result of a call: comparisons through a name, as rules match them where the call is compared itself, and
whether parts of it are taken."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from gpu2npu.engine.code_matching import Matched
from gpu2npu.engine.other_devices.capability import compared_answer
from gpu2npu.engine.other_devices.choices import chooses
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.rulebook.code_pattern import parse_code
from gpu2npu.rulebook.rule import Rule

# What takes parts of a value.
_TAKING = frozenset({"map", "tuple", "list", "max", "min", "sum", "zip", "enumerate", "iter", "len"})


def through_names(
    names: Names, rules: Mapping[str, Sequence[Rule]], met: Collection[ast.AST]
) -> Iterator[tuple[Rule, Matched]]:
    """Yield the comparisons beside those `met` for which code rules choose: `if major >= 8:` below `major, _ = f()`."""
    file = names.file
    wanted: dict[tuple[str, type[ast.AST]], tuple[Rule, str]] = {}
    for rule in (rule for each in rules.values() for rule in each):
        word = getattr(rule.match, "chooses", None)
        tree = parse_code(rule.match.subject).tree if word is not None else None
        if word is not None and isinstance(tree, ast.Compare):
            wanted[_answer(tree.left), type(tree.ops[0])] = rule, word
    words = {(operator, word) for (_, operator), (_, word) in wanted.items()}
    for node in file.unordered().get(ast.Compare, ()) if wanted else ():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and node not in met:
            chosen = [word for operator, word in words if type(node.ops[0]) is operator and chooses(file, node, word)]
            found = wanted.get((compared_answer(node, names) or "", type(node.ops[0]))) if chosen else None
            if found is not None and found[1] in chosen:
                yield found[0], Matched(node, file.scope_of(node))


def _answer(code: ast.expr) -> str:
    """The code of a pattern as `compared_answer` gives it."""
    if isinstance(code, ast.Call):
        return f"{_answer(code.func)}()"
    if isinstance(code, ast.Subscript):
        return f"{_answer(code.value)}[{ast.unparse(code.slice)}]"
    return f"{_answer(code.value)}.{code.attr}" if isinstance(code, ast.Attribute) else ast.unparse(code)


def outermost(met: Mapping[ast.AST, tuple[Rule, Matched]], file: PythonFile) -> Mapping[ast.AST, tuple[Rule, Matched]]:
    """The matches without those that are a part of another's code, and none of its values."""
    above = {root: [met[each][1] for each in file.above(root) if each in met] for root in met}
    return {
        root: found
        for root, found in met.items()
        if all(set(found[1].names).isdisjoint(each.names) for each in above[root])
    }


def is_taken_apart(names: Names, node: ast.AST) -> bool:
    """Return whether the result of a call is compared, or a part of it taken, with no test for None."""
    values = values_of(names.project)
    place = values.call_at(names, node) if isinstance(node, ast.Call) else 0
    uses = values.uses(place, names.path) if place else ()
    places = [at for at, path in values.reach(place) if not path] if place else []
    if any(not {"Is", "IsNot"}.isdisjoint(values.operators_on(at)) for at in places):  # `value is None`
        return False
    is_compared = any(use.kind == "compared" or (use.kind == "argument" and use.text in _TAKING) for use in uses)
    return is_compared or any(label[0] == "[" for at in places for label in values.fields(at))
