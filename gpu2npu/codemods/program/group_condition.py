"""The process group that a program makes itself, and the code that also runs without one, as a library's does."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator

from gpu2npu.codemods.program.entries import Entry, all_calls, calls_in, find_entries, main_guard
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.flow.reachability import TEST_FILE
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.python.text.templates import code, under
from gpu2npu.python.tree.syntax import FUNCTIONS, elements, is_main_guard, last_name
from gpu2npu.records import NewText

# Calls by which a program, or a library it trains with, sees to processes itself.
_GROUPS = frozenset({"init_process_group", "init_distributed", "Accelerator"})
_SPAWN = frozenset(
    {"colossalai.launch", "colossalai.launch_from_torch", "deepspeed.initialize", "detectron2.engine.launch",
     "horovod.torch.init", "ignite.distributed.Parallel", "ignite.distributed.initialize", "lightning.Fabric",
     "lightning.fabric.Fabric", "mmcv.runner.init_dist", "mmengine.dist.init_dist",
     "timm.utils.init_distributed_device", "torch.multiprocessing.spawn", "torch.multiprocessing.start_processes",
     "torchtnt.utils.init_from_env"}
)  # fmt: skip
# Their objects make the process group of whoever started the program: torchrun, deepspeed.
_ARGUMENTS = frozenset({"Seq2SeqTrainingArguments", "TrainingArguments"})
_RUNNERS = frozenset({"pytest.main", "unittest.main", "torch.testing._internal.common_utils.run_tests"})
# What may leave out the code in it.
_CHOICES = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.While, ast.Match)
_TEST_FILE = re.compile(TEST_FILE)
_TEST = re.compile(rb"^[ \t]*(async[ \t]+)?def[ \t]+test_", re.MULTILINE)


def runs_without_group(program: TrainingProgram, file: ParsedFile, offset: int) -> bool:
    """Return whether programs that have no process group may run the code at an offset: that of a function or class
    which tests load, or other projects, or which no program of the project comes to."""
    if not any(start < offset < end for start, end in program.of_file(_definitions, file)):
        return False
    if file.path in program.once(_tested, lambda: _tested(program)) or _is_offered(program, file.path):
        return True
    entries = program.once((find_entries, file.path), lambda: find_entries(program, [file.path]))
    return not any(entry.runs_at(file, offset) for entry in entries)


def _tested(program: TrainingProgram) -> frozenset[str]:
    """The test files, and the files that they load."""
    graph = ImportGraph.of(program)
    tests = [path for path, source in program.sources.items() if _has_tests(path, source)]
    return frozenset().union(*(graph.loaded_by(path) for path in tests))


def _has_tests(path: str, source: bytes) -> bool:
    return is_test_file(path) and _TEST.search(source) is not None


def is_for_runner(file: ParsedFile) -> bool:
    """Return whether a file has tests which a runner of tests starts: its main guard, if any, does nothing besides."""
    if not _has_tests(file.path, file.text.encode()):
        return False
    guard = main_guard(file)
    body = [] if guard is None else [each for each in guard.body if not isinstance(each, ast.Pass)]
    return not body or any(file.qualified(call.func) in _RUNNERS for each in body for call in calls_in(each))


def is_test_file(path: str) -> bool:
    return _TEST_FILE.fullmatch(posixpath.basename(path)) is not None


def _is_offered(program: TrainingProgram, path: str) -> bool:
    """Return whether a file is one of those that other projects import once the project is installed. A script in a
    package that nothing imports is a program of its own."""
    if not any(path.startswith(f"{package}/") for package in program.installed.packages):
        return False
    is_script = b"__main__" in program.sources[path] and path not in ImportGraph.of(program).importers
    return not is_script or path in program.installed.commands


def _definitions(file: ParsedFile) -> list[tuple[int, int]]:
    return [file.bounds(node) for node in file.definitions]


def first_rank(dist: str) -> tuple[NewText, NewText]:
    """The condition of the process that writes files, and that where there may be no process group."""
    first = code("{dist}.get_rank() == 0", dist=dist)
    return first, code("not {group} or {first}", group=in_group(dist), first=first)


def barrier(file: ParsedFile, dist: str) -> tuple[list[NewText], list[NewText]]:
    """The lines in which all ranks wait for each other, and those where there may be no process group."""
    line = code("{dist}.barrier()", dist=dist)
    return [line], under(file, code("if {group}:", group=in_group(dist)), line)


def in_group(dist: str) -> NewText:
    """The condition that there is a process group, with the file's name for torch.distributed."""
    return code("{dist}.is_initialized()", dist=dist)


