"""The process group of a program: made where it starts, ended where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gpu2npu.codemods.entry import Entry, main_guard
from gpu2npu.codemods.imports import first_code, spelling
from gpu2npu.codemods.places import Step, inserted, replaced
from gpu2npu.codemods.program import ParsedFile
from gpu2npu.engine.tree import children, last_name

_BEGIN = "One process for each card, and a group of them."
_END = "The process group ends with the program."
# Calls that need the card of the process, or the group.
_NEEDS_CARD = frozenset({"cuda", "to", "DataLoader", "DataParallel", "device_count", "set_device"})


def set_up(entry: Entry) -> Iterator[Step]:
    """Make the process group at the first point of the program that runs, and destroy it at the end.

    Without a launcher the program is one process on one card; port 0 lets the system choose one that is free.
    """
    file = entry.file
    os, torch, dist = (spelling(file, module) for module in ("os", "torch", "torch.distributed"))
    yield from ((file, edit) for found in (os, torch, dist) for edit in found.edits)
    begin = [
        f"if 'RANK' not in {os.name}.environ:  # started without a launcher: one process on one card",
        f"{file.module.default_indent}{os.name}.environ.update("
        "RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')",
        f"{torch.name}.cuda.set_device(int({os.name}.environ['LOCAL_RANK']))",
        f"{dist.name}.init_process_group('nccl')",
    ]
    quote = '"' if file.text.count('"') > file.text.count("'") else "'"
    begin = [line.replace("'", quote) for line in begin]
    end = f"{dist.name}.destroy_process_group()"
    yield from around_program(file, begin, _BEGIN, end, _END)


def around_program(
    file: ParsedFile, begin: Sequence[str], begin_message: str, end: str = "", end_message: str = ""
) -> Iterator[Step]:
    """Lines at the first point of a program that runs, before anything needs the card, and one at its end."""
    guard = main_guard(file)
    if guard is None or any(_needs_card(statement) for statement in file.module.body if statement is not guard):
        yield from _at_top_level(file, begin, begin_message)
        if end:
            length = len(file.text)
            yield inserted(file, length, _lines(file, ["", end], "", length), end_message)
        return
    yield from _in_guard(file, guard, begin, begin_message)
    if end:
        yield from _end(file, guard, end, end_message)


def _at_top_level(file: ParsedFile, begin: Sequence[str], message: str) -> Iterator[Step]:
    """Below the imports, but above what uses the card."""
    last = None
    for statement in file.module.body:
        if _needs_card(statement):
            break
        if _is_import(statement):
            last = statement
    offset = first_code(file) if last is None else file.positions.of(last)[1]
    follows = file.text[offset : offset + 1]
    below = [""] if follows and follows not in "\r\n" else []
    yield inserted(file, offset, _lines(file, ["", *begin, *below], "", offset), message)


def _in_guard(file: ParsedFile, guard: cst.If, begin: Sequence[str], message: str) -> Iterator[Step]:
    body, indent = guard.body, _indent(file, guard)
    if isinstance(body, cst.IndentedBlock):
        _, header = file.positions.of(guard.test)
        start = next(line for line in file.positions.line_starts if line > header)
        yield inserted(file, start, _lines(file, begin, indent, start), message)
    else:  # if __name__ == '__main__': main()
        start, _ = file.positions.of(body)
        text = file.module.default_newline + _lines(file, begin, indent, start) + indent
        yield inserted(file, start, text, message)


def _indent(file: ParsedFile, guard: cst.If) -> str:
    own = guard.body.indent if isinstance(guard.body, cst.IndentedBlock) else None
    return own or file.module.default_indent


def _end(file: ParsedFile, guard: cst.If, end: str, message: str) -> Iterator[Step]:
    """Below the last statement; where that is `sys.exit(main())`, between the two calls."""
    last, indent = guard.body.body[-1], _indent(file, guard)
    exit_call = _exit_call(last)
    if exit_call is None:
        block = isinstance(guard.body, cst.IndentedBlock)
        stop = file.positions.of(last if block else guard.body)[1]
        yield inserted(file, stop, _lines(file, [end], indent, stop), message)
        return
    newline = file.module.default_newline
    status = exit_call.args[0].value if exit_call.args else None
    if not isinstance(status, (cst.Call, cst.Await)):
        yield inserted(file, file.positions.of(exit_call)[0], f"{end}{newline}{indent}", message)
        return
    before = f"status = {file.code(status)}{newline}{indent}{end}{newline}{indent}"
    start, length = file.positions.of(exit_call)[0], len(file.code(exit_call))
    inside = file.positions.of(status)[0] - start, file.positions.of(status)[1] - start
    call = file.text[start : start + length]
    yield replaced(file, exit_call, f"{before}{call[: inside[0]]}status{call[inside[1] :]}", message)


def _exit_call(last: cst.CSTNode) -> cst.Call | None:
    """`sys.exit(...)`, if that is all of a statement."""
    if isinstance(last, cst.SimpleStatementLine) and len(last.body) == 1:
        last = last.body[0]
    call = last.value if isinstance(last, cst.Expr) else None
    if isinstance(call, cst.Call) and last_name(call.func) == "exit" and len(call.args) <= 1:
        return call
    return None


def _lines(file: ParsedFile, lines: Sequence[str], indent: str, offset: int) -> str:
    """Lines of code to insert at an offset that starts a line, or ends a text that lacks its last line end."""
    newline = file.module.default_newline
    missing = newline if offset == len(file.text) and not file.text.endswith(("\n", "\r")) else ""
    return missing + "".join(f"{indent}{line}{newline}" if line else newline for line in lines)


def _is_import(statement: cst.CSTNode) -> bool:
    """Whether a statement imports: also `try: import x`, and an import under a condition."""
    if isinstance(statement, cst.SimpleStatementLine):
        return any(isinstance(part, (cst.Import, cst.ImportFrom)) for part in statement.body)
    if not isinstance(statement, (cst.Try, cst.If)) or not isinstance(statement.body, cst.IndentedBlock):
        return False
    return any(_is_import(part) for part in statement.body.body)


def _needs_card(statement: cst.CSTNode) -> bool:
    """Whether code outside of functions calls something that needs the card."""
    pending = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            continue
        if isinstance(node, cst.Call) and last_name(node.func) in _NEEDS_CARD:
            return True
        pending += children(node)
    return False
