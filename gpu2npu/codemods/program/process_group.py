"""The process group of a program: made where it starts, ended where it ends."""

from __future__ import annotations

import argparse
import ast
import builtins
import posixpath
import re
import sys
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from gpu2npu.codemods.places import NPU, Step, inserted, quoted, replaced
from gpu2npu.codemods.program.entries import Entry, calls_in, main_guard
from gpu2npu.codemods.program.files import ParsedFile
from gpu2npu.codemods.program.group_condition import in_group
from gpu2npu.codemods.spellings import first_code, spelling
from gpu2npu.python.project.imports import is_taken
from gpu2npu.python.text.blocks import begins_line, indent_step, line_below, line_start, next_line, same_line, start_of
from gpu2npu.python.text.offsets import indentation
from gpu2npu.python.text.templates import code, followed, lines_above, lines_at, plain, under
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import (
    COMPREHENSIONS,
    DEFINITIONS,
    IMPORTS,
    TRIES,
    Definition,
    argument_value,
    arguments,
    last_name,
    parameters,
    shallow_nodes,
)
from gpu2npu.records import NewText

_BEGIN = "One process for each card, and a group of them."
_END = "The process group ends with the program."
_DESTROY = "destroy_process_group"
# What a program calls to read its options.
_PARSES = frozenset({"parse_args", "parse_args_into_dataclasses", "parse_known_args"})
# Calls that need neither a card nor the group, beside those of Python's own packages.
_MADE = _PARSES | {"ArgumentParser", "HfArgumentParser", "add_parser"}
_METHODS = _MADE.union(*map(dir, (argparse.ArgumentParser, str, list, dict)))
_PLAIN = frozenset({"torch.cuda.is_available", "torch.device", "torch.manual_seed"})
_PLAIN_PACKAGES = sys.stdlib_module_names - {"multiprocessing"} | {"numpy", "yaml"}
# Calls that need the card of the process, or the group.
_NEEDS_CARD = frozenset({"cuda", "to", "DataLoader", "DataParallel", "device_count", "set_device"})


def set_up(entry: Entry, started: Collection[Entry]) -> Iterator[Step]:
    """Make the process group at the first point of the program that runs, and destroy it at the end. `started` are all
    programs that get one, this among them.

    Without a launcher the program is one process on one card; port 0 lets the system choose one that is free. What a
    command may start is a function that can be called again, and left anywhere: the first call makes the group, if its
    caller has not, and it ends with the process. A program that destroys a group itself does so to this one.
    """
    destroys = any(True for _ in entry.running(_destroying_calls))
    imported = _imported(entry, started)
    if imported is not None:
        main, place, guard = imported
        lines, dist, steps = _beginning(main)
        yield from steps
        yield inserted(main, place[0], lines_at(main, place[0], place[1], lines), _BEGIN, NPU)
        if destroys:
            return
        own = spelling(entry.file, "torch.distributed")
        yield from ((entry.file, edit) for edit in own.edits)
        yield from _end(entry.file, guard, code("{dist}.destroy_process_group()", dist=own.name), _END)
        return
    file = entry.file
    begin, dist, steps = _beginning(file)
    yield from steps
    end = code("{dist}.destroy_process_group", dist=dist)
    command = _command(entry)
    if command is None:
        yield from at_start_and_end(entry, begin, _BEGIN, None if destroys else code("{end}()", end=end), _END)
        return
    lines = begin
    if not destroys:
        at_exit = spelling(file, "atexit")
        yield from ((file, edit) for edit in at_exit.edits)
        lines = [*begin, code("{atexit}.register({end})", atexit=at_exit.name, end=end)]
    head = code("if not {group}:", group=in_group(dist))
    yield from _in_function(entry, command, under(file, head, *lines), _BEGIN)


def _destroying_calls(file: ParsedFile) -> list[ast.Call]:
    calls = file.nodes(ast.Call) if _DESTROY in file.text else ()
    return [call for call in calls if file.qualified(call.func) == f"torch.distributed.{_DESTROY}"]


