"""A model that was in DataParallel is moved to one NPU, with its inputs, where DistributedDataParallel cannot work or
would have nothing to train."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import Struct

from gpu2npu.codemods.data_parallel.certainty import Obstacle, is_part
from gpu2npu.codemods.data_parallel.spelling import api_of, is_data_parallel, without_import
from gpu2npu.codemods.data_parallel.wrapping import Wrap, is_stored, target_of
from gpu2npu.codemods.places import NPU, Step, inserted, replaced, reported, span_removed
from gpu2npu.codemods.program.entries import Entries, Entry
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import group_place
from gpu2npu.codemods.program.model_class import model_class, takes_one
from gpu2npu.codemods.program.model_uses import ModelUses, tested_classes
from gpu2npu.codemods.spellings import RULE, spelling
from gpu2npu.engine.other_devices.choices import is_move, may_be_move
from gpu2npu.engine.strings.value_effects import EFFECTS, values_of
from gpu2npu.python.facts.values import Called
from gpu2npu.python.flow.value_calls import ValueOrigin
from gpu2npu.python.flow.value_files import Path, State
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.text.blocks import lines_of
from gpu2npu.python.text.concrete import outer_bounds
from gpu2npu.python.text.templates import code, followed, operand
from gpu2npu.python.tree.place import Place, function_above, is_integer
from gpu2npu.python.tree.scopes import Assigned
from gpu2npu.python.tree.syntax import (
    argument_keyword,
    argument_of,
    argument_value,
    arguments,
    elements,
    is_self,
    is_unpacked,
)
from gpu2npu.records import Edit, FindingKind, Text

_MESSAGE = "An NPU has no DataParallel: the model is moved to one NPU."
_RETAINED = "An NPU has no DataParallel: the model is moved to one NPU, under the name `module` as before."
_GIVEN = " DataParallel moved the model's arguments to the card: check that they are on the NPU here."
_NAMES = (
    " Take `.module` out where it is used, and load a state dict that was saved from a wrapped model as "
    "`{key.removeprefix('module.'): value for key, value in state.items()}`."
)
_UNWRAPPED = "The model has no wrapper."
_PREFIX = "Names in checkpoints begin with `module.`, as those of the wrapped model."
_DEPENDENT = frozenset({"load_state_dict", "module", "state_dict"})


class _Use(Struct, frozen=True, eq=False):
    """One use of a model that was wrapped, in a program with other uses."""

    file: ParsedFile
    node: ast.expr
    program: ModelUses

    @property
    def parent(self) -> ast.AST:
        return self.file.parents[self.node]

    @property
    def attribute(self) -> str | None:
        """`state_dict` of `model.state_dict`."""
        return self.parent.attr if isinstance(self.parent, ast.Attribute) else None

    @property
    def call(self) -> ast.Call | None:
        """`model(x)`"""
        return self.file.call_of(self.node)

    def is_guarded(self, *, has_other_way: bool = False) -> bool:
        """Return whether a test for the wrapper is here, `model.module if hasattr(model, "module") else model`; with
        another branch, if it `has_other_way`."""
        above = (each for each in self.file.above(self.node) if isinstance(each, (ast.If, ast.IfExp)))
        tests = (Place(self.file, each.test) for each in above if each.orelse or not has_other_way)
        return any(self.program.tests_for_wrapper(test, self.file.code(self.node)) for test in tests)


def on_one_npu(
    program: TrainingProgram, wrap: Wrap, why: Obstacle, programs: Sequence[Entry], started: Entries, stays: bool
) -> Iterator[Step]:
    """The model on one NPU, in a module that keeps its name where code depends on that, and what else follows.

    `programs` run the wrap, `started` have one process for each card; `stays` means that other code of the file names
    DataParallel.
    """
    file = wrap.file
    uses = [] if is_part(wrap) else list(_uses(program, wrap, programs))
    depends = _depends_on_name(wrap, uses)
    if not stays:
        yield from ((file, edit) for edit in without_import(file, wrap.call.func))
    keeps = is_part(wrap) or _keeps_name(program, wrap, uses)
    statement = _moved_next(wrap)
    if statement is not None and not keeps:
        yield span_removed(file, *lines_of(file, [statement]), _MESSAGE)
    else:
        yield from _in_sequential(wrap) if keeps else _plain(wrap)
    message = why.message + ("" if is_part(wrap) else _GIVEN)
    if depends and not keeps:
        shared = not uses or any(group_place(entry) is not None for entry in programs)
        if shared or any(started.that_run(use.file, use.node) for use in uses):
            message += _NAMES
        else:
            yield from (step for use in uses for step in _unwrapped(use))
    yield reported(file, wrap.call, api_of(file, wrap.call.func), message, FindingKind.REVIEW)
    for use in uses:
        if use.call is not None:
            yield from _moved_inputs(program, wrap, use.file, use.call)


def _depends_on_name(wrap: Wrap, uses: Sequence[_Use]) -> bool:
    """Return whether code uses the wrapper's own name for the model; without uses, as the text of its file says."""
    return _depends(uses) if uses else re.search(r"\.module\b|state_dict", wrap.file.text) is not None


