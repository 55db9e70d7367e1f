"""The operators that a project's own C++ and CUDA sources export to Python, for which an NPU needs others.

Read from the sources, without compiling them: `m.def("name", ...)` in a PYBIND11_MODULE, `m.def("op(Tensor x) -> ...")`
in a TORCH_LIBRARY or TORCH_LIBRARY_FRAGMENT, `m.impl("op", ...)` in a TORCH_LIBRARY_IMPL for CUDA, what is given to
torch::RegisterOperators, and the functions of a `load_inline`.

An extension that compiles CUDA code but whose exports cannot be seen, for instance because a macro of
the project's own makes them, is listed by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpu2npu.analysis.cuda_cpp.extensions import Extension
from gpu2npu.analysis.cuda_cpp.native_files import may_export

_TRIGGERS = (b"PYBIND11_MODULE", b"TORCH_LIBRARY", b"RegisterOperators")
_PYBIND = "PYBIND11_MODULE"
# The EXPAND spellings are a convention of projects that pass a macro as the name.
_LIBRARIES = frozenset(
    prefix + "TORCH_LIBRARY" + suffix
    for prefix in ("", "STABLE_")
    for suffix in ("", "_FRAGMENT", "_IMPL", "_EXPAND", "_FRAGMENT_EXPAND", "_IMPL_EXPAND")
)
_EXTENSION_NAME = "TORCH_EXTENSION_NAME"


def operator_lines(files: Mapping[str, bytes], built: list[Extension]) -> dict[tuple[str, str], int]:
    """The exporting file and the name of each operator, with the line that exports it first. `files` are the project's
    Python, C++ and CUDA files by path, `built` the extensions that it builds. Never raises for what is in the files."""
    found: dict[tuple[str, str], int] = {}
    for path in files:
        if may_export(path) and any(trigger in files[path] for trigger in _TRIGGERS):
            text = files[path].decode("utf-8", "replace")
            placed = list(_tokens(text))
            for api, index in _in_source([token for token, _ in placed], _extension_name(path, built)):
                found.setdefault((path, api), text.count("\n", 0, placed[index][1]) + 1)
    seen = {path for path, _ in found}
    for extension in built:
        place = extension.path, extension.line
        for name in extension.functions:
            found.setdefault((place[0], f"{extension.name}.{name}"), place[1])
        exports = bool(extension.functions) or any(extension.builds(path) for path in seen)
        if extension.cuda and not exports and not _only_extension(built, seen):
            found.setdefault((place[0], extension.name), place[1])
    return found


def _only_extension(built: list[Extension], seen: set[str]) -> bool:
    """Return whether a project has one extension, which all its exporting sources are compiled into, listed or not."""
    return len(built) == 1 and bool(seen)


def _in_source(sequence: list[Token], extension: str | None) -> Iterator[tuple[str, int]]:
    """Each exported name with the index of the token that exports it. `extension` is what TORCH_EXTENSION_NAME is."""
    for index, token in enumerate(sequence[:-1]):
        if token.kind != "name" or sequence[index + 1] != ("sign", "("):
            continue
        if token.text == "RegisterOperators":
            yield from _registered(sequence, index + 1)
        if token.text != _PYBIND and token.text not in _LIBRARIES:
            continue
        body = closing(sequence, index + 1) + 1
        if body >= len(sequence) or sequence[body] != ("sign", "{"):
            continue
        parameters = ["".join(part.text for part in argument) for argument in arguments(sequence, index + 1)]
        inside = sequence[body + 1 : closing(sequence, body)]
        if len(parameters) < 2:
            continue
        name = parameters[0] if parameters[0] != _EXTENSION_NAME else extension
        exported: Iterator[tuple[str, int]] = iter(())
        if token.text == _PYBIND:
            exported = _pybind_names(inside, name, parameters[1])
        elif "_IMPL" not in token.text:
            exported = _library_names(inside, name, parameters[1], "def")
        elif "CUDA" in parameters[1] and len(parameters) > 2:
            exported = _library_names(inside, name, parameters[2], "impl")
        for api, at in exported:
            yield api, body + 1 + at


def _registered(sequence: list[Token], opening: int) -> Iterator[tuple[str, int]]:
    """The older way: `torch::RegisterOperators("ns::one", &one)`, `torch::RegisterOperators().op("ns::two", &two)`."""
    calls = [opening, *(at for called, at in _chain(sequence, closing(sequence, opening) + 1) if called == "op")]
    for at in calls:
        schema = first_string(arguments(sequence, at)[0])
        if schema is not None:
            yield schema.partition("(")[0].strip(), at


def _extension_name(path: str, built: list[Extension]) -> str | None:
    """The name that TORCH_EXTENSION_NAME stands for in this source, None if that is not certain."""
    names = {extension.name for extension in built if extension.builds(path)} or {extension.name for extension in built}
    return names.pop() if len(names) == 1 else None


def _pybind_names(inside: list[Token], module: str | None, variable: str) -> Iterator[tuple[str, int]]:
    """The functions defined on the module and on its submodules, which are variables of the block too."""
    prefixes = {variable: f"{module}." if module else ""}
    for index in range(len(inside) - 2):
        owner, method = inside[index], _method(inside, index + 1)
        if owner.text not in prefixes or method is None:
            continue
        for called, opening in _chain(inside, index + 1):
            name = first_string(arguments(inside, opening)[0])
            if name is None:
                continue
            if called == "def":
                yield prefixes[owner.text] + name, opening
            elif called == "def_submodule":
                assigned = _assigned_variable(inside, index)
                if assigned is not None:
                    prefixes[assigned] = f"{prefixes[owner.text]}{name}."


def _library_names(inside: list[Token], namespace: str | None, variable: str, wanted: str) -> Iterator[tuple[str, int]]:
    for index in range(len(inside) - 2):
        if inside[index] != ("name", variable):
            continue
        for called, opening in _chain(inside, index + 1):
            schema = first_string(arguments(inside, opening)[0]) if called == wanted else None
            if schema is not None:
                name = schema.partition("(")[0].strip()
                yield (name if "::" in name or not namespace else f"{namespace}::{name}"), opening


def _method(inside: list[Token], dot: int) -> str | None:
    """The method called at `dot`, if `.method(` is there."""
    call = inside[dot : dot + 3]
    if len(call) == 3 and call[0].text in (".", "->") and call[1].kind == "name" and call[2] == ("sign", "("):
        return call[1].text
    return None


def _chain(inside: list[Token], dot: int) -> Iterator[tuple[str, int]]:
    """Each `.method(` of a chain of calls, with the index of its parenthesis."""
    while (method := _method(inside, dot)) is not None:
        yield method, dot + 2
        dot = closing(inside, dot + 2) + 1


def _assigned_variable(inside: list[Token], index: int) -> str | None:
    """x in `auto x = m.def_submodule(...)`, where `m` is at `index`."""
    if index >= 2 and inside[index - 1] == ("sign", "=") and inside[index - 2].kind == "name":
        return inside[index - 2].text
    return None


_TOKEN = re.compile(
    r"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\((?P<body>.*?)\)(?P=delimiter)" )
  | (?P<string> (?:u8|[uUL])?"(?P<text>(?:\\.|[^"\\\n])*)" )
  | (?P<character> (?:u8|[uUL])?'(?:\\.|[^'\\\n])+' )
  | (?P<number> \.?\d(?:'?[\w.])* )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<sign> :: | -> | [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(\r?\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}


class Token(NamedTuple):
    """`kind` is "name", "sign", "string" (whose text is its value) or "other"."""

    kind: str
    text: str


def _tokens(source: str) -> Iterator[tuple[Token, int]]:
    """Each token and where it begins."""
    for match in _TOKEN.finditer(source):
        if match["name"] is not None:
            yield Token("name", match["name"]), match.start()
        elif match["sign"] is not None:
            yield Token("sign", match["sign"]), match.start()
        elif match["raw"] is not None:
            yield Token("string", match["body"]), match.start()
        elif match["string"] is not None:
            yield Token("string", _ESCAPE.sub(_unescaped, match["text"])), match.start()
        elif match["comment"] is None:
            yield Token("other", match[0]), match.start()


def _unescaped(match: re.Match[str]) -> str:
    character = match[1]
    return "" if character.endswith("\n") else _ESCAPED.get(character, character)


def closing(sequence: list[Token], opening: int) -> int:
    """The index of the bracket that closes the one at `opening`, or the length if there is none."""
    left = sequence[opening].text
    right = _CLOSING[left]
    depth = 0
    for index in range(opening, len(sequence)):
        token = sequence[index]
        if token.kind == "sign":
            depth += (token.text == left) - (token.text == right)
            if depth == 0:
                return index
    return len(sequence)


def arguments(sequence: list[Token], opening: int) -> list[list[Token]]:
    """The arguments between the parenthesis at `opening` and its partner, split at the commas of that level."""
    end = closing(sequence, opening)
    found: list[list[Token]] = [[]]
    index = opening + 1
    while index < end:
        token = sequence[index]
        if token.kind == "sign" and token.text in _CLOSING:
            inner_end = closing(sequence, index)
            found[-1].extend(sequence[index : inner_end + 1])
            index = inner_end
        elif token == ("sign", ","):
            found.append([])
        else:
            found[-1].append(token)
        index += 1
    return found


def first_string(argument: list[Token]) -> str | None:
    """The first string literal of an argument, adjacent literals joined as the compiler joins them."""
    for index, token in enumerate(argument):
        if token.kind == "string":
            parts = []
            for following in argument[index:]:
                if following.kind != "string":
                    break
                parts.append(following.text)
            return "".join(parts)
    return None
