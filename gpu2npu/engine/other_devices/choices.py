"""Code that chooses CUDA's device: where it never runs, all is computed on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence, Set

from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.facts.values import TEXT
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind, child_nodes, walk
from gpu2npu.python.tree.scopes import value_of
from gpu2npu.python.tree.syntax import FUNCTIONS, argument_of, dotted_name, last_name, string_value
from gpu2npu.records import Bounds

# Names that say whether the GPU is used: `use_gpu`, `has_cuda`.
_FLAG = re.compile(r"_*((use|has|have|is|with|enable)_)*(cuda|gpu)(_is)?(_(available|enabled|ok))?", re.IGNORECASE)
_CUDA = frozenset({"cuda"})
_CARDS, _CPU = frozenset({"cuda", "npu"}), "cpu"
_CARD_NAME = re.compile(
    r"(?:^|_)(?:(?:dev(?:ice)?s?|gpus?|cuda)\d*|rank|card|device_type|(?:device|gpu)_ids?)$", re.IGNORECASE
)
_OF_TORCH = re.compile(r"torch\.\w+")  # a dtype, a format of memory
_SHORT = {"bfloat16": "bf16"}
_Path = tuple[ast.expr, ...]
_FEW = 3  # statements of a branch that are looked at


def chooses_cuda(body: Sequence[ast.AST] | ast.expr) -> bool:
    """Return whether code names CUDA's device or moves something there."""
    return any(map(names_device, walk(body) if isinstance(body, ast.expr) else walk(*body)))


def chooses_another(body: Sequence[ast.stmt], refusal: ast.stmt) -> bool:
    """Return whether code behind a refusal chooses CUDA's device, other than the one that was tested: not `if
    device.index is None: device = torch.device("cuda", 0)` behind `if device.type != "cuda": raise ...`."""
    test = refusal.test if isinstance(refusal, ast.If) else None
    kind = test.left if isinstance(test, ast.Compare) else None
    tested = dotted_name(kind.value) if isinstance(kind, ast.Attribute) and kind.attr == "type" else None
    return chooses_cuda([each for each in body if tested is None or not _assigns_only(each, tested)])


def _assigns_only(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.If):
        return not statement.orelse and all(_assigns_only(each, name) for each in statement.body)
    return isinstance(statement, ast.Assign) and [name] == [dotted_name(each) for each in statement.targets]


def names_device(node: ast.AST, devices: Set[str] = _CUDA) -> bool:
    """Return whether an expression is a device's name, or moves something there: `"cuda:0"`, `model.cuda()`"""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in devices
    return (string_value(node) or "").partition(":")[0] in devices


def is_move(names: Names, node: ast.AST) -> bool:
    """Return whether a node moves something to a card: `x.cuda(...)`, or `x.to(...)` with a device: by where that
    comes from, or else by its name."""
    return isinstance(node, ast.Call) and _moves(names, node) is True


def may_be_move(names: Names, node: ast.AST) -> bool:
    """The same, or neither is known."""
    return isinstance(node, ast.Call) and _moves(names, node) is not False


def _moves(names: Names, node: ast.Call) -> bool | None:
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr != "to":
        return node.func.attr in ("cuda", "npu")
    values = values_of(names.project)
    call = values.call_at(names, node)
    given = values.given(call) if call else {"*": 0}
    answers = {_is_card(names, given[key]) for key in ("0", "device", "*", "**") if key in given}
    if True in answers or None not in answers:
        return True in answers
    argument = argument_of(node, "device", 0)
    owner = argument.value if isinstance(argument, ast.Subscript) else argument
    return True if owner is not None and _CARD_NAME.search(last_name(owner) or "") else None


def _is_card(names: Names, place: int) -> bool | None:
    """Return whether `x.to()` is given a card: a text, a number, or what is one by the name of its source."""
    if not place:
        return None
    values, integers = values_of(names.project), names.project.library.integers
    sources = values.sources(place, names.path)
    texts = {(values.text(each) or "").partition(":")[0] for each in values.made_of(place)}
    called = {each.text.removesuffix("()") for each in sources}
    ways = [at for at, path in values.way_to(place) if not path]
    is_text = any(kind == TEXT for at in ways for _, kind, _ in values.at(at).into.get(at, ()))
    is_number = any(map(values.is_integer, sources))
    is_named = any(each in integers or each.endswith(".device") or each == "int" for each in called)
    if is_number or not texts.isdisjoint(_CARDS) or ((is_named or is_text) and _CPU not in texts):
        return True
    others = [one.kind == "number" or one.text.endswith(".dtype") or _OF_TORCH.fullmatch(one.text) for one in sources]
    return False if _CPU in texts or (others and all(others)) else None


