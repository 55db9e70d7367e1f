"""A project's own CUDA code: its kernels, their launches, the libraries they use, what builds them, the operators they
export to Python and the Python code that calls those.

None of it runs on an NPU as it is: what is exported has to be written for Ascend C, or replaced by what torch_npu has.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from gpu2npu.analysis.cuda_cpp.callers import callers
from gpu2npu.analysis.cuda_cpp.extensions import Extension, extensions
from gpu2npu.analysis.cuda_cpp.kernels import code_lines, cuda_places, kernels_and_launches
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
    """The sums of `native_places(files)`. Files are those with CUDA in them, where a kernel, launch or library stands;
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
