"""Files are written by rank 0 only: checkpoints, results and logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpu2npu.codemods.data_parallel.files.checkpoint_loads import load_on_cpu, wait_before_loads
from gpu2npu.codemods.data_parallel.files.writes import (
    RANK,
    WORDS,
    Effect,
    Effects,
    gives_file,
    opens_to_write,
    opens_to_write_call,
)
from gpu2npu.codemods.data_parallel.files.written_paths import has_own_name, is_safe_by_itself, read_by_all
from gpu2npu.codemods.places import GroupEdit, Rewriting, is_skipped
from gpu2npu.codemods.program.entries import dataflow_of
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import barrier, first_rank
from gpu2npu.codemods.spellings import RULE, spelling
from gpu2npu.python.flow.dataflow import Dataflow
from gpu2npu.python.text.blocks import begins_line, line_below, lines_of, same_line, start_of
from gpu2npu.python.text.offsets import indentation
from gpu2npu.python.text.templates import code, followed, lines_at, operand, plain
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.place import CallPlace, Place
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    WITHS,
    Function,
    argument_of,
    arguments,
    blocks,
    is_main_guard,
    is_unpacked,
)
from gpu2npu.records import FileRewrite

_MESSAGE = "Rank 0 writes files, and the others do not."
_LOG_FILES = frozenset({"logging.FileHandler", "logging.basicConfig"})
_OPEN = (
    "Every rank writes to this file: write it under `if dist.get_rank() == 0:`, or put dist.get_rank() into its name."
)
_ON_ITS_OWN_LINE = "Every rank writes this file: put the call into a line of its own under `if dist.get_rank() == 0:`."
_TOGETHER = (
    "Every rank writes this file. Compute what it gets in a line before, on all ranks (a model wrapped in "
    "DistributedDataParallel waits for all of them), and write it under `if dist.get_rank() == 0:`."
)
_GOES_ON = (
    "Every rank writes this file and goes on with it, and perhaps not all ranks run this line: write it under "
    "`if dist.get_rank() == 0:` and call dist.barrier() where all ranks run it, before the others use it; or write it "
    "under a name of the process's own, and put it in place by os.replace."
)


def on_rank_zero(program: TrainingProgram, entries: Sequence[str]) -> dict[str, FileRewrite]:
    """Let only rank 0 of the programs that start at `entries` write files: the smallest groups of statements that do
    nothing else are put under `if dist.get_rank() == 0:`.

    Folders are made so that two ranks may make the same; wandb is silent on the other ranks. A statement that writes
    what takes all ranks to compute is left, with a finding. Prints stay: each rank has a log of its own.
    """
    flow = dataflow_of(program, entries, WORDS)
    effects = Effects(flow)
    rewriting = Rewriting(RULE)
    gated: list[Place[ast.stmt]] = []
    for file in flow.files.values():
        code = _Code(file, file.path in entries)
        own: set[ast.AST] = set()  # what is not looked at again
        left: set[ast.stmt] = set()  # to rank 0
        for owner in walk(file.tree):
            if not isinstance(owner, (ast.mod, ast.stmt, ast.ExceptHandler, ast.match_case)):
                continue
            for block in blocks(owner):
                if begins_line(file, block[0]) and code.runs(block[0]) and not code.is_inside(block[0], own):
                    for group in _groups(effects, file, block):
                        own.update(group)
                        if _leave_to_rank_zero(flow, file, group, rewriting):
                            left.update(group)
        gated += [Place(file, statement) for statement in sorted(left, key=file.bounds)]
        for call in file.nodes(ast.Call):
            if not code.is_inside(call, own):
                _rewrite_call(effects, code, Place(file, call), rewriting)
    wait_before_loads(flow, gated, rewriting)
    load_on_cpu(flow, rewriting)
    return rewriting.files()


class _Code:
    """The code of one file; `is_entry` means that the file is started."""

    def __init__(self, file: ParsedFile, is_entry: bool) -> None:
        self.file = file
        self.is_entry = is_entry
        self._tests_of: dict[ast.AST, bool] = {}

    def runs(self, node: ast.AST) -> bool:
        """Return whether a node may run on all ranks of a process group, and not while a file is open for writing."""
        above = list(self.file.above(node))
        in_function = any(isinstance(part, FUNCTIONS) for part in above)
        if not self.is_entry and (not in_function or any(map(is_main_guard, above))):
            return False
        return not self._is_written(node) and not self._is_in_rank_test(above)

    def _is_written(self, node: ast.AST) -> bool:
        """Return whether a node is in the body of a `with` that opens a file to write it."""
        steps = self.file.steps(node)
        return any(isinstance(part, WITHS) and below in part.body and self._opens_file(part) for part, below in steps)

    def _opens_file(self, node: ast.With | ast.AsyncWith) -> bool:
        return opens_to_write(node) or any(gives_file(self.file, item, node.body) for item in node.items)

    def _is_in_rank_test(self, above: Sequence[ast.AST]) -> bool:
        """Return whether the code around a node, or before it in its function, looks at the rank already."""
        for node in above:
            if isinstance(node, (ast.If, *FUNCTIONS)):
                if node not in self._tests_of:
                    self._tests_of[node] = self._tests_rank(node)
                if self._tests_of[node]:
                    return True
                if isinstance(node, FUNCTIONS):
                    return False
        return False

    def _tests_rank(self, node: ast.If | Function) -> bool:
        if isinstance(node, ast.If):
            return RANK.search(self.file.code(node.test)) is not None
        if any(RANK.search(self.file.code(decorator)) for decorator in node.decorator_list):
            return True
        tests = [part for part in node.body if isinstance(part, ast.If) and self._tests_rank(part)]
        return any(isinstance(part, ast.Return) for test in tests for part in walk(*test.body))

    def is_inside(self, node: ast.AST, others: set[ast.AST]) -> bool:
        """Return whether a node is in one of some others."""
        return any(part in others for part in self.file.above(node))


def _groups(effects: Effects, file: ParsedFile, block: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """The runs of statements of a block that write files, with what they print and the folders they make between."""
    run: list[tuple[list[ast.stmt], Effect]] = []
    position = 0
    while position < len(block):
        line = same_line(file, block[position])
        position += len(line)
        effect = effects.of_block(file, line) if not is_skipped(file, line[0]) else Effect.OTHER
        if effect is not Effect.OTHER:
            run.append((line, effect))
            continue
        yield from _trimmed(run)
        run = []
    yield from _trimmed(run)


def _trimmed(run: Sequence[tuple[list[ast.stmt], Effect]]) -> Iterator[list[ast.stmt]]:
    """A run from the first statement that writes (or makes a folder) to the last that writes."""
    writes = [index for index, (_, effect) in enumerate(run) if effect is Effect.WRITE]
    if not writes:
        return
    first = next(index for index, (_, effect) in enumerate(run) if effect in {Effect.WRITE, Effect.FOLDER})
    yield [statement for line, _ in run[first : writes[-1] + 1] for statement in line]


def _leave_to_rank_zero(flow: Dataflow, file: ParsedFile, group: Sequence[ast.stmt], rewriting: Rewriting) -> bool:
    """Let rank 0 write and the others wait, or report where they cannot. Return whether rank 0 alone writes."""
    if is_safe_by_itself(file, group):
        return False
    reading = read_by_all(flow, file, group)
    if reading is not None and reading.wait is None:
        rewriting.report(file, group[0], "dist.barrier", _GOES_ON)
        return False
    _gate(file, group, rewriting)
    if reading is not None and reading.wait is not None:
        _wait_below(file, reading.wait, rewriting)
    return True


def _wait_below(file: ParsedFile, statement: ast.stmt, rewriting: Rewriting) -> None:
    """A barrier below a statement."""
    dist = spelling(file, "torch.distributed")
    at = line_below(file, statement)
    indent = indentation(file.text, start_of(file, statement))
    lines, single = barrier(file, dist.name)
    message = "All ranks wait for the file that rank 0 writes."
    rewriting.ask_group(file, (at, at), lines_at(file, at, indent, lines), message, lines_at(file, at, indent, single))


def _gate(file: ParsedFile, group: Sequence[ast.stmt], rewriting: Rewriting) -> None:
    """Put statements under `if dist.get_rank() == 0:`."""
    dist = spelling(file, "torch.distributed")
    rewriting.add(file, dist.edits)
    whole = lines_of(file, group)
    text, single = (followed(code("if {first}:", first=each), whole) for each in first_rank(dist.name))
    edit = GroupEdit(whole, text, rewriting.rule, _MESSAGE, single_process=single, optional=True, is_block=True)
    rewriting.add(file, (edit,))


def _rewrite_call(effects: Effects, code: _Code, call: CallPlace, rewriting: Rewriting) -> None:
    """Calls that are not gated: folders, wandb, log files, and what takes all ranks to compute."""
    file, node = call.file, call.node
    name = file.qualified(node.func)
    effect = effects.of_call(call)
    opens = (name in _LOG_FILES and _names_file(node, name)) or opens_to_write_call(node) or _gives_file(call)
    if effect not in {Effect.FOLDER, Effect.WRITE} and name != "wandb.init" and not opens:
        return
    if is_skipped(file, node) or not code.runs(node):
        return
    if effect is Effect.FOLDER:
        _allow_existing(call, name, rewriting)
    elif name == "wandb.init":
        _silence(call, rewriting)
    elif opens:
        rewriting.report(file, node, name or "open", _OPEN)
    else:
        advice = _ON_ITS_OWN_LINE if effects.has_local_arguments(call) else _TOGETHER
        rewriting.report(file, node, name or file.code(node.func), advice)


def _gives_file(call: CallPlace) -> bool:
    """`with atomic_write(path) as f:`, and not a temporary file of the process's own."""
    item = call.file.parents[call.node]
    if not isinstance(item, ast.withitem) or has_own_name(call.file.code(call.node)):
        return False
    above = call.file.parents[item]
    return isinstance(above, WITHS) and gives_file(call.file, item, above.body)


