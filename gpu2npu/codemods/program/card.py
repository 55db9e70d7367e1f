"""The card of a process: what names another card, or counts on being the only process, follows or is reported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpu2npu.codemods.places import NPU, Step, is_skipped, quoted, replaced, reported, span_removed
from gpu2npu.codemods.program.entries import Entries
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.program.group_condition import runs_without_group
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.text.literals import LiteralError, literals
from gpu2npu.python.text.templates import code, plain
from gpu2npu.python.tree.place import is_integer
from gpu2npu.python.tree.syntax import (
    FORS,
    Function,
    argument_keyword,
    argument_value,
    arguments,
    last_name,
    string_value,
)
from gpu2npu.records import FindingKind

_MESSAGE = "Every process uses the card of its own."
_CARD = re.compile(r"cuda:(\d+)")
_CARD_NAME = re.compile(r"gpu|local_rank|device_id|cuda_id", re.IGNORECASE)
# Calls that may be given the number of a card, or a name made from it.
_TAKING_CARDS = frozenset({"cuda", "device", "format", "set_device", "to"})
_OTHER_CARD = (
    "Every process has a card of its own, and this names one for all of them: write {own}, "
    "or keep it only if one process shall use several NPUs."
)
_VISIBLE = (
    "The launcher chooses the NPUs (NPUS=0,1 or ASCEND_RT_VISIBLE_DEVICES), and its choice is made when this runs: "
    "take the line out."
)


def bind_to_card(entries: Entries, variable: str = "LOCAL_RANK") -> Iterator[Step]:
    """Explicit card numbers in the code that some programs run; the environment's `variable` has the number to use."""
    for file, node in entries.running(_numbered):
        if is_skipped(file, node) or _is_set_by_caller(file, node, entries):
            continue
        program = entries.all[0].program
        yield from _at(file, node, variable, runs_without_group(program, file, file.bounds(node)[0]))


def _numbered(file: ParsedFile) -> list[ast.AST]:
    """The nodes that may name a card, outside of the processes that get one from the program."""
    found: list[ast.AST] = [*file.nodes(ast.JoinedStr), *file.nodes(ast.Assign)]
    found += [node for node in file.nodes(ast.Constant) if (string_value(node) or "").startswith("cuda:")]
    found += [node for node in file.nodes(ast.Call) if last_name(node.func) in _TAKING_CARDS]
    found += [node for node in file.nodes(ast.BinOp) if (string_value(node.left) or "").startswith("cuda:")]
    apart = spawned_functions(file) if found else frozenset()
    return [node for node in found if not apart or apart.isdisjoint(file.above(node))]