def _beginning(file: ParsedFile) -> tuple[list[NewText], str, list[Step]]:
    """The lines that make the group in a file, its name for torch.distributed, and the imports that they need."""
    os, torch, dist = (spelling(file, module) for module in ("os", "torch", "torch.distributed"))
    words = ("RANK", "LOCAL_RANK", "hccl", "127.0.0.1", "0", "1")
    rank, local_rank, hccl, address, zero, one = (quoted(file, word) for word in words)
    head = "if {rank} not in {os}.environ:  # started without a launcher: one process on one card"
    single_process = (
        "{os}.environ.update("
        "RANK={zero}, LOCAL_RANK={zero}, WORLD_SIZE={one}, MASTER_ADDR={address}, MASTER_PORT={zero})"
    )
    update = code(single_process, os=os.name, zero=zero, one=one, address=address)
    begin = [
        *under(file, code(head, rank=rank, os=os.name), update),
        code("{torch}.npu.set_device(int({os}.environ[{rank}]))", torch=torch.name, os=os.name, rank=local_rank),
        code("{dist}.init_process_group({hccl})", dist=dist.name, hccl=hccl),
    ]
    steps: list[Step] = [(file, edit) for found in (os, torch, dist) for edit in found.edits]
    return begin, dist.name, steps


def _imported(entry: Entry, started: Collection[Entry]) -> tuple[ParsedFile, tuple[int, str], ast.If] | None:
    """The file of the function that a main guard calls alone, which only programs take from there whose guards do the
    same, with the place in it below the options that it reads; and the guard."""
    called, guard = _called(entry), _guard(entry.file)
    if called is None or guard is None:
        return None
    file, function = called
    names = [node for node in walk(file.tree) if isinstance(node, ast.Name) and node.id == function.name]
    is_own = function in file.tree.body and not names and not function.decorator_list
    if not is_own or not isinstance(function, ast.FunctionDef):
        return None
    others = {other.file.path for other in started if file.path in other.files and _called(other) == called}
    if is_taken(entry.program.project, file.path, function.name, others):
        return None
    lines, _, _ = _beginning(file)
    if _would_shadow(file, function, lines):
        return None
    place = _below_options(replace(entry, file=file), function.body, lines)
    return (file, place, guard) if place is not None else None


def _would_shadow(file: ParsedFile, function: ast.FunctionDef, lines: Sequence[NewText]) -> bool:
    """Return whether a function binds a word of lines that would be put into it."""
    words = {word for line in lines for word in re.findall(r"\w+", line.partition("#")[0])}
    return not words.isdisjoint(file.scopes[function].bindings)


def _called(entry: Entry) -> tuple[ParsedFile, Definition] | None:
    """The function of another file that the main guard of a program calls and does nothing else, with the file."""
    guard = _guard(entry.file)
    if guard is None or len(guard.body) != 1 or not isinstance(guard.body[0], (ast.Expr, ast.Assign)):
        return None
    calls = [each for each in calls_in(*guard.body) if not _is_plain(entry, entry.file, each)]
    found = _definitions(entry, calls[0]) if len(calls) == 1 else []
    is_other = len(found) == 1 and found[0][0] is not entry.file and begins_line(entry.file, guard.body[0])
    return found[0] if is_other else None


def at_start_and_end(
    entry: Entry, begin: Sequence[NewText], begin_message: str, end: NewText | None = None, end_message: str = ""
) -> Iterator[Step]:
    """Lines at the first point of a program that runs, before anything needs the card, and one at its end.

    What a module of a package only calls may be started by an installed command as well, which reads no guard: the
    first lines are in that function then.
    """
    file, guard, command = entry.file, _guard(entry.file), _command(entry)
    if guard is None:
        yield from _at_top_level(entry, begin, begin_message)
    elif command is None:
        yield from _in_guard(entry, guard, begin, begin_message)
    else:
        yield from _in_function(entry, command, begin, begin_message)
    if end and guard is not None:
        yield from _end(file, guard, end, end_message)
    elif end:
        length = len(file.text)
        yield inserted(file, length, lines_at(file, length, "", [plain(""), end]), end_message)


def _guard(file: ParsedFile) -> ast.If | None:
    """The main guard of a file, if nothing outside of it and of functions needs the card."""
    guard = main_guard(file)
    others = (statement for statement in file.tree.body if statement is not guard)
    return None if any(_needs_card(statement) for statement in others) else guard


