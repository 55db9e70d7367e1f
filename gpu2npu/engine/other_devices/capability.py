"""Code that finds out how capable a GPU is: an NPU has no compute capability, and gives None for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpu2npu.engine.other_devices.choices import affirmed, chooses, without_not
from gpu2npu.engine.other_devices.kernels import is_use, tests_torch_cuda
from gpu2npu.engine.strings.prose import speaks
from gpu2npu.engine.strings.value_effects import values_of
from gpu2npu.engine.table import RuleTable
from gpu2npu.python.facts.values import SUBSCRIPT
from gpu2npu.python.flow.values import Values
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import child_nodes, walk
from gpu2npu.python.tree.syntax import DEFINITIONS, FORS, IMPORTS, blocks, dotted_name, is_none, last_name

BUILD = "torch.version.cuda"  # None where PyTorch is built for an NPU
BUILDS = frozenset({BUILD, "torch.version.hip"})
_CONSTANTS = ("number", "text", "container")
# What may leave out the code in it, or catches what it raises.
_NESTING = (*DEFINITIONS, ast.Try, ast.While, ast.Match)


def finds_capability(body: Sequence[ast.AST], names: Names, table: RuleTable) -> bool:
    """Return whether code asks for the compute capability of a GPU, or counts its multiprocessors, under no condition,
    and does nothing else: nothing for the NPU is lost where it never runs."""
    if not any(_always_tests_capability(each, names, table) for each in body):
        return False
    seen = set[ast.AST]()
    if any(is_use(node, names, seen) for each in body for node in _without_questions(each, names, table)):
        return False
    answers = _Answers(body, names, table)
    return all(answers.are_all(each) for each in body)


def tests_capability(value: ast.AST, names: Names, table: RuleTable) -> bool:
    """Return whether a part of a value asks for what only a GPU has."""
    return any(_is_capability(node, names, table) for node in walk(value))


def compared_answer(comparison: ast.Compare, names: Names) -> str | None:
    """The code that gives the left side of a comparison, without its arguments, through names, attributes and functions
    of the project: `torch.cuda.get_device_capability()[0]`. Constants beside it are for where there is no GPU. None if
    it is not known."""
    values = values_of(names.project)
    left, *_ = values.operands(names, comparison) or [0]
    if any(isinstance(each, (ast.NamedExpr, ast.UnaryOp)) for each in walk(comparison.left)):
        return None
    with values.near(names.path):
        sources = values.origins(left) if left and not _is_computed(left, values) else ()
    ends = {each.text for each in sources if each.kind not in _CONSTANTS}
    return ends.pop() if len(ends) == 1 else None


def _is_computed(place: int, values: Values) -> bool:
    """Return whether arithmetic makes a value, or a part of it, of others."""
    operators = (values.operator(at) for at, _ in values.way_to(place))
    return any(each not in ("", SUBSCRIPT) and each[0] != "[" for each in operators)


class _Answers:
    """The names that code binds to what it finds out about a GPU."""

    def __init__(self, body: Sequence[ast.AST], names: Names, table: RuleTable) -> None:
        self.names, self.table = names, table
        self.inside = set(walk(*body))
        self.bound = set[str]()
        for node in walk(*body):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and self.is_of(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.bound |= {part.id for part in walk(*targets) if isinstance(part, ast.Name)}

    def is_of(self, value: ast.AST | None) -> bool:
        """Return whether a value is made of an answer."""
        return value is not None and any(
            _is_capability(node, self.names, self.table) or (isinstance(node, ast.Name) and node.id in self.bound)
            for node in walk(value)
        )

    def are_all(self, node: ast.AST) -> bool:
        """Return whether all that a statement does is to ask, to judge the answers, and to give or print them."""
        if isinstance(node, (ast.expr, ast.Raise, ast.Pass, *IMPORTS)):
            return True
        if isinstance(node, ast.Expr):
            return not isinstance(node.value, ast.Call) or _is_printed(node) or self.is_of(node.value)
        if isinstance(node, ast.Return):
            return node.value is None or isinstance(node.value, ast.Constant) or self.is_of(node.value)
        if isinstance(node, ast.If) and self.is_of(node.test):
            return True
        if isinstance(node, (ast.If, ast.With, ast.Try, *FORS)):
            return all(self.are_all(each) for block in blocks(node) for each in block)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return self._is_answer(node.value) or self._is_local(node)
        return False

    def _is_answer(self, value: ast.expr | None) -> bool:
        """`capability`, `major >= 8`, but not one of several facts: `{"name": name, "capability": capability}`"""
        is_record = isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and bool(value.keywords))
        return not is_record and self.is_of(value)

    def _is_local(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
        """Return whether only this code uses what is assigned."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        bound = {each.id for each in targets if isinstance(each, ast.Name)}
        home = self.names.file.scope_of(node)
        uses = {
            use
            for use, scope in self.names.file.uses
            if isinstance(use, ast.Name) and use.id in bound and (found := scope.lookup(use.id)) and found[0] is home
        }
        return len(bound) == len(targets) and bool(uses) and uses <= self.inside