def _is_set_by_caller(file: ParsedFile, node: ast.AST, entries: Entries) -> bool:
    """`torch.cuda.set_device(device)` that only programs outside of the project come to: they choose the card of each
    of their processes, and may start these by mp.spawn, without LOCAL_RANK."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "set_device" or len(arguments(node)) != 1:
        return False
    card = argument_value(arguments(node)[0])
    is_named = isinstance(card, (ast.Name, ast.Attribute)) and not _is_counted(file, card)
    return is_named and all(entry.is_library for entry in entries.that_run(file, node))


def _at(file: ParsedFile, node: ast.AST, variable: str, without_group: bool) -> Iterator[Step]:
    if isinstance(node, ast.Constant):
        yield from _in_string(file, node)
    elif isinstance(node, ast.JoinedStr):
        yield from _in_formatted(file, node)
    elif isinstance(node, ast.Call):
        yield from _in_call(file, node, variable, without_group)
    elif isinstance(node, ast.BinOp):
        yield from _in_operation(file, node)
    elif isinstance(node, ast.Assign):
        yield from _visible_devices(file, node)


def _in_string(file: ParsedFile, node: ast.Constant) -> Iterator[Step]:
    card = _CARD.fullmatch(string_value(node) or "")
    if card is None or _in_set_device(file, node):
        return
    if card.group(1) == "0":
        if "cuda:0" in file.code(node):
            yield replaced(file, node, plain(file.code(node).replace("cuda:0", "npu")), _MESSAGE, NPU)
    elif not isinstance(file.parents[node], ast.Dict):  # map_location={'cuda:1': 'cuda:0'}
        yield _other_card(file, node, "'npu'")


def _in_formatted(file: ParsedFile, node: ast.JoinedStr) -> Iterator[Step]:
    """`f'cuda:{args.gpu}'`"""
    if len(node.values) != 2 or _in_set_device(file, node):
        return
    text, value = node.values
    if string_value(text) != "cuda:":
        return
    quote = _quote(file, node)
    if isinstance(value, ast.FormattedValue) and quote is not None and _is_first_card(file, value.value):
        yield replaced(file, node, code("'npu'" if quote.startswith("'") else '"npu"'), _MESSAGE, NPU)
    else:
        yield _other_card(file, node, "'npu'")


def _quote(file: ParsedFile, node: ast.JoinedStr) -> str | None:
    """The quotes of an f-string that is one literal."""
    try:
        found = literals(file.text, *file.bounds(node))
    except LiteralError:
        return None
    return found[0].quote if len(found) == 1 else None


def _in_call(file: ParsedFile, node: ast.Call, variable: str, without_group: bool) -> Iterator[Step]:
    name = last_name(node.func)
    if name in {"to", "format"}:
        yield from _in_to_or_format(file, node)
    given = arguments(node)
    if name not in {"cuda", "device", "set_device"} or not given or not isinstance(node.func, ast.Attribute):
        return
    first, keyword = argument_value(given[0]), argument_keyword(given[0])
    qualified = file.qualified(node.func)
    torch = spelling(file, "torch")
    if qualified == "torch.cuda.set_device":
        if variable not in file.code(first) and "rank" not in file.code(first).lower():
            os = spelling(file, "os")
            yield from ((file, edit) for edit in os.edits)
            template = "int({os}.environ.get({variable}, '0'))" if without_group else "int({os}.environ[{variable}])"
            yield replaced(file, first, code(template, os=os.name, variable=repr(variable)), _MESSAGE)
    elif qualified == "torch.cuda.device":
        if _is_first_card(file, first):
            yield replaced(file, first, code("{torch}.npu.current_device()", torch=torch.name), _MESSAGE, NPU)
    elif qualified == "torch.device":
        index = argument_value(given[1]) if len(given) > 1 else None
        if index is not None and string_value(first) == "cuda":
            if _is_first_card(file, index):
                yield _without(file, node, 1)
            else:
                yield _other_card(file, node, "torch.device('npu')")
    elif (name == "cuda" and keyword is None) or keyword == "device":
        if name == "cuda" and _is_first_card(file, first):
            yield _without(file, node, 0)
        elif name == "cuda" and is_integer(first):
            yield _other_card(file, node, ".npu()")


def _in_to_or_format(file: ParsedFile, node: ast.Call) -> Iterator[Step]:
    """`x.to(gpus[0])`, `'cuda:{}'.format(gpus[0])`"""
    given = arguments(node)
    if not isinstance(node.func, ast.Attribute) or not given:
        return
    first = argument_value(given[0])
    if node.func.attr == "to" and (is_integer(first) or isinstance(first, ast.Subscript)):
        if _is_first_card(file, first) and (is_integer(first) or _CARD_NAME.search(file.code(first))):
            yield replaced(file, first, quoted(file, "npu"), _MESSAGE, NPU)
    elif node.func.attr == "format" and string_value(node.func.value) == "cuda:{}" and len(given) == 1:
        yield from _built_name(file, node, first)


def _built_name(file: ParsedFile, node: ast.expr, card: ast.expr) -> Iterator[Step]:
    """An expression that makes the name of a card from its number."""
    if _in_set_device(file, node):
        return
    if _is_first_card(file, card):
        yield replaced(file, node, quoted(file, "npu"), _MESSAGE, NPU)
    else:
        yield _other_card(file, node, "'npu'")


def _in_operation(file: ParsedFile, node: ast.BinOp) -> Iterator[Step]:
    """`'cuda:%d' % gpus[0]`, `'cuda:' + str(gpus[0])`"""
    text, value = string_value(node.left), node.right
    if isinstance(node.op, ast.Mod) and text in {"cuda:%d", "cuda:%s"}:
        yield from _built_name(file, node, value)
    elif isinstance(node.op, ast.Add) and text == "cuda:":
        if isinstance(value, ast.Call) and last_name(value.func) == "str" and len(arguments(value)) == 1:
            value = argument_value(arguments(value)[0])
        yield from _built_name(file, node, value)


def _is_first_card(file: ParsedFile, value: ast.expr) -> bool:
    """Return whether an expression is the number of the program's only card: `0`, `gpus[0]`, `args.gpu`."""
    if is_integer(value):
        return value.value == 0
    if isinstance(value, ast.Subscript):
        return file.code(value.slice) == "0"
    if isinstance(value, (ast.Name, ast.Attribute)):
        name = last_name(value) or ""
        return bool(_CARD_NAME.search(name)) and not name.endswith("s") and not _is_counted(file, value)
    return False


