"""Code that is like a pattern: names by what they mean, arguments by the parameters they are for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from gpu2npu.engine.file_rules import FileRules
from gpu2npu.near_names import did_you_mean
from gpu2npu.python.meaning.inheritance import Wanted
from gpu2npu.python.meaning.instances import INTEGER, Instances, may_be_none
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.object_kinds import TENSOR, UNKNOWN, ObjectKinds
from gpu2npu.python.tree.scopes import Binding, Imported, Scope, value_of
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    argument_keyword,
    argument_value,
    arguments,
    chain,
    dotted_name,
    has_effects,
    is_unpacked,
    last_name,
    parameters,
)
from gpu2npu.rulebook.code_pattern import ANYTHING, CodePattern, is_rest, metavariable, qualified_name
from gpu2npu.rulebook.rule import Rule

Argument = ast.expr | ast.keyword

# Objects that hold the user's own command line flags: `args.is_cuda` is not the attribute of a tensor.
FLAG_HOLDERS = frozenset({"args", "opt", "opts", "options", "flags", "FLAGS", "cfg", "config", "conf", "hparams"})
CLASSES = {"tensor": "torch.Tensor", "module": "torch.nn.Module"}  # of what types say
_DEVICE = re.compile(r"(cuda|gpu|cpu|npu|mps|xpu|hip|meta)(:\d+)?")
_DTYPE = re.compile(r"torch\.(b?float\w*|half|double|u?int\d*|long|short|bool|complex\w*|q?u?int\w*)")
# What a type may be besides the qualified name of a class, and the classes that one of them is written for.
TYPES = ("tensor", "module", UNKNOWN, "device", "dtype", "literal", "integer", "name", "pure")
_SAME = {**{cls: kind for kind, cls in CLASSES.items()}, "torch.device": "device", "torch.dtype": "dtype"}


def is_written_as(value: ast.expr, expressions: Iterable[str]) -> bool:
    """Return whether an expression is one of some that are written out, whichever quotes and spaces each has."""
    return ast.unparse(value) in map(_usual, expressions)


@lru_cache(maxsize=1_000)
def _usual(expression: str) -> str:
    """An expression as `ast.unparse` writes it; what is none as it is."""
    try:
        return ast.unparse(ast.parse(expression, mode="eval"))
    except SyntaxError:
        return expression


def type_problem(kind: str) -> str | None:
    """Return why a type of a metavariable is never met; None where it may be."""
    if kind in _SAME:
        return f"write {_SAME[kind]!r} for {kind}, of which most objects are made by other functions"
    if "." in kind or kind in TYPES:
        return None
    near = did_you_mean(kind.lower(), TYPES).rstrip("?") or f"known are {', '.join(TYPES)}"
    return f"{kind!r} is neither a type nor the qualified name of a class; {near}"


def with_article(kind: str) -> str:
    """The name of a type behind "a", or "an" before a vowel."""
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


class Unknown(NamedTuple):
    """A fact that is not known of a possible match, in words; of an object also the class that it may be of."""

    text: str
    cls: str | None = None


@dataclass
class Matched:
    """The code that a pattern matched.

    `values` are those of its metavariables, `ignored` what `$_` stands for, `rest` the further arguments; `names` are
    the nodes that the pattern's names stand for; `arguments` those of the outermost call, each with the argument of
    the pattern that it is, None for one of the rest. `unknown` has what is not known and must be so for a match.
    """

    node: ast.expr
    scope: Scope
    values: dict[str, ast.expr] = field(default_factory=dict)
    rest: list[Argument] = field(default_factory=list)
    ignored: list[Argument] = field(default_factory=list)
    names: list[ast.expr] = field(default_factory=list)
    arguments: list[tuple[Argument, Argument | None]] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    @property
    def pattern_names(self) -> list[ast.expr]:
        """The names but for those that begin within a metavariable's value: `POOL.used` for `$P.used`."""
        roots = {chain(value)[0] for value in self.values.values()}
        return [name for name in self.names if chain(name)[0] not in roots]

    @property
    def is_loaded(self) -> bool:
        """Return whether the code is read, not assigned or deleted."""
        return isinstance(getattr(self.node, "ctx", ast.Load()), ast.Load)