def world_size(dist: str) -> NewText:
    """The number of processes, where there may be no process group."""
    return code("({dist}.get_world_size() if {group} else 1)", dist=dist, group=in_group(dist))


def group_place(entry: Entry) -> str | None:
    """Return where a program makes its process group, or starts its processes, itself: "train.py:12"."""
    found = entry.program.once((group_place, entry), lambda: next(iter(entry.running(_groups)), None))
    return f"{found[0].path}:{found[0].span(found[1]).start_line}" if found is not None else None


def always_has_group(entry: Entry) -> bool:
    """Return whether a program makes its process group, or starts its processes, under no condition at all: not
    `if args.local_rank != -1: init_process_group("nccl")`."""
    return entry.program.once((always_has_group, entry), lambda: _always_has_group(entry))


def _always_has_group(entry: Entry) -> bool:
    pending: list[tuple[ParsedFile, ast.AST]] = [
        (file, node) for file, node in entry.running(_groups) if _group_call(file, node)
    ]
    seen = set[ast.AST]()
    while pending:
        file, node = pending.pop()
        inside = next((each for each in file.above(node) if _may_leave_out(each)), None)
        if inside is None:
            return True
        if isinstance(inside, FUNCTIONS) and inside not in seen:
            seen.add(inside)
            pending += _calls(entry, inside.name)
    return False


def _group_call(file: ParsedFile, node: ast.AST) -> bool:
    """Return whether a call makes processes or their group, and not an object that may do so: `TrainingArguments()`."""
    return isinstance(node, ast.Call) and (last_name(node.func) in _GROUPS or file.qualified(node.func) in _SPAWN)


def _calls(entry: Entry, name: str) -> Iterator[tuple[ParsedFile, ast.Call]]:
    """The calls of what has a name, as its last part, that a program may make."""
    for file in entry.files.values():
        for call in entry.program.of_file(_calls_by_name, file).get(name, ()):
            if entry.runs(file, call):
                yield file, call


def _calls_by_name(file: ParsedFile) -> dict[str | None, list[ast.Call]]:
    calls: dict[str | None, list[ast.Call]] = {}
    for call in all_calls(file):
        calls.setdefault(last_name(call.func), []).append(call)
    return calls


def _may_leave_out(node: ast.AST) -> bool:
    """Return whether code in a node does not always run where the node is come to: a condition, a function."""
    return isinstance(node, FUNCTIONS) or (isinstance(node, _CHOICES) and not is_main_guard(node))


def _groups(file: ParsedFile) -> list[ast.AST]:
    """The calls that make a process group, or start processes, and the classes that do so as a library's."""
    makers = _GROUPS | _ARGUMENTS
    own = [node for node in file.nodes(ast.ClassDef) if any(last_name(base) in makers for base in node.bases)]
    calls = file.nodes(ast.Call)
    return [*own, *(each for each in calls if _makes_group(file, each))]


def _makes_group(file: ParsedFile, call: ast.Call) -> bool:
    name = last_name(call.func)
    if name == "HfArgumentParser" and call.args:
        return any(last_name(each) in _ARGUMENTS for each in (call.args[0], *elements(call.args[0])))
    return name in _GROUPS or name in _ARGUMENTS or file.qualified(call.func) in _SPAWN
