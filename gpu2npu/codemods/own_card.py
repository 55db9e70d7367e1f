"""One process has one card: what names another card, or counts on being the only process, follows or is reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from gpu2npu.codemods.entry import Entry
from gpu2npu.codemods.imports import spelling
from gpu2npu.codemods.places import Step, above, is_skipped, quoted, replaced, reported, span_replaced
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.engine.tree import last_name, string_value
from gpu2npu.records import FindingKind

_MESSAGE = "Every process uses the card of its own."
_CARD = re.compile(r"cuda:(\d+)")
_CARD_NAME = re.compile(r"gpu|local_rank|device_id|cuda_id", re.IGNORECASE)
_OTHER_CARD = (
    "Every process has a card of its own, and this names one for all of them: write {own}, "
    "or keep it only if one process shall use several NPUs."
)
_VISIBLE = (
    "The launcher chooses the NPUs (NPUS=0,1 or ASCEND_RT_VISIBLE_DEVICES), and its choice is made when this runs: "
    "take the line out."
)


def on_own_card(entries: Iterable[Entry], variable: str = "LOCAL_RANK") -> Iterator[Step]:
    """Explicit card numbers in the code that some programs run; the environment's `variable` has the number to use."""
    for entry in entries:
        for file, node in entry.running(cst.BaseExpression, cst.Assign):
            for step in _at(file, node, variable):
                if not is_skipped(file, node):
                    yield step


def _at(file: ParsedFile, node: cst.CSTNode, variable: str) -> Iterator[Step]:
    if isinstance(node, cst.SimpleString):
        yield from _in_string(file, node)
    elif isinstance(node, cst.FormattedString):
        yield from _in_formatted(file, node)
    elif isinstance(node, cst.Call):
        yield from _in_call(file, node, variable)
    elif isinstance(node, cst.BinaryOperation):
        yield from _in_operation(file, node)
    elif isinstance(node, cst.Assign):
        yield from _visible_devices(file, node)


def _in_string(file: ParsedFile, node: cst.SimpleString) -> Iterator[Step]:
    card = _CARD.fullmatch(string_value(node) or "")
    if card is None or _in_set_device(file, node):
        return
    if card.group(1) == "0":
        yield replaced(file, node, file.code(node).replace(":0", ""), _MESSAGE)
    elif not isinstance(file.parents.get(id(node)), cst.DictElement):  # map_location={'cuda:1': 'cuda:0'}
        yield _other_card(file, node, "'npu'")


def _in_formatted(file: ParsedFile, node: cst.FormattedString) -> Iterator[Step]:
    """`f'cuda:{args.gpu}'`"""
    if len(node.parts) != 2 or _in_set_device(file, node):
        return
    text, value = node.parts
    if isinstance(text, cst.FormattedStringText) and text.value == "cuda:":
        if isinstance(value, cst.FormattedStringExpression) and _is_first_card(file, value.expression):
            quote = node.start.lstrip("fFrR")
            yield replaced(file, node, f"{quote}cuda{quote}", _MESSAGE)
        else:
            yield _other_card(file, node, "'npu'")


def _in_call(file: ParsedFile, node: cst.Call, variable: str) -> Iterator[Step]:
    name = last_name(node.func)
    if name in {"to", "format"}:
        yield from _in_to_or_format(file, node)
    if name not in {"cuda", "device", "set_device"} or not node.args or not isinstance(node.func, cst.Attribute):
        return
    first = node.args[0]
    qualified = file.names.qualified(node.func, file.scope_of(node))
    torch = spelling(file, "torch")
    if qualified == "torch.cuda.set_device":
        if variable not in file.code(first.value) and "rank" not in file.code(first.value).lower():
            os = spelling(file, "os")
            yield from ((file, edit) for edit in os.edits)
            yield replaced(file, first.value, f"int({os.name}.environ['{variable}'])", _MESSAGE)
    elif qualified == "torch.cuda.device":
        if _is_first_card(file, first.value):
            yield replaced(file, first.value, f"{torch.name}.cuda.current_device()", _MESSAGE)
    elif qualified == "torch.device":
        index = node.args[1].value if len(node.args) > 1 else None
        if index is not None and string_value(first.value) == "cuda":
            if _is_first_card(file, index):
                yield _without(file, node, 1)
            else:
                yield _other_card(file, node, "torch.device('npu')")
    elif (name == "cuda" and first.keyword is None) or (first.keyword is not None and first.keyword.value == "device"):
        if name == "cuda" and _is_first_card(file, first.value):
            yield _without(file, node, 0)
        elif name == "cuda" and isinstance(first.value, cst.Integer):
            yield _other_card(file, node, ".npu()")