class CodeMatcher:
    """Matches the expressions of one file."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.instances = Instances(names)
        self.kinds = ObjectKinds(names, self.instances.types)

    def match(
        self, pattern: CodePattern, node: ast.expr, scope: Scope, types: Mapping[str, str], signature: Sequence[str]
    ) -> Matched | None:
        """Match an expression against a pattern whose metavariables are of `types`; `signature` names the parameters
        of the function that is called outermost."""
        matched = Matched(node, scope)
        attempt = _Attempt(self, matched, types, signature)
        return matched if attempt.is_like(pattern.tree, node) else None

    def difference(
        self, pattern: CodePattern, node: ast.AST, scope: Scope, types: Mapping[str, str], signature: Sequence[str]
    ) -> str | None:
        """Return the first thing in which the code around a name differs from a pattern, or what of it is not known;
        None where there is none that can be said."""
        enclosing = (each for each in (node, *self.names.file.above(node)) if isinstance(each, ast.expr))
        nearest = next((each for each in enclosing if type(each) is type(pattern.tree)), None)
        if nearest is None:
            is_call = isinstance(pattern.tree, ast.Call)
            return f"`{self.names.file.code(node)}` is not called here" if is_call else None
        node, matched = nearest, Matched(nearest, scope)
        attempt = _Attempt(self, matched, types, signature)
        if attempt.is_like(pattern.tree, node):
            return next((each.text for each in matched.unknown), None)
        if attempt.difference is None:
            return None
        text, part = attempt.difference
        return text.format(code=self.names.file.code(part))

    def is_of(self, kind: str, node: ast.expr, scope: Scope) -> bool | None:
        """Return whether an expression is what a type asks for; None where that is not known."""
        if kind == "name":
            return isinstance(node, ast.Name)
        if kind == "literal":
            return is_literal(node)
        if kind == "pure":
            return not has_effects(node)
        if kind == "dtype":
            return _DTYPE.fullmatch(self.names.qualified(node, scope) or "") is not None
        if kind == "device":
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                return _DEVICE.fullmatch(node.value) is not None
            return "torch.device" in self.names.callees(node, scope)
        if kind == UNKNOWN:
            return self._is_unknown(node, scope)
        found = self._is_tensor(node, scope) if kind == "tensor" else self._is_one(kind, node, scope)
        above = self.names.file.parents[node]
        is_owner = isinstance(above, ast.Attribute) and above.value is node  # None has no member
        return None if found and not is_owner and may_be_none(self.names, node, scope) else found

    def _is_tensor(self, node: ast.expr, scope: Scope) -> bool | None:
        types = self.instances.types.of(node, scope)
        if types == {TENSOR}:
            return True
        return None if {TENSOR, UNKNOWN} & types else False

    def _is_one(self, kind: str, node: ast.expr, scope: Scope) -> bool | None:
        if kind == "integer":
            return self.instances.is_one(node, scope, Wanted(INTEGER, ""))
        if kind == "module" and self._is_module(node, scope):
            return True
        above = self.names.file.parents[node]
        member = above.attr if isinstance(above, ast.Attribute) else ""
        return self.instances.is_one(node, scope, Wanted(CLASSES.get(kind, kind), member))

    def _is_unknown(self, node: ast.expr, scope: Scope) -> bool:
        """Return whether an object is not known to be anything: not a tensor, a Module or an imported module, not of a
        class that defines the member which is taken from it, and not the program's own flags."""
        if last_name(node) in FLAG_HOLDERS:
            return False
        above = self.names.file.parents[node]
        member = above.attr if isinstance(above, ast.Attribute) else ""
        is_read = self.names.file.call_of(above) is None
        if self.names.qualified(node, scope) is not None or self.kinds.has_own_class(member, is_read):
            return False
        return self.kinds.of(node, scope, member) == {UNKNOWN}

    def _is_module(self, node: ast.expr, scope: Scope) -> bool:
        library = self.names.project.library
        types = self.instances.types.of(node, scope)
        return bool(types) and all(isinstance(each, str) and library.is_module_class(each) for each in types)