def _command(entry: Entry) -> ast.FunctionDef | None:
    """The function that the guard of a package's module calls alone, with nothing: `main()`, `sys.exit(main())`. Other
    code of the program does not name it."""
    guard = _guard(entry.file)
    if guard is None or len(guard.body) != 1 or posixpath.dirname(entry.file.path) not in entry.program.packages:
        return None
    last = guard.body[-1]
    exit_call = _exit_call(last)
    call = last.value if isinstance(last, ast.Expr) else None
    if exit_call is not None:
        call = argument_value(arguments(exit_call)[0]) if arguments(exit_call) else None
    return _own_function(entry, call) if isinstance(call, ast.Call) and not arguments(call) else None


def _first(function: ast.FunctionDef) -> ast.stmt:
    """The first statement of a function below its docstring."""
    is_documented = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    return function.body[is_documented]


def _in_function(entry: Entry, function: ast.FunctionDef, begin: Sequence[NewText], message: str) -> Iterator[Step]:
    file, start = entry.file, start_of(entry.file, _first(function))
    offset, indent = _below_options(entry, function.body, begin) or (
        line_start(file, start),
        indentation(file.text, start),
    )
    yield inserted(file, offset, lines_at(file, offset, indent, begin), message, NPU)


def _at_top_level(entry: Entry, begin: Sequence[NewText], message: str) -> Iterator[Step]:
    """Below the imports and the options of the program, but above what uses the card."""
    file = entry.file
    last: ast.stmt | None = None
    below_last = file.tree.body
    for at, statement in enumerate(file.tree.body):
        if _needs_card(statement):
            break
        if _is_import(statement):
            last, below_last = statement, file.tree.body[at + 1 :]
    imports_end = first_code(file) if last is None else line_below(file, last)
    offset, indent = _below_options(entry, below_last, begin) or (imports_end, "")
    follows = file.text[offset : offset + 1]
    below = [plain("")] if follows and follows not in "\r\n" else []
    lines = begin if indent else [plain(""), *begin, *below]
    yield inserted(file, offset, lines_at(file, offset, indent, lines), message, NPU)


def _in_guard(entry: Entry, guard: ast.If, begin: Sequence[NewText], message: str) -> Iterator[Step]:
    file, first = entry.file, guard.body[0]
    if begins_line(file, first):
        top = next_line(file, file.bounds(guard.test)[1]), _indent(file, guard)
        start, indent = _below_options(entry, guard.body, begin) or top
        yield inserted(file, start, lines_at(file, start, indent, begin), message, NPU)
    else:  # if __name__ == '__main__': main() becomes lines, of which the last ends the group
        start, indent = file.bounds(first)[0], _indent(file, guard)
        yield inserted(file, start, lines_above(file, start, [plain(""), *begin], indent), message, NPU)


def _indent(file: ParsedFile, guard: ast.If) -> str:
    first = guard.body[0]
    return indentation(file.text, file.bounds(first)[0]) if begins_line(file, first) else indent_step(file)


def _end(file: ParsedFile, guard: ast.If, end: NewText, message: str) -> Iterator[Step]:
    """Below the last statement; where that is `sys.exit(main())`, between the two calls."""
    last, indent = guard.body[-1], _indent(file, guard)
    exit_call = _exit_call(last)
    if exit_call is None:
        stop = line_below(file, last)
        yield inserted(file, stop, lines_at(file, stop, indent, [end]), message)
        return
    given = arguments(exit_call)
    status = argument_value(given[0]) if given else None
    at = file.bounds(exit_call)[0]
    if not isinstance(status, (ast.Call, ast.Await)):
        yield inserted(file, at, lines_above(file, at, [end], indent), message)
        return
    start, stop = file.bounds(exit_call)
    inner, behind = file.bounds(status)
    lines = lines_above(file, at, [code("status = {status}", status=(inner, behind)), end], indent)
    yield replaced(file, exit_call, followed(lines, (start, inner), plain("status"), (behind, stop)), message)


def _exit_call(last: ast.stmt) -> ast.Call | None:
    """`sys.exit(...)`, if that is all of a statement."""
    call = last.value if isinstance(last, ast.Expr) else None
    if isinstance(call, ast.Call) and last_name(call.func) == "exit" and len(arguments(call)) <= 1:
        return call
    return None


def _is_import(statement: ast.stmt) -> bool:
    """Return whether a statement imports: also `try: import x`, and an import under a condition."""
    if isinstance(statement, (ast.Try, ast.If)):
        return any(_is_import(part) for part in statement.body)
    return isinstance(statement, IMPORTS)


