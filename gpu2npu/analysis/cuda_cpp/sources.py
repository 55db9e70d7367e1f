"""A project's own CUDA code: its kernels, their launches, the libraries they use, what builds them, the operators they
export to Python and the Python code that calls those.

None of it runs on an NPU as it is: what is exported has to be written for Ascend C, or replaced by what torch_npu has.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpu2npu.analysis.cuda_cpp.callers import callers
from gpu2npu.analysis.cuda_cpp.extensions import Extension, extensions
from gpu2npu.analysis.cuda_cpp.native_files import is_cmake, may_export
from gpu2npu.analysis.cuda_cpp.operators import operator_lines
from gpu2npu.engine.torch_library import torch_project
from gpu2npu.python.project.project import Project
from gpu2npu.records import NativeKind, NativePlace
from gpu2npu.report.check.result import NativeCode

_CUDA_SUFFIXES = (".cu", ".cuh")
# The end of a string that may name such a file. (".cuda(" is in most of the files there are.)
_MAY_LIST = re.compile(rb"\.cuh?['\"]")
# A file of each library, by its place in it.
_LIBRARY_MARKS = (
    "include/cutlass/cutlass.h",
    "cub/cub.cuh",
    "thrust/version.h",
    "include/ck/ck.hpp",
    "include/cuda/std/version",
)
_CMAKE = re.compile(
    r"\b(?:enable_language\s*\(\s*CUDA|find_package\s*\(\s*CUDA(?:Toolkit)?\b|cuda_add_(?:library|executable)\b"
    r"|project\s*\([^)]*\bCUDA\b|add_(?:library|executable)\s*\([^)]*\.cu\b)",
    re.IGNORECASE,
)


def native_places(files: Mapping[str, bytes], *, with_callers: bool = True) -> tuple[NativePlace, ...]:
    """Sorted. `files` are the project's Python files and those that `is_native` by path. Never raises for what is in
    them. The code that calls an operator is found only `with_callers`.

    Copies of NVIDIA's libraries, such as the CUTLASS that many projects carry, are left out: what includes them is
    reported.
    """
    files = _without_libraries(files)
    project = torch_project(files)
    built = extensions(project)
    lines = operator_lines(files, built)
    called = callers({api for _, api in lines}, project) if with_callers else {}
    places = [
        NativePlace(path, line, NativeKind.OPERATOR, api, called.get(api, ())) for (path, api), line in lines.items()
    ]
    places.extend(_builds(files, built, project))
    for path, source in files.items():
        if may_export(path):
            places.extend(cuda_places(path, source))
        elif path in project.files and b"__global__" in source:
            places.extend(_kernels_in_strings(path, project))
    return tuple(sorted(set(places)))


def native_code(places: Iterable[NativePlace], files: Mapping[str, bytes]) -> NativeCode:
    """The sums of `native_places(files)`. Files are those with CUDA in them, where a kernel, launch or library is;
    lines are theirs that hold code, and only C++ and CUDA files have such lines."""
    listed = tuple(places)
    files = _without_libraries(files)
    in_cuda = (NativeKind.KERNEL, NativeKind.LAUNCH, NativeKind.LIBRARY)
    paths = {place.path for place in listed if place.kind in in_cuda}
    paths.update(path for path in files if path.lower().endswith(_CUDA_SUFFIXES))
    count = {kind: sum(place.kind is kind for place in listed) for kind in NativeKind}
    return NativeCode(
        files=len(paths),
        lines=sum(code_lines(files[path].decode("utf-8", "replace")) for path in paths if may_export(path)),
        kernels=count[NativeKind.KERNEL],
        launches=count[NativeKind.LAUNCH],
        operators=count[NativeKind.OPERATOR],
    )


def _without_libraries(files: Mapping[str, bytes]) -> dict[str, bytes]:
    roots = [path.removesuffix(mark) for path in files for mark in _LIBRARY_MARKS if path.endswith(f"/{mark}")]
    copies = tuple(root for root in roots if root)
    return {path: source for path, source in files.items() if not path.startswith(copies)} if copies else dict(files)


def _builds(files: Mapping[str, bytes], built: list[Extension], project: Project) -> Iterator[NativePlace]:
    known = {extension.path for extension in built}
    compiled = {posixpath.basename(source) for extension in built for source in extension.sources}
    for extension in built:
        if extension.cuda:
            yield NativePlace(extension.path, extension.line, NativeKind.BUILD, extension.name)
    for path, source in files.items():
        if is_cmake(path):
            yield from _cmake(path, source.decode("utf-8", "replace"))
        elif path in project.files and path not in known and _MAY_LIST.search(source):
            listed = _listed_sources(path, project)
            yield from (place for place in listed if posixpath.basename(place.api) not in compiled)


def _cmake(path: str, text: str) -> Iterator[NativePlace]:
    """The first command that asks for CUDA."""
    match = _CMAKE.search(re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), text))
    if match is not None:
        yield NativePlace(path, text.count("\n", 0, match.start()) + 1, NativeKind.BUILD, "CMake with CUDA")


def _listed_sources(path: str, project: Project) -> Iterator[NativePlace]:
    """CUDA sources that a Python file names, for a builder of the project's own, such as DeepSpeed's.

    A source that an extension compiles is named elsewhere as data: `package_data` of a setup.py.
    """
    for text, line in _strings(path, project):
        if text.endswith(_CUDA_SUFFIXES) and "\n" not in text and "*" not in text and len(text) > 4:
            yield NativePlace(path, line, NativeKind.BUILD, text)


def _kernels_in_strings(path: str, project: Project) -> Iterator[NativePlace]:
    """CUDA code in a string, for load_inline, CuPy or PyCUDA."""
    for text, line in _strings(path, project):
        if "__global__" in text:
            yield from kernels_and_launches(path, text, line)


def _strings(path: str, project: Project) -> Iterator[tuple[str, int]]:
    """The string literals of a Python file, the text in f-strings too, and the lines they begin in."""
    names = project.names(path)
    for node, _ in names.file.uses if names is not None else ():
        for part in node.values if isinstance(node, ast.JoinedStr) else (node,):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value, part.lineno


_TRIGGERS = (b"__global__", b"<<<", b"cudaLaunch", b"cuLaunch", b"#include", b"# include")
_WORD = re.compile(r"[A-Za-z_]\w*")
# What may be between __global__ and the kernel's name besides its type.
_ATTRIBUTES = frozenset(
    {"__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__", "alignas", "decltype"}
)
_LAUNCHERS = re.compile(
    r"\b(?:cudaLaunchKernel|cudaLaunchKernelEx|cudaLaunchKernelExC|cudaLaunchCooperativeKernel|cuLaunchKernel"
    r"|cuLaunchKernelEx|cuLaunchCooperativeKernel)\s*(?=\()"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)

# The library of a header, by how its path begins; the longest beginning counts.
_LIBRARIES = {
    begin: library
    for library, begins in json.loads(Path(__file__).with_name("headers.json").read_bytes()).items()
    for begin in begins
}
_LONGEST_FIRST = sorted(_LIBRARIES, key=len, reverse=True)


def cuda_places(path: str, source: bytes) -> Iterator[NativePlace]:
    """The kernels, launches and libraries of one source, in no particular order."""
    if not any(trigger in source for trigger in _TRIGGERS):
        return
    text = source.decode("utf-8", "replace")
    yield from _includes(path, text)
    if b"__global__" in source or b"<<<" in source or b"Launch" in source:
        yield from kernels_and_launches(path, text)


def kernels_and_launches(path: str, text: str, first_line: int = 1) -> Iterator[NativePlace]:
    """The kernels and launches in a text of CUDA code that begins in line `first_line` of the file."""
    code = without_strings(text)
    starts = [match.end() for match in re.finditer(r"\n", code)]

    def place(offset: int, kind: NativeKind, api: str) -> NativePlace:
        return NativePlace(path, first_line + bisect_right(starts, offset), kind, api)

    for match in re.finditer(r"\b__global__\b", code):
        name = _kernel_name(code, match.end())
        if name is not None:
            yield place(match.start(), NativeKind.KERNEL, name)
    for match in re.finditer(r"(?<!<)<<<(?!<)", code):
        name = _launched(code, match.start())
        if name is not None:
            yield place(match.start(), NativeKind.LAUNCH, name)
    for match in _LAUNCHERS.finditer(code):
        yield place(match.start(), NativeKind.LAUNCH, match[0].strip())


def _kernel_name(code: str, position: int) -> str | None:
    """The name before the parameters of the function that begins here; None for a declaration, or a macro's text."""
    for match in _WORD.finditer(code, position, position + 2000):
        opening = _skip_blanks(code, match.end())
        if code[opening : opening + 1] == "<":  # a specialisation is named with its template arguments
            opening = _skip_blanks(code, _closing(code, opening, "<", ">") + 1)
        if code[opening : opening + 1] == "(" and match[0] not in _ATTRIBUTES:
            body = _skip_blanks(code, _closing(code, opening, "(", ")") + 1)
            return None if code[body : body + 1] == ";" else match[0]
    return None