class _Attempt:
    """One try to match a pattern."""

    def __init__(
        self, matcher: CodeMatcher, matched: Matched, types: Mapping[str, str], signature: Sequence[str]
    ) -> None:
        self.matcher = matcher
        self.matched = matched
        self.types = types
        self.signature = signature
        self.difference: tuple[str, ast.AST] | None = None  # a sentence with a field for the code of a node

    def is_like(self, pattern: ast.AST, node: ast.AST) -> bool:
        name = metavariable(pattern)
        if name is not None:
            return isinstance(node, ast.expr) and self._bind(name, node)
        qualified = qualified_name(pattern)
        if qualified is not None:
            return isinstance(node, (ast.Name, ast.Attribute)) and self._is_named(qualified, node)
        if type(pattern) is not type(node):
            return False
        if isinstance(pattern, ast.Constant) and isinstance(node, ast.Constant):
            return type(pattern.value) is type(node.value) and pattern.value == node.value
        if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
            return self.is_like(pattern.func, node.func) and self._arguments(pattern, node)
        if isinstance(pattern, ast.Attribute) and isinstance(node, ast.Attribute):
            self.matched.names.append(node)
            return pattern.attr == node.attr and self.is_like(pattern.value, node.value)
        return all(
            self._is_like_part(getattr(pattern, name), getattr(node, name)) for name in pattern._fields if name != "ctx"
        )

    def _is_like_part(self, pattern: object, node: object) -> bool:
        if isinstance(pattern, list) and isinstance(node, list):
            if pattern and is_rest(pattern[-1]):
                pattern, node = pattern[:-1], node[: len(pattern) - 1]
            return len(pattern) == len(node) and all(map(self._is_like_part, pattern, node))
        if isinstance(pattern, ast.AST) and isinstance(node, ast.AST):
            return self.is_like(pattern, node)
        return pattern == node

    def _bind(self, name: str, node: ast.expr) -> bool:
        if name == ANYTHING:
            self.matched.ignored.append(node)
            return True
        if isinstance(node, ast.Starred):
            return False
        known = self.matched.values.setdefault(name, node)
        if known is not node:
            self.difference = f"`{{code}}` is other than the first ${name}", node
            return ast.dump(known) == ast.dump(node)
        fits = name not in self.types or self.matcher.is_of(self.types[name], node, self.matched.scope)
        if fits is None:
            code, kind = self.matcher.names.file.code(node), self.types[name]
            self.matched.unknown.append(
                Unknown(f"`{code}` is not known to be {with_article(kind)}", CLASSES.get(kind, kind))
            )
        if fits is False:
            self.difference = f"`{{code}}` is not {with_article(self.types[name])}", node
        return fits is not False

    def _is_named(self, qualified: str, node: ast.Name | ast.Attribute) -> bool:
        self.matched.names.append(node)
        scope = self.matched.scope
        if "." not in qualified:
            return isinstance(node, ast.Name) and node.id == qualified and scope.lookup(qualified) is None
        return self.matcher.names.qualified(node, scope) == qualified

    def _arguments(self, pattern: ast.Call, node: ast.Call) -> bool:
        wanted = [each for each in arguments(pattern) if not is_rest(each)]
        given = arguments(node)
        has_rest = any(map(is_rest, pattern.args))
        is_outermost = node is self.matched.node
        signature = (self.signature if is_outermost else ()) or self._own_signature(node)
        places = dict(_places(given, signature))
        paired: dict[int, Argument] = {}
        unpacked = [each for each in given if is_unpacked(each)]
        for place, at in _places(wanted, signature):
            index = places.get(place)
            if index is None and any(isinstance(each, ast.Starred) or isinstance(place, str) for each in unpacked):
                continue
            if index is None or index in paired:
                which = f"`{place}`" if isinstance(place, str) else f"{place} (from 0)"
                self.difference = f"the argument {which} is not given in `{{code}}`", node
                return False
            if not self.is_like(argument_value(wanted[at]), argument_value(given[index])):
                return False
            paired[index] = wanted[at]
        rest = [each for index, each in enumerate(given) if index not in paired]
        if is_outermost:
            self.matched.arguments += [(each, paired.get(index)) for index, each in enumerate(given)]
        if rest and has_rest:
            self.matched.rest = rest
        if unpacked and (len(paired) < len(wanted) or not has_rest):
            code = ", ".join(self.matcher.names.file.code(each) for each in unpacked)
            self.matched.unknown.append(Unknown(f"it is not known which arguments `{code}` gives"))
            starred = next((at for at, each in enumerate(given) if isinstance(each, ast.Starred)), len(given))
            rest = [
                each
                for each in rest
                if not is_unpacked(each) and (argument_keyword(each) or given.index(each) < starred)
            ]
        if rest and not has_rest:
            self.difference = "the pattern has no argument for `{code}`, nor `...` for any more", rest[0]
        return has_rest or not rest

    def _own_signature(self, node: ast.Call) -> tuple[str, ...]:
        """The parameters of a function of the project that is called."""
        found = self.matcher.names.definition(node.func, self.matched.scope)
        if found is None or not isinstance(found.bound.node, FUNCTIONS):
            return ()
        return tuple(parameter.arg for parameter in parameters(found.bound.node))


