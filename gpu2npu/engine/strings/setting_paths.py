"""The path of keys by which Python code reads or writes the setting that a string is a value of."""

from __future__ import annotations

import ast

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Binding, Scope
from gpu2npu.python.tree.syntax import is_self, last_name, string_value

_READS = frozenset({"get", "setdefault", "pop"})
_READS_OF_FIRST = frozenset({"getattr", "setattr", "select", "update", "deep_get"})


def path_beside(file: PythonFile, node: ast.expr, scope: Scope, within: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The variable, keys and attributes of what a string is compared with, assigned to, or stands for where it is not
    set: `cfg["engine"]["backend"] == "gpu"`, `cfg.engine.get("backend", "gpu")`. `within` are its keys in a dictionary
    that settings may be updated with. None of anything else."""
    if within:
        return _updated(file, node, scope, within)
    above = file.parents[node]
    if isinstance(above, (ast.List, ast.Tuple, ast.Set)):
        if (given := _before(above.elts, node)) is not None:  # ["engine.backend", "gpu"]
            return given
        node, above = above, file.parents[above]  # in ("gpu", "cuda")
    if isinstance(above, ast.Compare) and len(above.ops) == 1:
        return _path(above.comparators[0] if above.left is node else above.left, scope)
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        return _path(above.targets[0], scope)
    if isinstance(above, ast.MatchValue):
        match = next((each for each in file.above(above) if isinstance(each, ast.Match)), None)
        return _path(match.subject, scope) if match is not None else ()
    if isinstance(above, ast.keyword) and above.arg is not None:
        return _updated(file, above, scope, (above.arg,))
    if isinstance(above, ast.Call) and above.args and above.args[-1] is node:
        return _path(above, scope)
    return ()


def _updated(file: PythonFile, node: ast.AST, scope: Scope, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The path of what `cfg.engine.update(backend="gpu")` or `.update({"backend": "gpu"})` sets."""
    call = next((each for each in (node, *file.above(node)) if isinstance(each, ast.Call)), None)
    if call is None or last_name(call.func) != "update" or not isinstance(call.func, ast.Attribute):
        return ()
    return (*_path(call.func.value, scope), *keys)


def _before(items: list[ast.expr], node: ast.expr) -> tuple[str, ...] | None:
    """The dotted path that stands before a string in a list."""
    index = items.index(node)
    text = string_value(items[index - 1]) if index else None
    return tuple(text.lstrip("-+").split(".")) if text is not None and "." in text else None


def _path(node: ast.AST, scope: Scope) -> tuple[str, ...]:
    """The path by which a value is read or set, from the variable on; none where it is read otherwise."""
    keys, seen = list[str](), set[ast.AST]()
    while True:
        bound = _only_value(node, scope)
        if bound is not None and bound[0] not in seen:  # names that are bound to each other come to no end
            node, scope = bound
            seen.add(node)
        elif isinstance(node, ast.Attribute):
            keys.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            keys.append(string_value(node.slice) or "*")
            node = node.value
        elif isinstance(node, ast.Call) and (step := _step(node)) is not None:
            node, text = step
            keys += reversed(text.split("."))
        else:
            break
    return (*([node.id] if isinstance(node, ast.Name) and keys else ()), *reversed(keys))


def _only_value(node: ast.AST, scope: Scope) -> tuple[ast.expr, Scope] | None:
    """The expression that a name, or an attribute of `self`, is bound to, if that is read from something; its scope."""
    cls = scope.enclosing_class() if isinstance(node, ast.Attribute) and is_self(node.value) else None
    bound = list[tuple[Binding, Scope]]()
    if isinstance(node, ast.Name) and (found := scope.lookup(node.id)) is not None:
        bound = [(each, found[0]) for each in found[1]]
    elif cls is not None and isinstance(node, ast.Attribute):
        bound = list(cls.attributes.get(node.attr, ()))
    binding, owner = bound[0] if len(bound) == 1 else (None, scope)
    value = binding.whole if isinstance(binding, Assigned) else None
    is_read = isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) or (
        isinstance(value, ast.Call) and _step(value)
    )
    return (value, owner) if value is not None and is_read else None


def _step(call: ast.Call) -> tuple[ast.expr, str] | None:
    """The object that a call reads a key of, and the key: `cfg.get("a")`, `OmegaConf.select(cfg, "a.b")`."""
    name, texts = last_name(call.func), [string_value(each) for each in call.args[:2]]
    if name in _READS and isinstance(call.func, ast.Attribute) and texts and texts[0]:
        return call.func.value, texts[0]
    if name in _READS_OF_FIRST and len(texts) == 2 and texts[1]:
        return call.args[0], texts[1]
    return None