def _is_printed(statement: ast.AST) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and speaks(last_name(call.func) or "")


def _always_tests_capability(node: ast.AST, names: Names, table: RuleTable) -> bool:
    if isinstance(node, ast.If):
        answers = (each.value for each in walk(node) if isinstance(each, ast.Return) and each.value is not None)
        return any(tests_capability(each, names, table) for each in (node.test, *answers))
    if isinstance(node, (*FORS, ast.With)):
        return any(_always_tests_capability(each, names, table) for each in node.body)
    return not isinstance(node, _NESTING) and not _is_printed(node) and tests_capability(node, names, table)


def _is_capability(node: ast.AST, names: Names, table: RuleTable) -> bool:
    """`torch.cuda.get_device_capability()`, `torch.cuda.get_device_properties(0).major`, `p.multi_processor_count`; not
    a call whose answer nobody takes."""
    if isinstance(node, ast.Call) and isinstance(names.file.parents.get(node), ast.Expr):
        return False
    if isinstance(node, ast.Call):
        wanted = names.qualified(node.func, names.file.scope_of(node))
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        wanted = f"{names.qualified(node.value.func, names.file.scope_of(node)) or ''}.{node.attr}"
    else:
        return isinstance(node, ast.Attribute) and table.is_cuda_only("capability", node.attr)
    return table.is_cuda_only("capability", wanted) and not _chooses_bfloat16(node, wanted or "", names)


def _chooses_bfloat16(node: ast.AST, capability: str, names: Names) -> bool:
    """Return whether an answer, or a comparison of one, decides for or against bfloat16, which NPUs have, and not for
    float8 with it."""
    file = names.file
    is_chosen = chooses(file, node, "bfloat16") or any(
        isinstance(each, ast.Compare)
        and chooses(file, each, "bfloat16")
        and (compared_answer(each, names) or "").startswith(capability)
        for each in file.unordered().get(ast.Compare, ())
    )
    return is_chosen and not chooses(file, node, "float8")


def _without_questions(node: ast.AST, names: Names, table: RuleTable) -> Iterator[ast.AST]:
    """The nodes of a piece of code, without questions about a GPU and the devices that they are given."""
    if isinstance(node, ast.Call) and (tests_torch_cuda(node, names) or _is_capability(node, names, table)):
        return
    if isinstance(node, ast.Assign) and _is_of_questions(node, names):
        return
    yield node
    for child in child_nodes(node):
        yield from _without_questions(child, names, table)


def _is_of_questions(statement: ast.Assign, names: Names) -> bool:
    """`device = torch.device("cuda")`, which only questions are given"""
    file, target = names.file, statement.targets[0]
    alike = (each for each in file.unordered().get(ast.Name, ()) if each.id == last_name(target) and each is not target)
    uses = [file.parents[each] for each in alike if file.scope_of(each) is file.scope_of(target)]
    return bool(uses) and all(isinstance(each, ast.Call) and tests_torch_cuda(each, names) for each in uses)


def tests_build(test: ast.expr, names: Names, above: Sequence[str] = ()) -> bool:
    """`torch.version.cuda is not None`, `has_torch and torch.version.cuda`, or for ROCm; a name that is bound to such a
    question and to False alone; one such or another. The names `above` lead here: `found = found or other` is none."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return all(tests_build(each, names, above) for each in test.values)
    values = names.file.scope_of(test).values(test) if isinstance(test, ast.Name) and test.id not in above else []
    above = [*above, test.id] if isinstance(test, ast.Name) else above
    questions = [each for each in values if not isinstance(each, (ast.Constant, ast.Name))]
    if questions:
        return all(each is not None and tests_build(each, names, above) for each in questions)
    return any(dotted_name(each) in BUILDS for each in affirmed(test))


def denies_build(test: ast.expr) -> bool:
    """`torch.version.cuda is None`, `not torch.cuda.is_available() or not torch.version.cuda`"""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.Or) and any(map(denies_build, test.values))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and is_none(test.comparators[0]):
        return dotted_name(test.left) == BUILD
    return without_not(test) is not test and dotted_name(without_not(test)) == BUILD


def reads_build(body: Sequence[ast.stmt]) -> bool:
    """`int(torch.version.cuda.split(".")[0])`, always: on an NPU the version is None, and this raises."""
    simple = (each for each in body if isinstance(each, (ast.Assign, ast.Expr, ast.Return)))
    parts = (list(walk(each)) for each in simple)
    return any(
        any(isinstance(part, (ast.Attribute, ast.Subscript)) and dotted_name(part.value) == BUILD for part in each)
        and not any(isinstance(part, (ast.BoolOp, ast.IfExp, ast.Lambda)) for part in each)
        for each in parts
    )