def _keeps_name(program: TrainingProgram, wrap: Wrap, uses: Sequence[_Use]) -> bool:
    """Return whether the model can be in a module that keeps its name, and code depends on that."""
    is_tested = any(map(_is_wrapper_test, uses))
    return _depends_on_name(wrap, uses) and _takes_one(program, wrap, uses) and not is_tested


def on_one_card(program: TrainingProgram, wrap: Wrap, programs: Sequence[Entry]) -> tuple[list[Step], Text]:
    """The code for the model on one NPU, in a module that keeps its name where code needs that, and its imports."""
    keeps = is_part(wrap) or _keeps_name(program, wrap, list(_uses(program, wrap, programs)))
    *imports, (_, placed) = _in_sequential(wrap) if keeps else _plain(wrap)
    assert isinstance(placed, Edit) and placed.text
    return imports, placed.text


def reader_of_module(program: TrainingProgram, wrap: Wrap, programs: Sequence[Entry]) -> str | None:
    """Return where code may read the `.module` of a model that has none in on_one_card: "core.py:12"."""
    uses = [] if is_part(wrap) else list(_uses(program, wrap, programs))
    if is_part(wrap) or _keeps_name(program, wrap, uses):
        return None
    for use in uses:
        if use.attribute == "module" and not use.is_guarded():
            return _place(use)
    if not is_stored(wrap):
        return None
    paths = sorted(ImportGraph.of(program).that_load([wrap.file.path]), key=lambda path: path != wrap.file.path)
    files = list(program.parsed([path for path in paths if b".module" in program.sources[path]]))
    model_uses = ModelUses(program, {file.path: file for file in files})
    for file in files:
        reads = (_Use(file, each, model_uses) for each in program.of_file(_module_reads, file))
        place = next((_place(each) for each in reads if not each.is_guarded()), None)
        if place is not None:
            return place
    return None


def _module_reads(file: ParsedFile) -> list[ast.expr]:
    """The expressions of which code reads `.module`, whether they have it or not."""
    return [node.value for node in file.nodes(ast.Attribute) if node.attr == "module" and not is_self(node.value)]


def _place(use: _Use) -> str:
    return f"{use.file.path}:{use.file.span(use.node).start_line}"


def _uses(program: TrainingProgram, wrap: Wrap, programs: Sequence[Entry]) -> Iterator[_Use]:
    """The uses of the wrapped model until it is taken out of its wrapper: `model = model.module`."""
    target = target_of(wrap)
    if target is None:
        return
    file, code = wrap.file, wrap.file.code(target)
    found: dict[ast.expr, _Use] = {}
    for entry in programs:
        uses = ModelUses(program, entry.files)
        for other, node in uses.of(file, file.statement(wrap.whole), code, file.bounds(wrap.whole)[1]):
            found.setdefault(node, _Use(other, node, uses))
    ends = [use for use in found.values() if _takes_out(use)]
    for use in found.values():
        if not any(_is_below(use, end) for end in ends):
            yield use