def _names_file(call: ast.Call, name: str | None) -> bool:
    return name == "logging.FileHandler" or any(keyword.arg == "filename" for keyword in call.keywords)


def _allow_existing(call: CallPlace, name: str | None, rewriting: Rewriting) -> None:
    """Another rank may have made the folder a moment ago."""
    node, file = call.node, call.file
    given = arguments(node)
    if any(map(is_unpacked, given)) or any(keyword.arg == "exist_ok" for keyword in node.keywords):
        return
    message = "Another rank may make the folder first."
    if name == "os.mkdir":
        if not isinstance(node.func, ast.Attribute) or len(given) != 1:
            return
        end = file.bounds(node.func)[1]
        rewriting.put(file, end - len(node.func.attr), end, plain("makedirs"), message)
    elif name != "os.makedirs" and not _is_path(node):
        return
    end = file.bounds(node)[1] - 1
    rewriting.put(file, end, end, code("exist_ok=True"), message)


def _is_path(call: ast.Call) -> bool:
    """Return whether `x.mkdir(...)` is that of a pathlib.Path: other things with a mkdir take the folder's name."""
    return not call.args and all(keyword.arg in {"parents", "mode"} for keyword in call.keywords)


def _silence(call: CallPlace, rewriting: Rewriting) -> None:
    node, file = call.node, call.file
    dist = spelling(file, "torch.distributed")
    conditions = first_rank(dist.name)
    given = argument_of(node, "mode")
    if given is not None and RANK.search(file.code(given)):
        return
    rewriting.add(file, dist.edits)
    message = "Rank 0 keeps the records of the run."
    if given is not None:
        value = operand(file, given)
        template = "{mode} if {first} else 'disabled'"
        place, (text, single) = value.bounds, (code(template, mode=value, first=each) for each in conditions)
    else:
        place = (file.bounds(node)[1] - 1,) * 2
        text, single = (code("mode=None if {first} else 'disabled'", first=each) for each in conditions)
    rewriting.ask_group(file, place, text, message, single, optional=True)
