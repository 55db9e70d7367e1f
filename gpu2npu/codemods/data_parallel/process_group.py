"""The process group of a program: made where it starts, ended where it ends."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Sequence

from gpu2npu.codemods.data_parallel.without_group import in_group
from gpu2npu.codemods.entry import Entry, main_guard
from gpu2npu.codemods.places import NPU, Step, inserted, replaced
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.codemods.spellings import first_code, spelling
from gpu2npu.python.project.imports import is_taken
from gpu2npu.python.text.blocks import begins_line, indent_step, line_below, line_start, next_line, start_of
from gpu2npu.python.text.offsets import indentation, newline_of
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.syntax import DEFINITIONS, IMPORTS, argument_value, arguments, last_name, own_nodes

_BEGIN = "One process for each card, and a group of them."
_END = "The process group ends with the program."
# What a program calls to state its options, and to read them.
_PARSES = frozenset({"parse_args", "parse_known_args"})
_OF_OPTIONS = _PARSES | {
    "ArgumentParser",
    "add_argument",
    "add_argument_group",
    "add_mutually_exclusive_group",
    "set_defaults",
}
# Calls that need the card of the process, or the group.
_NEEDS_CARD = frozenset({"cuda", "to", "DataLoader", "DataParallel", "device_count", "set_device"})


def set_up(entry: Entry) -> Iterator[Step]:
    """Make the process group at the first point of the program that runs, and destroy it at the end.

    Without a launcher the program is one process on one card; port 0 lets the system choose one that is free. What a
    command may start is a function that can be called again, and left anywhere: the first call makes the group, if its
    caller has not, and it ends with the process.
    """
    file = entry.file
    os, torch, dist = (spelling(file, module) for module in ("os", "torch", "torch.distributed"))
    yield from ((file, edit) for found in (os, torch, dist) for edit in found.edits)
    begin = [
        f"if 'RANK' not in {os.name}.environ:  # started without a launcher: one process on one card",
        f"{indent_step(file)}{os.name}.environ.update("
        "RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')",
        f"{torch.name}.npu.set_device(int({os.name}.environ['LOCAL_RANK']))",
        f"{dist.name}.init_process_group('hccl')",
    ]
    quote = '"' if file.text.count('"') > file.text.count("'") else "'"
    begin = [line.replace("'", quote) for line in begin]
    end = f"{dist.name}.destroy_process_group"
    command = _command(entry)
    if command is None:
        yield from at_start_and_end(entry, begin, _BEGIN, f"{end}()", _END)
        return
    at_exit = spelling(file, "atexit")
    yield from ((file, edit) for edit in at_exit.edits)
    lines = [f"{indent_step(file)}{line}" for line in (*begin, f"{at_exit.name}.register({end})")]
    yield from _in_function(file, command, [f"if not {in_group(dist.name)}:", *lines], _BEGIN)


def at_start_and_end(
    entry: Entry, begin: Sequence[str], begin_message: str, end: str = "", end_message: str = ""
) -> Iterator[Step]:
    """Lines at the first point of a program that runs, before anything needs the card, and one at its end.

    What a module of a package only calls may be started by an installed command as well, which reads no guard: the
    first lines are in that function then.
    """
    file, guard, command = entry.file, _guard(entry.file), _command(entry)
    if guard is None:
        yield from _at_top_level(file, begin, begin_message)
    elif command is None:
        yield from _in_guard(file, guard, begin, begin_message)
    else:
        yield from _in_function(file, command, begin, begin_message)
    if end and guard is not None:
        yield from _end(file, guard, end, end_message)
    elif end:
        length = len(file.text)
        yield inserted(file, length, _lines(file, ["", end], "", length), end_message)


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
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or arguments(call):
        return None
    name = call.func.id
    found = [each for each in entry.file.tree.body if isinstance(each, DEFINITIONS) and each.name == name]
    uses = [node for node in walk(entry.file.tree) if isinstance(node, ast.Name) and node.id == name]
    function = found[0] if len(found) == 1 and len(uses) == 1 else None
    if not isinstance(function, ast.FunctionDef) or is_taken(entry.program.project, entry.file.path, name):
        return None
    return function if begins_line(entry.file, _first(function)) else None


def _first(function: ast.FunctionDef) -> ast.stmt:
    """The first statement of a function below its docstring."""
    is_documented = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    return function.body[is_documented]


def _in_function(file: ParsedFile, function: ast.FunctionDef, begin: Sequence[str], message: str) -> Iterator[Step]:
    start = start_of(file, _first(function))
    indent = indentation(file.text, start)
    start = line_start(file, start)
    yield inserted(file, start, _lines(file, begin, indent, start), message, NPU)


def _at_top_level(file: ParsedFile, begin: Sequence[str], message: str) -> Iterator[Step]:
    """Below the imports and the options of the program, but above what uses the card."""
    last: ast.stmt | None = None
    below_last = file.tree.body
    for at, statement in enumerate(file.tree.body):
        if _needs_card(statement):
            break
        if _is_import(statement):
            last, below_last = statement, file.tree.body[at + 1 :]
    last = _parses_options(below_last) or last
    offset = first_code(file) if last is None else line_below(file, last)
    follows = file.text[offset : offset + 1]
    below = [""] if follows and follows not in "\r\n" else []
    yield inserted(file, offset, _lines(file, ["", *begin, *below], "", offset), message, NPU)


def _in_guard(file: ParsedFile, guard: ast.If, begin: Sequence[str], message: str) -> Iterator[Step]:
    first, indent = guard.body[0], _indent(file, guard)
    parses = _parses_options(guard.body)
    if parses is not None and begins_line(file, first):
        start = line_below(file, parses)
        yield inserted(file, start, _lines(file, begin, indent, start), message, NPU)
    elif begins_line(file, first):
        start = next_line(file, file.bounds(guard.test)[1])
        yield inserted(file, start, _lines(file, begin, indent, start), message, NPU)
    else:  # if __name__ == '__main__': main()
        start, _ = file.bounds(first)
        text = newline_of(file.text) + _lines(file, begin, indent, start) + indent
        yield inserted(file, start, text, message, NPU)


def _indent(file: ParsedFile, guard: ast.If) -> str:
    first = guard.body[0]
    return indentation(file.text, file.bounds(first)[0]) if begins_line(file, first) else indent_step(file)


def _end(file: ParsedFile, guard: ast.If, end: str, message: str) -> Iterator[Step]:
    """Below the last statement; where that is `sys.exit(main())`, between the two calls."""
    last, indent = guard.body[-1], _indent(file, guard)
    exit_call = _exit_call(last)
    if exit_call is None:
        stop = line_below(file, last)
        yield inserted(file, stop, _lines(file, [end], indent, stop), message)
        return
    newline = newline_of(file.text)
    given = arguments(exit_call)
    status = argument_value(given[0]) if given else None
    if not isinstance(status, (ast.Call, ast.Await)):
        yield inserted(file, file.bounds(exit_call)[0], f"{end}{newline}{indent}", message)
        return
    start, stop = file.bounds(exit_call)
    inner, behind = file.bounds(status)
    before = f"{newline}{indent}{end}{newline}{indent}"
    text = ("status = ", (inner, behind), before, (start, inner), "status", (behind, stop))
    yield replaced(file, exit_call, text, message)


def _exit_call(last: ast.stmt) -> ast.Call | None:
    """`sys.exit(...)`, if that is all of a statement."""
    call = last.value if isinstance(last, ast.Expr) else None
    if isinstance(call, ast.Call) and last_name(call.func) == "exit" and len(arguments(call)) <= 1:
        return call
    return None


def _lines(file: ParsedFile, lines: Sequence[str], indent: str, offset: int) -> str:
    """Lines of code to insert at an offset that starts a line, or ends a text that lacks its last line end."""
    newline = newline_of(file.text)
    missing = newline if offset == len(file.text) and not file.text.endswith(("\n", "\r")) else ""
    return missing + "".join(f"{indent}{line}{newline}" if line else newline for line in lines)


def _is_import(statement: ast.stmt) -> bool:
    """Return whether a statement imports: also `try: import x`, and an import under a condition."""
    if isinstance(statement, (ast.Try, ast.If)):
        return any(_is_import(part) for part in statement.body)
    return isinstance(statement, IMPORTS)


def _parses_options(statements: Sequence[ast.stmt]) -> ast.stmt | None:
    """The statement that parses the command line, if nothing but its options is above it: `--help` ends there."""
    for statement in statements:
        if isinstance(statement, DEFINITIONS):
            continue
        calls = [node.func for node in own_nodes([statement]) if isinstance(node, ast.Call)]
        is_plain = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr))
        if not is_plain or not {last_name(function) for function in calls} <= _OF_OPTIONS:
            return None
        if any(isinstance(function, ast.Attribute) and function.attr in _PARSES for function in calls):
            return statement
    return None


def _needs_card(statement: ast.stmt) -> bool:
    """Return whether code outside of functions calls something that needs the card."""
    if isinstance(statement, DEFINITIONS):
        return False
    return any(isinstance(node, ast.Call) and last_name(node.func) in _NEEDS_CARD for node in own_nodes([statement]))
