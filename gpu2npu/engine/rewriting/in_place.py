"""Replacements that keep a call as it is laid out: only its function's name, its keywords and strings in its arguments
are written anew."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from gpu2npu.engine.code_matching import Matched
from gpu2npu.engine.rewriting.code_imports import respelled
from gpu2npu.engine.strings.texts import StringText
from gpu2npu.python.text.concrete import argument_bounds
from gpu2npu.python.text.templates import Piece, followed, plain
from gpu2npu.python.text.templates import code as new_code
from gpu2npu.python.text.tokens import keyword_name, name_bounds
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import argument_keyword, argument_value, arguments, string_value
from gpu2npu.records import Bounds, Text
from gpu2npu.rulebook.code_pattern import CodePattern, is_rest, metavariable, qualified_name

Argument = ast.expr | ast.keyword
Cut = tuple[Bounds, Text]


def in_place(
    file: PythonFile, pattern: CodePattern, new: CodePattern, matched: Matched, spelled: Mapping[str, str]
) -> Text | None:
    """The new code of a call whose arguments stay in their order, as pieces of what is there; None where they do not.

    `spelled` has the qualified names of the replacement as they are written here.
    """
    node, old, tree = matched.node, pattern.tree, new.tree
    if not (isinstance(node, ast.Call) and isinstance(old, ast.Call) and isinstance(tree, ast.Call)):
        return None
    callee = _callee(file, old.func, tree.func, node.func, spelled)
    bounds = argument_bounds(file, node)
    wanted = arguments(tree)
    further = _further(new, wanted, len(matched.arguments), spelled)
    own = wanted[: len(wanted) - len(further)]
    given = _arguments(file, matched.arguments, own, bounds or [], keeps_keywords=callee == [])
    if callee is None or given is None or bounds is None:
        return None
    if further and not bounds:
        return None
    start, end = file.bounds(node)
    code: list[Text | Bounds] = []
    added: list[Cut] = [((bounds[-1][1], bounds[-1][1]), new_code(", {each}", each=each)) for each in further]
    for (first, last), text in sorted([*callee, *given, *added]):
        code += [(start, first)] if start < first else []
        code += [text] if text else []
        start = last
    return followed(plain(""), *code, (start, end))


def shifts(matched: Matched, new: CodePattern) -> bool:
    """Return whether further arguments by position, or unpacked ones, would come behind a new keyword or be for other
    parameters, since an argument before them gets a keyword."""
    behind = [each for each in matched.rest if not isinstance(each, ast.keyword)]
    if not isinstance(new.tree, ast.Call) or not new.has_rest or not behind:
        return False
    at = next((each.col_offset for each in new.tree.args if is_rest(each)), 0)
    if not all(isinstance(each, ast.Starred) for each in behind):
        return any(each.col_offset < at for each in new.tree.keywords)
    named = {ast.dump(each.value) for each in new.tree.keywords}
    pairs = ((given, argument_value(wanted)) for given, wanted in matched.arguments if wanted is not None)
    return any(not isinstance(given, ast.keyword) and ast.dump(wanted) in named for given, wanted in pairs)


def _further(new: CodePattern, wanted: Sequence[Argument], given: int, spelled: Mapping[str, str]) -> list[str]:
    """The code of the keyword arguments at the end of a replacement in which nothing is matched code."""
    found: list[str] = []
    for argument in reversed(wanted if given else ()):
        code = ast.get_source_segment(new.source, argument) or ""
        if argument_keyword(argument) is None or any(metavariable(each) for each in ast.walk(argument)):
            break
        found.insert(0, respelled(Piece(code), spelled).text or code)
    return found


def _callee(
    file: PythonFile, old: ast.expr, new: ast.expr, node: ast.expr, spelled: Mapping[str, str]
) -> list[Cut] | None:
    """The cuts for the function that is called."""
    if ast.dump(old) == ast.dump(new):
        return []
    name = qualified_name(new)
    if name is not None and qualified_name(old) is not None:
        return [(file.bounds(node), plain(spelled.get(name, name)))]
    if isinstance(old, ast.Attribute) and isinstance(new, ast.Attribute) and ast.dump(old.value) == ast.dump(new.value):
        return [(name_bounds(file, node), plain(new.attr))]
    return None


def _arguments(
    file: PythonFile,
    given: Sequence[tuple[Argument, Argument | None]],
    wanted: Sequence[Argument],
    bounds: Sequence[Bounds],
    keeps_keywords: bool,
) -> list[Cut] | None:
    """The cuts for the arguments: of a replacement that has them all, in the order in which they are given. A keyword
    that is for a position stays where the function stays."""
    cuts: list[Cut] = []
    at = 0
    for argument in wanted:
        if is_rest(argument):
            while at < len(given) and given[at][1] is None:
                at += 1
            continue
        old = given[at][1] if at < len(given) else None
        strings = None if old is None else _strings(file, *map(argument_value, (given[at][0], old, argument)))
        if old is None or strings is None:
            return None
        keyword = argument_keyword(argument)
        if not keeps_keywords or keyword != argument_keyword(old):
            cuts += _keyword(file, given[at][0], keyword, bounds[at])
        cuts += strings
        at += 1
    return cuts if at == len(given) else None


def _strings(file: PythonFile, given: ast.expr, old: ast.expr, new: ast.expr) -> list[Cut] | None:
    """The cuts for the strings that are others in the new value of an argument; None where more than strings is."""
    is_whole = metavariable(old) is not None or isinstance(old, ast.Constant)
    if is_whole and ast.dump(old) == ast.dump(new):
        return []
    if isinstance(new, ast.Constant) and isinstance(new.value, str):
        text = StringText.of(file, given)
        return [(text.place, text.quoted(new.value))] if text is not None and text.can_be(new.value) else None
    dicts = [each for each in (given, old, new) if isinstance(each, ast.Dict)]
    if len(dicts) < 3 or len({len(each.keys) for each in dicts}) > 1 or _keys(given) != _keys(old):
        return None
    parts = zip(*([*each.keys, *each.values] for each in dicts), strict=True)
    found = [_strings(file, *each) for each in parts if None not in each]
    return None if None in found else [cut for each in found for cut in each or ()]


def _keys(node: ast.expr) -> list[str | None]:
    return [string_value(each) for each in node.keys] if isinstance(node, ast.Dict) else []


def _keyword(file: PythonFile, given: Argument, wanted: str | None, bounds: Bounds) -> list[Cut]:
    """The cut that gives an argument another keyword, or one, or none."""
    if not isinstance(given, ast.keyword):
        return [((bounds[0], bounds[0]), new_code("{keyword}=", keyword=wanted))] if wanted is not None else []
    if wanted is None:
        return [((bounds[0], file.value_start(given)), plain(""))]
    return [(keyword_name(file, given), plain(wanted))] if given.arg != wanted else []