def _places(given: Sequence[Argument], signature: Sequence[str]) -> Iterator[tuple[str | int, int]]:
    """The parameters that arguments are for, by name where that is known, else by position; with the argument's
    index. Behind a star positions are not known."""
    is_counted = True
    for index, each in enumerate(given):
        keyword = argument_keyword(each)
        if is_unpacked(each):
            is_counted = is_counted and not isinstance(each, ast.Starred)
        elif keyword is not None:
            yield keyword, index
        elif is_counted:
            yield signature[index] if index < len(signature) else index, index


def is_literal(node: ast.AST) -> bool:
    """Return whether an expression is a constant, or a display of constants."""
    if isinstance(node, ast.UnaryOp):
        return is_literal(node.operand)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(is_literal, node.elts))
    return isinstance(node, ast.Constant)


def rules_by_word(work: FileRules, key: str) -> dict[str, list[Rule]]:
    """The rules of a kind that match code, by the last part of their first name as a file spells it: also by its own
    names for it, and by those that it has from other files of the project. Empty where none of these words is in
    the file."""
    codes, other_names = work.table.of(key), work.context.other_names
    others = {name: codes.keys() & leaves for name, leaves in other_names.items() if name in work.spelled}
    if not others and not work.rules(key):
        return {}
    found = {word: list(rules) for word, rules in codes.items()}
    given = [(name.decode(), word) for name, leaves in others.items() for word in leaves]
    given += [
        (name, word)
        for scope in work.names.file.scopes.values()
        for name, bindings in scope.bindings.items()
        for word in codes.keys() & {_stands_for(binding) for binding in bindings} - {name}
    ]
    for name, word in dict.fromkeys(given):
        found[name] = [*found.get(name, ()), *codes[word]]
    return found


def _stands_for(binding: Binding) -> str | None:
    """The last part of the dotted name that a binding gives another name."""
    if isinstance(binding, Imported):
        return binding.qualified.rpartition(".")[2]
    value = value_of(binding)
    return (dotted_name(value) or "").rpartition(".")[2] if value is not None else None