def _in_to_or_format(file: ParsedFile, node: cst.Call) -> Iterator[Step]:
    """`x.to(gpus[0])`, `'cuda:{}'.format(gpus[0])`"""
    if not isinstance(node.func, cst.Attribute) or len(node.args) == 0:
        return
    first = node.args[0].value
    if node.func.attr.value == "to" and isinstance(first, (cst.Integer, cst.Subscript)):
        if _is_first_card(file, first) and _CARD_NAME.search(file.code(first) + "gpu" * isinstance(first, cst.Integer)):
            yield replaced(file, first, quoted(file, "cuda"), _MESSAGE)
    elif node.func.attr.value == "format" and string_value(node.func.value) == "cuda:{}" and len(node.args) == 1:
        yield from _built_name(file, node, first)


def _built_name(file: ParsedFile, node: cst.BaseExpression, card: cst.BaseExpression) -> Iterator[Step]:
    """An expression that makes the name of a card from its number."""
    if _in_set_device(file, node):
        return
    if _is_first_card(file, card):
        yield replaced(file, node, quoted(file, "cuda"), _MESSAGE)
    else:
        yield _other_card(file, node, "'npu'")


def _in_operation(file: ParsedFile, node: cst.BinaryOperation) -> Iterator[Step]:
    """`'cuda:%d' % gpus[0]`, `'cuda:' + str(gpus[0])`"""
    text, value = string_value(node.left), node.right
    if isinstance(node.operator, cst.Modulo) and text in {"cuda:%d", "cuda:%s"}:
        yield from _built_name(file, node, value)
    elif isinstance(node.operator, cst.Add) and text == "cuda:":
        is_str = isinstance(value, cst.Call) and last_name(value.func) == "str" and len(value.args) == 1
        yield from _built_name(file, node, value.args[0].value if isinstance(value, cst.Call) and is_str else value)


def _is_first_card(file: ParsedFile, value: cst.BaseExpression) -> bool:
    """Whether an expression gives the number of the one card that the program works on: `0`, `gpus[0]`, `args.gpu`."""
    if isinstance(value, cst.Integer):
        return value.value == "0"
    if isinstance(value, cst.Subscript):
        index = value.slice[0].slice
        return len(value.slice) == 1 and isinstance(index, cst.Index) and file.code(index.value) == "0"
    if isinstance(value, (cst.Name, cst.Attribute)):
        name = last_name(value) or ""
        return bool(_CARD_NAME.search(name)) and not name.endswith("s") and not _is_counted(file, value)
    return False


def _is_counted(file: ParsedFile, value: cst.BaseExpression) -> bool:
    """Whether a loop runs over the name: `for gpu in range(n)`."""
    return any(
        isinstance(node, (cst.For, cst.CompFor)) and file.code(node.target) == file.code(value)
        for node in above(file, value)
    )


def _in_set_device(file: ParsedFile, node: cst.CSTNode) -> bool:
    return any(isinstance(part, cst.Call) and last_name(part.func) == "set_device" for part in above(file, node))


def _without(file: ParsedFile, call: cst.Call, index: int) -> Step:
    """The call without one of its arguments."""
    arg = call.args[index]
    start, end = file.positions.of(arg)
    if index:
        start = file.positions.of(call.args[index - 1].value)[1]
    elif len(call.args) > 1:
        end = file.positions.of(call.args[1])[0]
    else:
        end = file.positions.of(call)[1] - 1
    return span_replaced(file, start, end, "", _MESSAGE)


def _other_card(file: ParsedFile, node: cst.CSTNode, own: str) -> Step:
    return reported(file, node, file.code(node), _OTHER_CARD.format(own=own), FindingKind.REVIEW)


def _visible_devices(file: ParsedFile, node: cst.Assign) -> Iterator[Step]:
    """`os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'`"""
    target = node.targets[0].target
    if isinstance(target, cst.Subscript) and len(target.slice) == 1:
        index = target.slice[0].slice
        if isinstance(index, cst.Index) and string_value(index.value) == "CUDA_VISIBLE_DEVICES":
            yield reported(file, node, "CUDA_VISIBLE_DEVICES", _VISIBLE, FindingKind.REVIEW)