def chooses(file: PythonFile, test: ast.AST, word: str, by_name: bool = True) -> bool:
    """Return whether one of the two branches that a test, or the condition that it is part of, decides between has a
    word, as `torch.bfloat16 if capability >= (8, 0) else torch.float16` has `bfloat16`; or what it is assigned to, or
    what that decides in turn."""
    if word not in file.text and _SHORT.get(word, word) not in file.text:
        return False
    below = test
    for above in file.above(test):
        if isinstance(above, (ast.If, ast.IfExp)) and below is not above.test:
            return False
        if isinstance(above, ast.IfExp):
            return sum(word in file.code(branch) for branch in (above.body, above.orelse)) == 1
        if isinstance(above, ast.If):
            block = file.block(above) if isinstance(above.body[-1], ast.Return) else [above]
            other = above.orelse or block[block.index(above) + 1 :]
            branches = ["".join(map(file.code, part[:_FEW])) for part in (above.body, other)]
            return sum(word in branch for branch in branches) == 1
        if isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return)):
            if any(word in name or _SHORT.get(word, word) in name for name in _shown_as(above, file)):
                return True
            named = {each.id for each in _targets(above) if by_name and isinstance(each, ast.Name)}
            uses = (use for use, _ in file.uses if isinstance(use, ast.Name) and use.id in named)
            return any(isinstance(use.ctx, ast.Load) and chooses(file, use, word, by_name=False) for use in uses)
        if not isinstance(above, (ast.BoolOp, ast.Compare, ast.Subscript, ast.Attribute, ast.Call, ast.UnaryOp)):
            return False
        below = above
    return False


def switched_off(node: ast.If | ast.IfExp, file: PythonFile) -> list[str]:
    """The names that code sets to nothing where there is no CUDA, and goes on: `if device != "cuda": fast = False`, and
    `fast = make() if device == "cuda" else None`."""
    if isinstance(node, ast.IfExp):
        is_off = isinstance(node.orelse, ast.Constant) and node.orelse.value in (False, None)
        return _shown_as(file.parents[node], file) if is_off and _compares(node.test, ast.Eq) else []
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
    body = [each for each in node.body if not isinstance(each, ast.Expr)]  # without what is printed
    is_off = all(
        isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value in (False, None)
        for each in body
    )
    if not is_off or not any(_compares(each, ast.NotEq) for each in tests):
        return []
    names = [last_name(target) or "" for each in body if isinstance(each, ast.Assign) for target in each.targets]
    compared = {
        last_name(each.left): string_value(each.comparators[0]) for each in tests if isinstance(each, ast.Compare)
    }
    return [compared.get(name) or name for name in names]  # kind == "fast" and device != "cuda": kind = None


def picks_kernels(node: ast.If | ast.IfExp, table: RuleTable) -> bool:
    """`kind = "cuda" if x.is_cuda else "torch"`: of two texts that are not both devices, so that code for CUDA is."""
    texts = {string_value(node.body), string_value(node.orelse)} if isinstance(node, ast.IfExp) else set()
    devices = {"cuda", *(name for each in table.strings for name in each.role.siblings)}
    return "cuda" in texts and None not in texts and not texts <= devices


def otherwise(node: ast.If) -> ast.stmt | None:
    """The first statement of the last `else` of a row of conditions."""
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
    return node.orelse[0] if node.orelse else None


def _compares(test: ast.expr, operator: type[ast.cmpop]) -> bool:
    """`device != "cuda"`"""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], operator)
        and string_value(test.comparators[0]) == "cuda"
    )


def answers_for_nvidia(node: ast.If | ast.IfExp, names: Names, table: RuleTable) -> bool:
    """Return whether a condition gives True in a function that is named for NVIDIA's GPU, and asks its programs too."""
    above = next((each for each in names.file.above(node) if isinstance(each, FUNCTIONS)), None)
    answer = node.body[0] if isinstance(node, ast.If) else None
    if above is None or "nvidia" not in above.name.lower() or not isinstance(answer, ast.Return):
        return False
    is_true = isinstance(answer.value, ast.Constant) and answer.value.value is True
    return is_true and any(table.is_cuda_only("program", string_value(part)) for part in walk(above))


def decides_device(test: ast.BoolOp, names: Names) -> bool:
    """Return whether a condition, or a name that is bound to it, decides that a device is CUDA's, or shows other code
    that the GPU is used: `self.use_gpu = ...`, `run(cuda=...)`, or as the answer of `def has_cuda()`."""
    shown = _shown_as(_above(test, names.file), names.file)
    return any(map(_FLAG.fullmatch, shown)) or any(map(chooses_cuda, guarded(test, names)))


def guarded(test: ast.BoolOp, names: Names) -> Iterator[Sequence[ast.AST]]:
    """The code that runs only where a condition holds, also by a name that is bound to it."""
    file = names.file
    above = _above(test, file)
    if isinstance(above, (ast.If, ast.IfExp, ast.Assert)):
        yield _under(above, file)
        return
    named = {each.id for each in _targets(above) if isinstance(each, ast.Name)}
    uses = [use for use, _ in file.uses if isinstance(use, ast.Name) and use.id in named]
    for each in (above for use in uses for above in file.above(use) if isinstance(above, (ast.If, ast.IfExp))):
        if any(part in uses for part in walk(each.test)):
            yield _under(each, file)