def _takes_out(use: _Use) -> bool:
    """`model = model.module`"""
    assignment = use.file.parents[use.parent]
    return (
        use.attribute == "module"
        and isinstance(assignment, ast.Assign)
        and [use.file.code(target) for target in assignment.targets] == [use.file.code(use.node)]
    )


def _is_below(use: _Use, other: _Use) -> bool:
    same = use.file is other.file and function_above(use.file, use.node) is function_above(use.file, other.node)
    return same and use.file.bounds(use.node)[0] > use.file.bounds(use.file.statement(other.node))[1]


def _depends(uses: Sequence[_Use]) -> bool:
    """Return whether code uses the wrapper's own name for the model, in itself or in the names of a state dict."""
    needing = (use for use in uses if use.attribute in _DEPENDENT or _is_saved(use))
    return any(not use.is_guarded(has_other_way=True) for use in needing)


def _is_saved(use: _Use) -> bool:
    return isinstance(use.parent, ast.Call) and use.file.qualified(use.parent.func) == "torch.save"


def _is_wrapper_test(use: _Use) -> bool:
    """Return whether a use is `isinstance(model, nn.DataParallel)` or `type(model) in (nn.DataParallel,)`, whose other
    branch is right without a wrapper."""
    classes = tested_classes(Place(use.file, use.parent)) if isinstance(use.parent, ast.Call) else []
    return any(is_data_parallel(use.file, each) for each in classes)


def _takes_one(program: TrainingProgram, wrap: Wrap, uses: Sequence[_Use]) -> bool:
    """Return whether the model is given one argument, as nn.Sequential hands on."""
    calls = [use.call for use in uses if use.call is not None]
    model = model_class(program, wrap.file, wrap.module)
    if not calls:
        return any(map(_takes_out, uses)) or (model is not None and takes_one(model))
    given = [arguments(call) for call in calls]
    return all(len(each) == 1 and argument_keyword(each[0]) is None and not is_unpacked(each[0]) for each in given)


def _plain(wrap: Wrap) -> Iterator[Step]:
    """`net.npu()`"""
    yield replaced(wrap.file, wrap.whole, _moved(wrap), _MESSAGE, NPU)


def _in_sequential(wrap: Wrap) -> Iterator[Step]:
    """`nn.Sequential(OrderedDict(module=net.npu()))`: `.module` and the names in state dicts are as before."""
    file, function = wrap.file, wrap.call.func
    sequential, ordered = spelling(file, "torch.nn.Sequential"), spelling(file, "collections.OrderedDict")
    name, edits = sequential.name, sequential.edits
    if isinstance(function, ast.Attribute) and file.qualified(function.value) == "torch.nn":
        name, edits = f"{file.code(function.value)}.Sequential", ()
    yield from ((file, edit) for edit in (*edits, *ordered.edits))
    inside = file.bounds(wrap.module) if is_part(wrap) and wrap.whole is wrap.call else _moved(wrap)
    text = code("{sequential}({ordered}(module={inside}))", sequential=name, ordered=ordered.name, inside=inside)
    yield replaced(file, wrap.whole, text, _RETAINED, NPU)


def _moved(wrap: Wrap) -> Text:
    """The module, on its NPU."""
    file = wrap.file
    if is_move(file.names, wrap.module):
        return (outer_bounds(file, wrap.module),)
    owner = operand(file, wrap.module)
    if wrap.whole is not wrap.call:  # as it is moved there
        model = code("{model}" if owner.is_whole else "({model})", model=owner.bounds)
        return followed(model, (file.bounds(wrap.call)[1], file.bounds(wrap.whole)[1]))
    return code("{model}.npu({card})", model=owner, card=_first_card(wrap))


