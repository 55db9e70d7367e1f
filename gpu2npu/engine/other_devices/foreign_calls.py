"""Calls of packages that compute without PyTorch and know no NPU, and of the objects that they give."""

from __future__ import annotations

import ast

from gpu2npu.engine.strings.value_effects import EFFECTS, values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.syntax import argument_value, arguments, string_value
from gpu2npu.rulebook.rule import Rule

_MOST_CALLS = 3


def foreign_rule(qualified: str, names: Names, table: RuleTable) -> Rule | None:
    """The rule for a package that knows no NPU and has a qualified name; None for other names."""
    rule = table.package_rule(qualified)
    is_own = names.project.module_path(qualified.partition(".")[0], names.path) is not None
    return None if rule is None or not rule.then.own_devices or is_own else rule


def imports_foreign(statement: ast.stmt, names: Names, table: RuleTable) -> bool:
    """Return whether a statement imports nothing but packages that know no NPU."""
    imported = statement.names if isinstance(statement, ast.Import) else ()
    return bool(imported) and all(foreign_rule(each.name, names, table) is not None for each in imported)


def gives_cuda(value: ast.expr, names: Names, table: RuleTable) -> bool:
    """Return whether an expression calls a package that knows no NPU with "cuda": `torch_tvm.enable(device="cuda")`."""
    if not isinstance(value, ast.Call) or "cuda" not in map(string_value, map(argument_value, arguments(value))):
        return False
    qualified = names.qualified(value.func, names.file.scope_of(value))
    return qualified is not None and foreign_rule(qualified, names, table) is not None


def foreign_rule_at(call: int, names: Names, table: RuleTable, most: int = _MOST_CALLS) -> Rule | None:
    """The rule for the package whose function, or method of what at most so many calls of it gave, is called in a
    place; also by `super().__init__`, or through a class of the project that is made as its base is."""
    values = values_of(names.project)
    rules: set[Rule | None] = set()
    origins = [origin for origin, _ in values.callees(call)]
    made = [values.sources(each.place, names.path, (".__init__",)) for each in origins if each.kind == "class"]
    for origin in (*origins, *(each for some in made for each in some)):
        name = origin.text.partition("(")[0]
        leaf = name.rpartition(".")[2]
        if leaf[:1].isupper() and leaf in EFFECTS and EFFECTS[leaf].kind == "attributes":
            continue  # an object that holds what it is given for others: tf.contrib.training.HParams
        if origin.kind == "outside" and name != "super" and origin.text.count("(") <= most:
            rules.add(foreign_rule(name, names, table))
    if not rules and most and values.receiver(call) in values.at(call).calls:
        return foreign_rule_at(values.receiver(call), names, table, most - 1)  # a longer chain than are followed
    return rules.pop() if len(rules) == 1 else None