def _launched(code: str, position: int) -> str | None:
    """The kernel whose launch configuration begins here: the name before `<<<`, template arguments left out."""
    end = _rstrip(code, position)
    if end and code[end - 1] == ">":
        depth = 0
        for index in range(end - 1, max(end - 2000, -1), -1):
            depth += (code[index] == ">") - (code[index] == "<")
            if depth == 0:
                end = _rstrip(code, index)
                break
    start = end
    while start and (code[start - 1].isalnum() or code[start - 1] == "_"):
        start -= 1
    name = code[start:end]
    return name if _WORD.fullmatch(name) else None


def _rstrip(code: str, end: int) -> int:
    while end and code[end - 1].isspace():
        end -= 1
    return end


def _skip_blanks(code: str, index: int) -> int:
    while index < len(code) and (code[index].isspace() or code[index] == "\\"):
        index += 1
    return index


def _closing(code: str, opening: int, left: str, right: str) -> int:
    depth = 0
    for index in range(opening, min(len(code), opening + 20_000)):
        depth += (code[index] == left) - (code[index] == right)
        if depth == 0:
            return index
    return len(code)


def _includes(path: str, text: str) -> Iterator[NativePlace]:
    """The first include of each library."""
    seen: set[str] = set()
    code = without_comments(text)
    for match in _INCLUDE.finditer(code):
        header = match[1].lower()
        library = next((_LIBRARIES[begin] for begin in _LONGEST_FIRST if header.startswith(begin)), None)
        if library is not None and library not in seen:
            seen.add(library)
            yield NativePlace(path, code.count("\n", 0, match.start()) + 1, NativeKind.LIBRARY, library)


_NOT_CODE = re.compile(
    r"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<raw> (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)" )
  | (?P<string> "(?:\\.|[^"\\\n])*" )
  | (?P<character> (?<![\da-fA-F])'(?:\\.|[^'\\\n])+' )
    """,
    re.VERBOSE | re.DOTALL,
)
_VISIBLE = re.compile(r"[^\n]")


def without_comments(source: str) -> str:
    """Comments become blanks; string literals stay."""
    return _NOT_CODE.sub(lambda match: _blank(match[0]) if match["comment"] is not None else match[0], source)


def without_strings(source: str) -> str:
    """String and character literals become blanks between their quotes' places, and so do comments."""
    return _NOT_CODE.sub(lambda match: _blank(match[0]), source)


def code_lines(source: str) -> int:
    """The number of lines that hold code: more than blanks and comments."""
    return sum(1 for line in without_comments(source).split("\n") if line.strip())


def _blank(text: str) -> str:
    return _VISIBLE.sub(" ", text)