def _moved_next(wrap: Wrap) -> ast.stmt | None:
    """The statement `net = DataParallel(net)` before one that moves the model, `net = net.cuda()`."""
    file, assigned, target = wrap.file, wrap.file.parents[wrap.whole], target_of(wrap)
    if not isinstance(assigned, ast.Assign) or target is None or file.code(target) != wrap.module_code:
        return None
    block = file.block(assigned)
    following = block[block.index(assigned) + 1 :][:1]
    moves = [
        each.value for each in following if isinstance(each, (ast.Assign, ast.Expr)) and is_move(file.names, each.value)
    ]
    owners = [each.func.value for each in moves if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    return assigned if [file.code(each) for each in owners] == [wrap.module_code] else None


def _first_card(wrap: Wrap) -> str:
    """The number of the first card of `device_ids=[1, 2]`, if it is not 0."""
    ids = elements(argument_of(wrap.call, "device_ids", 1))
    first = ids[0] if ids else None
    return str(first.value) if first is not None and is_integer(first) and first.value else ""


def _unwrapped(use: _Use) -> Iterator[Step]:
    """A use of the model as it is without a wrapper; a test for one takes the right way by itself."""
    file, attribute = use.file, use.parent
    call = file.call_of(attribute)
    if use.attribute not in _DEPENDENT or use.is_guarded():
        return
    if use.attribute == "module":
        yield span_removed(file, file.bounds(use.node)[1], file.bounds(attribute)[1], _UNWRAPPED)
    elif call is not None and use.attribute == "state_dict" and not arguments(call):
        yield inserted(file, file.bounds(call)[1] - 1, code("prefix='module.'"), _PREFIX)
    elif call is not None and use.attribute == "load_state_dict" and arguments(call):
        yield from _without_prefix(file, argument_value(arguments(call)[0]))


def _without_prefix(file: ParsedFile, state: ast.expr) -> Iterator[Step]:
    whole = operand(file, state)
    template = "{{key.removeprefix('module.'): value for key, value in {state}.items()}}"
    yield file, Edit(whole.bounds, code(template, state=whole), RULE, _PREFIX)


_MOVED = "DataParallel moved what it was given to the card."
_DRAWN = frozenset(f"torch.{made}()" for made in ("arange", "ones", "rand", "randint", "randn", "tensor", "zeros"))
_OF_BATCH = re.compile(r"(.*)\[each\]\[\d+\]")  # `for images, labels in loader`


def _moved_inputs(program: TrainingProgram, wrap: Wrap, file: ParsedFile, call: ast.Call) -> Iterator[Step]:
    """`model(images)` -> `model(images.npu())`, for a batch or a tensor that nothing moves before."""
    for given in call.args:
        is_on_cpu = isinstance(given, (ast.Name, ast.Subscript)) and _is_on_cpu(program, file, given)
        if is_on_cpu and not _is_moved_with(program, wrap, file, given):
            yield inserted(file, file.bounds(given)[1], code(".npu()"), _MOVED, NPU)


def _is_moved_with(program: TrainingProgram, wrap: Wrap, file: ParsedFile, given: ast.expr) -> bool:
    """Return whether the assignment above moves a value wherever the model is wrapped: under no other test."""
    bound = [file.statement(each.statement) for each in file.scope_of(given).bound(given) if isinstance(each, Assigned)]
    above = [file.bounds(each)[0] for each in bound if each is not file.statement(given)]
    start = max((each for each in above if each < file.bounds(given)[0]), default=None)
    last = next((each for each in bound if file.bounds(each)[0] == start), None)
    if not isinstance(last, ast.Assign) or not _is_moved(file, _value_for(file, last, given)):
        return False
    known = {_tested(program, wrap.file, step) for step in wrap.file.steps(wrap.call)} - {None}
    enclosing = set(file.above(given))
    inside = takewhile(lambda step: step[0] not in enclosing, file.steps(last))
    return all(isinstance(step[0], ast.With) or _tested(program, file, step) in known for step in inside)


def _value_for(file: ParsedFile, assignment: ast.Assign, name: ast.expr) -> ast.expr:
    """The value that an assignment gives a name, one of several or not."""
    for target in assignment.targets:
        names, given = [file.code(each) for each in elements(target)], elements(assignment.value)
        if file.code(name) in names and len(names) == len(given):
            return given[names.index(file.code(name))]
    return assignment.value


def _is_moved(file: ParsedFile, value: ast.expr) -> bool:
    """`x.cuda()`, `x.cuda().float()`, `Variable(x.cuda())`"""
    if not isinstance(value, ast.Call):
        return False
    receiver = value.func.value if isinstance(value.func, ast.Attribute) else None
    inner = [receiver] if isinstance(receiver, ast.Call) else value.args[:1]
    return may_be_move(file.names, value) or any(_is_moved(file, each) for each in inner)


def _tested(program: TrainingProgram, file: ParsedFile, step: tuple[ast.AST, ast.AST]) -> frozenset[ValueOrigin] | None:
    """Return the sources of what an `if` tests, of a node of its body; None where they are not known."""
    owner, below = step
    values = values_of(program.project)
    place = values.place(file.names, owner.test) if isinstance(owner, ast.If) and below in owner.body else None
    sources = values.sources(place, file.path) if place else ()
    return frozenset(sources) if sources else None


def _is_on_cpu(program: TrainingProgram, file: ParsedFile, use: ast.expr) -> bool:
    """Return whether a value at its use is what a loader gave or torch drew, or is computed of that, and perhaps never
    moved to a card."""
    values = values_of(program.project)

    def step(at: int, path: Path) -> Iterator[State]:
        one = values.at(at)
        if path or at not in one.calls:
            operands = one.operations[at].operands if not path and at in one.operations else ()
            yield from ((one.first + each, ()) for each in operands if each)
            yield from values.before(at, path)
        elif not is_moved(one.path, one.calls[at]) and "device" not in values.arguments(at):
            receiver = values.receiver(at) if one.calls[at].name in program.project.library.fluent else 0
            yield from [(receiver, ())] if receiver else values.before(at, path)

    def is_moved(path: str, call: Called) -> bool:
        ends = (program.of_file(_ends_of_moves, each) for each in program.parsed([path]))
        return any((call.end_line, call.end_column) in each for each in ends)

    place = values.place(file.names, use)
    states = (state for state in values.way_to(place, step) if state[1]) if place else ()
    ends = (state for state in states if not any(True for _ in step(*state)))
    origins = (origin for end in ends for origin in values.sources(end[0], file.path, end[1]))
    return any(_is_tensor(origin.text, values.kind(origin.place)[0] == "import") for origin in origins)


def _ends_of_moves(file: ParsedFile) -> frozenset[tuple[int | None, int | None]]:
    """The lines and columns where the calls of a file end that move something to a card."""
    moves = (call for call in file.nodes(ast.Call) if may_be_move(file.names, call))
    return frozenset((call.end_lineno, call.end_col_offset) for call in moves)


def _is_tensor(name: str, is_imported: bool) -> bool:
    """Return whether a value is a tensor by the name that it has: not what Python itself gives, by `enumerate(x)`, nor
    a row that comes from a library without a loader, as `csv.reader` gives it."""
    batch = _OF_BATCH.fullmatch(name)
    if batch is None:
        return name in _DRAWN
    given = batch[1].removesuffix("()")
    is_loader = not is_imported or given.startswith("torch.") or "loader" in given.lower()
    return is_loader and given.rpartition(".")[2] not in EFFECTS and not hasattr(builtins, given)
