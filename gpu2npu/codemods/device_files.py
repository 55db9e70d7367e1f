"""The Python files that take their device from a file of another kind: a configuration, a script that starts them.

Nothing in such a Python file says that it runs on a device, so that no rule would import torch_npu into it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Set

from gpu2npu.engine.cards import words_of
from gpu2npu.formats.kinds import FileKind, kind_of
from gpu2npu.python.project.interface import interface_in

# Libraries that read files of a kind; "json" is imported for much else, and counts with a call of `load`.
_LIBRARIES = {
    FileKind.YAML: frozenset(
        {"fvcore", "hydra", "hyperpyyaml", "jsonargparse", "mmcv", "mmengine", "omegaconf", "ruamel", "yacs", "yaml"}
    ),
    FileKind.JSON: frozenset({"commentjson", "json", "json5", "jsonargparse", "mmengine"}),
    FileKind.TOML: frozenset({"toml", "tomli", "tomlkit", "tomllib"}),
    FileKind.INI: frozenset({"configparser"}),
}  # fmt: skip
_SCRIPT = re.compile(rb"[\w./-]+\.py\b")


def device_readers(devices: Mapping[str, bytes], sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """The Python files among `sources` that may read one of the files `devices`, or are started by it: those that a
    name in one of both says; for a configuration that none names, those that import a library for its kind."""
    found: set[str] = set()
    for path, content in devices.items():
        found |= _started(content, sources) | _naming(path, sources) or _reading(path, sources)
    return tuple(sorted(found))


def _started(content: bytes, sources: Mapping[str, bytes]) -> set[str]:
    """The Python files that a file names: `python tools/train.py`."""
    names = {posixpath.normpath(name.decode()).removeprefix("../") for name in _SCRIPT.findall(content)}
    return {path for path in sources if any(f"/{path}".endswith(f"/{name}") for name in names)}


def _naming(path: str, sources: Mapping[str, bytes]) -> set[str]:
    """The Python files of which the code has the name of a file, in whatever folder; hydra leaves out its ending."""
    name = posixpath.basename(path)
    stem = name.rpartition(".")[0]
    spelled = {other: source for other, source in sources.items() if stem and stem.encode() in source}
    return {
        other
        for other, source in spelled.items()
        if _has_name(source, name) or (_imports(source, frozenset({"hydra"})) and _has_name(source, stem))
    }


def _has_name(source: bytes, name: str) -> bool:
    return any(posixpath.basename(word) == name for word in words_of(source) or ())


def _reading(path: str, sources: Mapping[str, bytes]) -> set[str]:
    kind = kind_of(path)
    libraries = _LIBRARIES.get(kind, frozenset()) if kind is not None else frozenset()
    may_read = {other for other, source in sources.items() if kind is not FileKind.JSON or b"load" in source}
    return {other for other in may_read if _imports(sources[other], libraries)}


def _imports(source: bytes, libraries: Set[str]) -> bool:
    if not any(library.encode() in source for library in libraries):
        return False
    interface = interface_in(source, "")
    return interface is not None and any(module.partition(".")[0] in libraries for module in interface.imports)
