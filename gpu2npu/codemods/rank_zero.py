"""Files are written by rank 0 only: checkpoints, results and logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gpu2npu.codemods.checkpoint_loads import wait_before_loads
from gpu2npu.codemods.dataflow import Dataflow
from gpu2npu.codemods.entry_files import files_of
from gpu2npu.codemods.file_writes import RANK, WORDS, Effect, Effects, opens_to_write, opens_to_write_call
from gpu2npu.codemods.imports import RULE, spelling
from gpu2npu.codemods.places import is_skipped
from gpu2npu.codemods.program import ParsedFile, Program
from gpu2npu.codemods.reachability import is_main_guard
from gpu2npu.codemods.rewriting import Rewriting, indentation, lines_to_indent
from gpu2npu.codemods.syntax import Place, above, walk
from gpu2npu.engine.tree import string_value
from gpu2npu.records import FileRewrite

_MESSAGE = "Rank 0 writes files, and the others do not."
_LOG_FILES = frozenset({"logging.FileHandler", "logging.basicConfig"})
_OPEN = (
    "Every rank writes to this file: write it under `if dist.get_rank() == 0:`, or put dist.get_rank() into its name."
)
_ALONE = "Every rank writes this file: put the call into a line of its own under `if dist.get_rank() == 0:`."
_TOGETHER = (
    "Every rank writes this file. Compute what it gets in a line before, on all ranks (a model wrapped in "
    "DistributedDataParallel waits for all of them), and write it under `if dist.get_rank() == 0:`."
)


def on_rank_zero(program: Program, entries: Sequence[str]) -> dict[str, FileRewrite]:
    """Let only rank 0 of the programs that start at `entries` write files: the smallest groups of statements that do
    nothing else are put under `if dist.get_rank() == 0:`.

    Folders are made so that two ranks may make the same; wandb is silent on the other ranks. A statement that writes
    what takes all ranks to compute is left, with a finding. Prints stay: each rank has a log of its own.
    """
    flow = Dataflow(program, files_of(program, entries, WORDS))
    effects = Effects(flow)
    rewriting = Rewriting(RULE)
    gated: dict[int, Place] = {}
    for file in flow.files.values():
        for node in walk(file.module):
            place = Place(file, node)
            if not _runs_in_program(place, entries) or any(id(part) in gated for part in above(place)):
                continue
            if isinstance(node, (cst.Module, cst.IndentedBlock)):
                for group in _groups(effects, file, node):
                    _gate(file, group, rewriting)
                    gated.update({id(part.node): part for part in group})
            elif isinstance(node, cst.Call) and not is_skipped(file, node):
                _rewrite_call(effects, place, rewriting)
    wait_before_loads(flow, list(gated.values()), rewriting)
    return rewriting.files()


def _runs_in_program(place: Place, entries: Sequence[str]) -> bool:
    """Whether code may run when there is a process group, on all ranks, and not while a file is open for writing."""
    if not isinstance(place.node, (cst.Module, cst.IndentedBlock, cst.Call)):
        return False
    nodes = [place.node, *above(place)]
    in_function = any(isinstance(node, cst.FunctionDef) for node in nodes)
    if place.file.path not in entries and (not in_function or any(map(is_main_guard, nodes))):
        return False
    written = any(
        isinstance(node, cst.With) and any(node.body is part for part in nodes) and opens_to_write(node)
        for node in nodes
    )
    return not written and not _asks_for_rank(place)


def _asks_for_rank(place: Place) -> bool:
    """Whether the code around a place, or before it in its function, looks at the rank already."""
    file = place.file
    for node in above(place):
        if isinstance(node, cst.If) and RANK.search(file.code(node.test)):
            return True
        if isinstance(node, cst.FunctionDef):
            if any(RANK.search(file.code(decorator)) for decorator in node.decorators):
                return True
            before = [part for part in node.body.body if isinstance(part, cst.If) and RANK.search(file.code(part.test))]
            return any(isinstance(part, cst.Return) for test in before for part in walk(test.body))
    return False


def _groups(effects: Effects, file: ParsedFile, block: cst.Module | cst.IndentedBlock) -> Iterator[list[Place]]:
    """The runs of statements of a block that write files, with what they print and the folders they make between."""
    run: list[tuple[Place, Effect]] = []
    for statement in (*block.body, None):
        place = Place(file, statement) if statement is not None else None
        effect = effects.of(place) if place is not None and not is_skipped(file, place.node) else Effect.OTHER
        if place is not None and effect is not Effect.OTHER:
            run.append((place, effect))
            continue
        yield from _trimmed(run)
        run = []


def _trimmed(run: list[tuple[Place, Effect]]) -> Iterator[list[Place]]:
    """A run from the first statement that writes (or makes a folder) to the last that writes."""
    writes = [index for index, (_, effect) in enumerate(run) if effect is Effect.WRITE]
    if not writes:
        return
    first = next(index for index, (_, effect) in enumerate(run) if effect in {Effect.WRITE, Effect.FOLDER})
    group = run[first : writes[-1] + 1]
    yield [place for place, _ in group]


def _gate(file: ParsedFile, group: Sequence[Place], rewriting: Rewriting) -> None:
    """Put statements under `if dist.get_rank() == 0:`, each line one step further in, but not those within strings."""
    dist = spelling(file, "torch.distributed")
    rewriting.add(file, dist.edits)
    start, _ = file.positions.of(group[0].node)
    step, newline = file.module.default_indent, file.module.default_newline
    indent = indentation(file, start)
    rewriting.put(file, start, start, f"if {dist.name}.get_rank() == 0:{newline}{indent}{step}", _MESSAGE)
    for line in lines_to_indent(file, [place.node for place in group]):
        rewriting.put(file, line, line, step, _MESSAGE)


def _rewrite_call(effects: Effects, call: Place, rewriting: Rewriting) -> None:
    """Calls that are not gated: folders, wandb, log files, and what takes all ranks to compute."""
    assert isinstance(call.node, cst.Call)
    file = call.file
    name = file.names.qualified(call.node.func, file.scope_of(call.node.func))
    effect = effects.of_call(call)
    if effect is Effect.FOLDER:
        _allow_existing(call, name, rewriting)
    elif name == "wandb.init":
        _silence(call, rewriting)
    elif (name in _LOG_FILES and _names_file(call.node, name)) or opens_to_write_call(call.node):
        rewriting.report(file, call.node, name or "open", _OPEN)
    elif effect is Effect.WRITE:
        advice = _ALONE if effects.has_local_arguments(call) else _TOGETHER
        rewriting.report(file, call.node, name or file.code(call.node.func), advice)


def _names_file(call: cst.Call, name: str | None) -> bool:
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return "filename" in given or name == "logging.FileHandler"


def _allow_existing(call: Place, name: str | None, rewriting: Rewriting) -> None:
    """Another rank may have made the folder a moment ago."""
    node, file = call.node, call.file
    assert isinstance(node, cst.Call)
    if any(arg.star or (arg.keyword is not None and arg.keyword.value == "exist_ok") for arg in node.args):
        return
    message = "Another rank may make the folder first."
    if name == "os.mkdir":
        if not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
            return
        rewriting.replace(file, node.func.attr, "makedirs", message)
    elif name != "os.makedirs" and not _is_path(node):
        return
    end = file.positions.of(node.args[-1].value)[1] if node.args else file.positions.of(node)[1] - 1
    rewriting.put(file, end, end, ", exist_ok=True" if node.args else "exist_ok=True", message)


def _is_path(call: cst.Call) -> bool:
    """Whether `x.mkdir(...)` is that of a pathlib.Path: other things with a mkdir take the folder's name."""
    return all(arg.keyword is not None and arg.keyword.value in {"parents", "mode"} for arg in call.args)


def _silence(call: Place, rewriting: Rewriting) -> None:
    node, file = call.node, call.file
    assert isinstance(node, cst.Call)
    dist = spelling(file, "torch.distributed")
    quiet = f"None if {dist.name}.get_rank() == 0 else 'disabled'"
    given = next((arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "mode"), None)
    if given is not None and RANK.search(file.code(given.value)):
        return
    rewriting.add(file, dist.edits)
    message = "Rank 0 keeps the records of the run."
    if given is not None:
        value = file.code(given.value)
        value = (
            value if string_value(given.value) is not None or isinstance(given.value, cst.Attribute) else f"({value})"
        )
        rewriting.replace(file, given.value, f"{value} if {dist.name}.get_rank() == 0 else 'disabled'", message)
        return
    end = file.positions.of(node.args[-1].value)[1] if node.args else file.positions.of(node)[1] - 1
    rewriting.put(file, end, end, f"{', ' if node.args else ''}mode={quiet}", message)