def _below_options(
    entry: Entry, block: Sequence[ast.stmt], begin: Sequence[NewText], inside: Sequence[ast.AST] = ()
) -> tuple[int, str] | None:
    """The offset and indentation of the first line below the statement that reads the command line, so that `--help`
    needs no group: in a block, or in a function of the file that only the block calls. None if something that may need
    the group is above it, or the lines `begin` would have another meaning there."""
    file = entry.file
    for statement in block:
        if isinstance(statement, DEFINITIONS):
            continue
        nodes = list(shallow_nodes([statement]))
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        others = [call for call in calls if not _is_plain(entry, file, call)]
        if any(isinstance(node, ast.Return) for node in nodes):
            return None
        if others and isinstance(statement, TRIES):
            return _below_options(entry, statement.body, begin, inside)
        parses = any(_parses(entry, call) for call in calls if call not in others)
        if others:
            function = _own_function(entry, others[0]) if len(others) == 1 else None
            if function is None or function in inside or not isinstance(statement, (ast.Assign, ast.Expr)):
                return None
            if any(isinstance(node, COMPREHENSIONS) for node in nodes):
                return None
            if _would_shadow(file, function, begin):
                return None
            if parses or (function.decorator_list and parameters(function) and not arguments(others[0])):
                start = start_of(file, _first(function))  # `main(parse_args())`, or click reads the options
                return line_start(file, start), indentation(file.text, start)
            return _below_options(entry, function.body, begin, (*inside, function))
        if parses:
            is_line = begins_line(file, same_line(file, statement)[0])
            return (line_below(file, statement), file.indentation(file.bounds(statement)[0])) if is_line else None
    return None


def _own_function(entry: Entry, call: ast.Call) -> ast.FunctionDef | None:
    """The function of the file that a call calls, if no other code of the project names it."""
    file, name = entry.file, call.func.id if isinstance(call.func, ast.Name) else ""
    found = [each for each in file.tree.body if isinstance(each, DEFINITIONS) and each.name == name]
    uses = [node for node in walk(file.tree) if isinstance(node, ast.Name) and node.id == name]
    function = found[0] if len(found) == 1 and len(uses) == 1 else None
    if not isinstance(function, ast.FunctionDef) or is_taken(entry.program.project, file.path, name):
        return None
    return function if begins_line(file, _first(function)) else None


def _definitions(entry: Entry, call: ast.Call) -> list[tuple[ParsedFile, Definition]]:
    """The functions of the program that a call may call, and the classes, by their names."""
    name = last_name(call.func)
    return [(file, each) for file in entry.files.values() for each in file.definitions if each.name == name]


def _run(definition: Definition) -> list[ast.stmt]:
    """The statements that a call of a function or class runs."""
    if not isinstance(definition, ast.ClassDef):
        return definition.body
    made = [each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    return made[-1].body if made else []


def _is_plain(entry: Entry, file: ParsedFile, call: ast.Call, inside: Sequence[ast.AST] = ()) -> bool:
    """Return whether a call needs neither the card nor the group: of a method of options, text, lists or dictionaries,
    of what comes with Python, or of what is in the program and calls only such."""
    found = _definitions(entry, call)
    if found:
        return all(
            each in inside or all(_is_plain(entry, other, inner, (*inside, each)) for inner in calls_in(*_run(each)))
            for other, each in found
        )
    qualified = file.qualified(call.func)
    if qualified is not None:
        return qualified in _PLAIN or qualified.partition(".")[0] in _PLAIN_PACKAGES
    name = last_name(call.func)
    return name in _METHODS or (isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id))


def _parses(entry: Entry, call: ast.Call, inside: Sequence[ast.AST] = ()) -> bool:
    """Return whether a call reads the command line, by itself or in a function of the program."""
    found = [each for _, each in _definitions(entry, call) if each not in inside]
    if not found:
        return isinstance(call.func, ast.Attribute) and call.func.attr in _PARSES
    return any(_parses(entry, inner, (*inside, each)) for each in found for inner in calls_in(*_run(each)))


def _needs_card(statement: ast.stmt) -> bool:
    """Return whether code outside of functions calls something that needs the card."""
    if isinstance(statement, DEFINITIONS):
        return False
    calls = (node for node in shallow_nodes([statement]) if isinstance(node, ast.Call))
    return any(last_name(call.func) in _NEEDS_CARD for call in calls)