def without_not(test: ast.expr) -> ast.expr:
    """The part that a condition denies, `a` of `not a`, `a is False` and `a == False`; any other condition itself."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.Eq)):
        return test.left if getattr(test.comparators[0], "value", None) is False else test
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test


def _above(test: ast.BoolOp, file: PythonFile) -> ast.AST:
    """The statement or expression that has a condition, perhaps as a part of another."""
    return next(each for each in file.above(test) if not isinstance(each, (ast.BoolOp, ast.Compare, ast.UnaryOp)))


def _shown_as(above: ast.AST, file: PythonFile) -> list[str]:
    """The names under which other code has a value: those it is assigned to, a keyword, the function it is given by."""
    if isinstance(above, ast.Return):
        return [each.name for each in file.above(above) if isinstance(each, FUNCTIONS)][:1]
    if isinstance(above, ast.keyword):
        return [above.arg or ""]
    return [last_name(each) or "" for each in _targets(above)]


def _targets(node: ast.AST | None) -> Sequence[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else ()


def _under(guard: ast.If | ast.IfExp | ast.Assert, file: PythonFile) -> Sequence[ast.AST]:
    """The code that runs only where a condition holds: under `if a`, after `assert a`, in the `else` of `if not a`."""
    is_denied = without_not(guard.test) is not guard.test
    if isinstance(guard, ast.IfExp):
        return [guard.orelse if is_denied else guard.body]
    if isinstance(guard, ast.If) and not is_denied:
        return guard.body
    if isinstance(guard, ast.If) and (guard.orelse or not isinstance(guard.body[-1], (ast.Raise, ast.Return))):
        return guard.orelse
    block = file.block(guard)
    return block[block.index(guard) + 1 :]


def affirmed(part: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a condition that it asks to be true: nothing of `not a`, `a is None` and `a or b`."""
    if isinstance(part, ast.UnaryOp) or (isinstance(part, ast.Compare) and _is_denial(part)):
        return
    if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.Or):
        return
    yield part
    for child in child_nodes(part):
        yield from affirmed(child)


def _is_denial(comparison: ast.Compare) -> bool:
    """`a is None`, `a == False`, `a != "b"`, but not `a is not None`"""
    sides = (comparison.left, *comparison.comparators)
    is_with_nothing = any(isinstance(side, ast.Constant) and not side.value for side in sides)
    return is_with_nothing is not isinstance(comparison.ops[0], (ast.IsNot, ast.NotEq, ast.NotIn))


def guarded_code(node: ast.expr, holds: bool, file: PythonFile, kinds: ByKind, path: _Path = ()) -> list[Bounds] | None:
    """The code that runs only where a test is true, or with `holds` false where it is false: what is asked after it,
    bodies, and those of the names that it is bound to. None where such a name has other values. `path` are the tests on
    the way."""
    if node in path:
        return []
    path = (*path, node)
    above = file.parents[node]
    if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
        return guarded_code(above, not holds, file, kinds, path)
    if isinstance(above, ast.BoolOp):
        if isinstance(above.op, ast.And) is not holds:
            return []
        after = [file.bounds(value) for value in above.values[above.values.index(node) + 1 :]]
        further = guarded_code(above, holds, file, kinds, path)
        return None if further is None else after + further
    if isinstance(above, (ast.If, ast.IfExp)) and above.test is node:
        return list(bounds_of(above.body if holds else above.orelse, file))
    if isinstance(above, ast.NamedExpr) or (
        isinstance(above, ast.Tuple) and isinstance(file.parents[above], ast.Assign)
    ):
        return None
    targets = _targets(above)
    return _code_by_name(targets[0], holds, file, kinds, path) if len(targets) == 1 else []


def _code_by_name(target: ast.expr, holds: bool, file: PythonFile, kinds: ByKind, path: _Path) -> list[Bounds] | None:
    """The same for a name, or an attribute of `self`, that is bound to a test: where all else it is bound to is a
    constant that is no more true than the test."""
    bound = file.scope_of(target).bound(target)
    values = [value_of(each) for each in bound]
    others = [value for value in values if value is not path[-1]]
    if not bound or not all(isinstance(value, ast.Constant) and bool(value.value) is not holds for value in others):
        return None
    found: list[Bounds] = []
    for use in kinds.get(type(target), ()):
        is_read = isinstance(use.ctx, ast.Load) and last_name(use) == last_name(target)
        if is_read and file.scope_of(use).bound(use) == bound:
            guarded = guarded_code(use, holds, file, kinds, path)
            if guarded is None:
                return None
            found += guarded
    return found


def bounds_of(body: Sequence[ast.stmt | ast.expr] | ast.expr, file: PythonFile) -> Iterator[Bounds]:
    """The bounds of a body from its first statement to its last; none for no body."""
    if isinstance(body, ast.expr):
        yield file.bounds(body)
    elif body:
        yield file.bounds(body[0])[0], file.bounds(body[-1])[1]