def _is_counted(file: ParsedFile, value: ast.expr) -> bool:
    """Return whether a loop runs over the name: `for gpu in range(n)`."""
    code = file.code(value)
    for node in file.above(value):
        generators = getattr(node, "generators", ())
        loops = [node] if isinstance(node, FORS) else generators
        if any(file.code(loop.target) == code for loop in loops):
            return True
    return False


def _in_set_device(file: ParsedFile, node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and last_name(part.func) == "set_device" for part in file.above(node))


def _without(file: ParsedFile, call: ast.Call, index: int) -> Step:
    """The call without one of its arguments."""
    return span_removed(file, *file.bounds(arguments(call)[index]), _MESSAGE)


def _other_card(file: ParsedFile, node: ast.AST, own: str) -> Step:
    return reported(file, node, file.code(node), _OTHER_CARD.format(own=own), FindingKind.REVIEW)


def _visible_devices(file: ParsedFile, node: ast.Assign) -> Iterator[Step]:
    """`os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'`"""
    target = node.targets[0]
    if isinstance(target, ast.Subscript) and string_value(target.slice) == "CUDA_VISIBLE_DEVICES":
        yield reported(file, node, "CUDA_VISIBLE_DEVICES", _VISIBLE, FindingKind.REVIEW)


# Calls that are given a function to run in another process: of multiprocessing, torch.multiprocessing, and executors.
_STARTS = frozenset({"Pool", "Process", "ProcessPoolExecutor", "spawn", "start_processes"})


def spawned_functions(file: ParsedFile) -> frozenset[Function]:
    """The functions of a file that only such processes run: those they are started with, and what these alone name."""
    starts = [call for call in file.nodes(ast.Call) if last_name(call.func) in _STARTS]
    given = {name for call in starts for argument in arguments(call) if (name := last_name(argument_value(argument)))}
    started = {function for function in file.functions if function.name in given}
    if not started:
        return frozenset()
    at_starts = {node for call in starts for node in ast.walk(call)}
    named: dict[str, list[ast.AST]] = {}
    for node in (*file.nodes(ast.Name), *file.nodes(ast.Attribute)):
        if node not in at_starts:
            named.setdefault(last_name(node) or "", []).append(node)
    own = {function for function in started if function.name not in named}
    size = -1
    while size != len(own):
        size = len(own)
        own |= {each for each in file.functions if _is_named_only_in(named.get(each.name, []), own, file)}
    return frozenset(own)


def _is_named_only_in(places: list[ast.AST], functions: set[Function], file: ParsedFile) -> bool:
    return bool(places) and all(any(above in functions for above in file.above(node)) for node in places)
