"""Functions that run in processes which a program starts itself, each with a card that the program gives it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.codemods.program import ParsedFile
from gpu2npu.python.tree.syntax import Function, argument_value, arguments, last_name

# Calls that are given a function to run in another process: of multiprocessing, torch.multiprocessing, and executors.
_STARTS = frozenset({"Pool", "Process", "ProcessPoolExecutor", "spawn", "start_processes"})


def functions_of_own_processes(file: ParsedFile) -> frozenset[Function]:
    """The functions of a file that only such processes run: those that they are started with, and what these alone
    name."""
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
    return bool(places) and all(any(above in functions for above in _functions_above(file, node)) for node in places)


def _functions_above(file: ParsedFile, node: ast.AST) -> Iterator[ast.AST]:
    return (above for above in file.above(node) if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef))
