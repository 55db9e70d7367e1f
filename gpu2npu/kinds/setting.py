"""Rules for settings of configurations, by the path of their keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from gpu2npu.engine.file_rules import FileRules, Handlers
from gpu2npu.engine.knowledge import Knowledge, PlaceHandlers, SettingValue
from gpu2npu.engine.marks import Mark, applied
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Binding, Scope, value_of
from gpu2npu.python.tree.syntax import is_self, last_name, string_value
from gpu2npu.records import Edit
from gpu2npu.rulebook.match import Evidence, Json, Match, leaf, listed


class SettingMatch(Match, frozen=True):
    """A value in YAML, JSON or TOML, or a setting on a command line, by its keys: `*` is any one key, `**` any
    number; strings in dictionaries of Python code too, `{...}` and `dict(...)`, by the keys from the outermost one
    on."""

    setting: str
    values: frozenset[str] = frozenset()

    key = "setting"
    shape: ClassVar[Json] = {
        "setting": {
            "description": "Keys with dots between them: * is any one key, ** any number of them; the last is a key.",
            "type": "string",
            "pattern": r"^([^.\s]+\.)*(?!\*)[^.\s]+$",
        },
        "values": {
            "description": "Only where the value is one of these strings, or a number that is written so.",
            "$ref": "#/$defs/words",
        },
    }
    actions = ("rename",)
    starter: ClassVar[Json] = {
        "$comment": "A setting in YAML, JSON or TOML by the path of its keys: * is any one key, ** any number of them.",
        "why": "The trainer of our library takes another accelerator on the NPU.",
        "match": {"setting": "trainer.*.accelerator", "values": ["gpu", "cuda"]},
        "then": {"rename": "npu"},
        "examples": [
            {
                "file": "conf.yaml",
                "before": "trainer:\n  main:\n    accelerator: gpu  # A100\n",
                "after": "trainer:\n  main:\n    accelerator: npu  # A100\n",
            },
            {"file": "conf.yaml", "keep": "plot:\n  main:\n    accelerator: gpu-line\n"},
        ],
    }

    @property
    def index(self) -> str:
        return leaf(self.setting)

    @property
    def evidence(self) -> Evidence:
        value = next(iter(self.values)) if len(self.values) == 1 else ""
        return Evidence(" ".join(filter(None, (*(step for step in self.setting.split(".") if "*" not in step), value))))

    @property
    def text(self) -> str:
        values = f" where it is {listed(self.values)}" if self.values else ""
        return f"the setting `{self.setting}` of configurations{values}"

    @property
    def subject(self) -> str:
        return f"{self.setting}: {' | '.join(sorted(self.values)) or '...'}"

    @property
    def why_not_named(self) -> str:
        return f"it matches {self.text}, and in dictionaries by all keys from the outermost one on"

    def fits(self, keys: Sequence[str], value: str) -> bool:
        """Return whether a value below some keys is the setting; a value that is not a string is given as its text."""
        if self.values and value not in self.values:
            return False
        steps = {"*": r"[^\0]+\0", "**": r"(?:[^\0]+\0)*"}
        pattern = "".join(steps.get(step, re.escape(step) + r"\0") for step in self.setting.split("."))
        return re.fullmatch(pattern, "".join(f"{key}\0" for key in keys)) is not None

    @classmethod
    def handlers(cls, work: FileRules) -> Handlers:
        rules = work.rules(cls.key)
        if not rules:
            return {}
        matches = [rule.match for found in rules.values() for rule in found if isinstance(rule.match, SettingMatch)]
        texts = frozenset(rules).union(*(match.values for match in matches))
        is_any = any(not match.values for match in matches)

        def constant(node: ast.Constant, scope: Scope) -> bool:
            text = str(node.value)
            may_be = is_any or text in texts or "=" in text  # a value, the key of a number, `a.b=value`
            return may_be and _in_python(work, node, scope)

        return {ast.Constant: constant}

    @classmethod
    def place_handlers(cls, rules: Knowledge) -> PlaceHandlers:
        return {SettingValue: partial(_marks, rules.table)}

    def meets(self, other: Match) -> bool:
        if not isinstance(other, SettingMatch) or self.setting != other.setting:
            return False
        return not self.values or not other.values or not self.values.isdisjoint(other.values)

    @classmethod
    def problems(cls, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if "rename" in entry["then"] and "values" not in entry["match"]:
            yield "then.rename", "writes another value, so the match must say which it is now: give 'values'"


def _in_python(work: FileRules, node: ast.Constant, scope: Scope) -> bool:
    """Apply the rule for a string in a dictionary, a value or the key of a number; return whether there was one."""
    node = _number_of(work.file, node) or node
    keys = tuple(reversed(list(keys_above(work.file, node))))
    rules = work.table.of(SettingMatch.key).get(keys[-1], ()) if keys else ()
    for rule in rules:
        text = StringText.of(work.file, node)
        if text is None and isinstance(node.value, str):
            continue
        value = str(node.value) if text is None else text.raw
        if not isinstance(rule.match, SettingMatch) or not rule.match.fits(keys, value):
            continue
        if not rule.then.keep:
            work.matches.note(rule, work.file.bounds(node) if text is None else text.place, keys[-1])
        if rule.then.rename is not None and text is not None:
            work.matches.edit(Edit(text.place, text.quoted(rule.then.rename), rule.id, rule.why))
        return True
    _report_other_place(work, node, scope, keys)
    return False


def _report_other_place(work: FileRules, node: ast.Constant, scope: Scope, within: tuple[str, ...]) -> None:
    """Report a string that a setting is compared with or set to: `cfg.engine.backend == "gpu"`, also the text
    `"engine.backend=gpu"`. Rules for strings still see it; `within` are its keys in a dictionary."""
    text = string_value(node) or ""
    path, equals, value = text.partition("=")
    keys = tuple(path.lstrip("+").split(".")) if equals else path_of(work.file, node, scope, within)
    for rule in work.table.of(SettingMatch.key).get(keys[-1], ()) if keys else ():
        assert isinstance(rule.match, SettingMatch)
        begins = range(len(keys))  # the first may be the variable that has all settings
        if rule.then.rename is None or not any(rule.match.fits(keys[at:], value if equals else text) for at in begins):
            continue
        message = f"{rule.why} This may be the setting, which becomes {rule.then.rename} in configurations: check it."
        work.matches.review(rule, work.file.bounds(node), text, message)
        return


def _number_of(file: PythonFile, key: ast.Constant) -> ast.Constant | None:
    """Return the number that is under a key in the display of a dictionary: numbers are not visited themselves."""
    above = file.parents[key]
    if not isinstance(above, ast.Dict):
        return None
    value = next((v for k, v in zip(above.keys, above.values, strict=True) if k is key), None)
    return value if isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) else None


def keys_above(file: PythonFile, node: ast.expr) -> Iterator[str]:
    """Yield the keys above a value in displays of dictionaries and calls of `dict`, from the innermost on."""
    for above, below in file.steps(node):
        key: str | None = None
        if isinstance(above, ast.Dict):
            key = next((string_value(k) for k, v in zip(above.keys, above.values, strict=True) if v is below), None)
            if key is None:
                return
        elif isinstance(above, ast.keyword) and _is_of_dict(file.parents[above]):
            key = above.arg
        elif not isinstance(above, (ast.List, ast.Tuple)) and not isinstance(below, ast.keyword):
            return
        if key is not None:
            yield key


def _is_of_dict(node: ast.AST) -> bool:
    """Return whether a node is a call of `dict`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"


def _marks(table: RuleTable, place: SettingValue) -> list[Mark] | None:
    """Return the marks of rules for a value by its keys; None if no rule fits."""
    keys, value = place.keys, place.value
    for rule in table.of(SettingMatch.key).get(keys[-1], ()) if keys else ():
        if isinstance(rule.match, SettingMatch) and rule.match.fits(keys, place.atom if value is None else value):
            shown = keys[-1] if value is None else value
            return applied(rule, place.start, place.start + len(shown), shown)
    return None


_READS = frozenset({"get", "setdefault", "pop"})
_READS_OF_FIRST = frozenset({"getattr", "setattr", "select", "update", "deep_get"})


def path_of(file: PythonFile, node: ast.expr, scope: Scope, within: tuple[str, ...] = ()) -> tuple[str, ...]:
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
    """The dotted path that is before a string in a list."""
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
    value = value_of(binding)
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
