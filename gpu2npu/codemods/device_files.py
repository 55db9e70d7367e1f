"""The Python files that take their device from a file of another kind: a configuration, a script that starts them.

Nothing in such a Python file says that it runs on a device, so that no rule would import torch_npu into it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

from gpu2npu.formats.kinds import SMALL, FileKind, kind_of
from gpu2npu.python.facts.reading import read_facts
from gpu2npu.python.facts.record import FileFacts

# Libraries that read files of a kind; "json" is imported for much else, and counts with a call of `load`.
_LIBRARIES = {
    FileKind.YAML: frozenset(
        {"fvcore", "hydra", "hyperpyyaml", "jsonargparse", "mmcv", "mmengine", "omegaconf", "ruamel", "yacs", "yaml"}
    ),
    FileKind.JSON: frozenset({"commentjson", "json", "json5", "jsonargparse", "mmengine"}),
    FileKind.TOML: frozenset({"toml", "tomli", "tomlkit", "tomllib"}),
    FileKind.INI: frozenset({"configparser"}),
}  # fmt: skip
_HYDRA = frozenset({"hydra"})
_SCRIPT = re.compile(rb"[\w./-]+\.py\b")


def device_readers(
    others: Mapping[str, bytes], sources: Mapping[str, bytes], gives_device: Callable[[bytes, str], bool]
) -> tuple[str, ...]:
    """The Python files among `sources` that may read a file of another kind that gives a device, or are started by it:
    those that a name in one of both says; for a configuration that none names, those that import a library for its
    kind. Of data, whether it gives one, which takes longer, is asked only where some program may read it."""
    found: set[str] = set()
    for path, content in others.items():
        is_data = len(content) > SMALL
        if is_data or gives_device(content, path):
            readers = _started(content, sources) | _naming(path, sources) or _reading(path, sources)
            if not is_data or (readers and gives_device(content, path)):
                found |= readers
    return tuple(sorted(found))


def _started(content: bytes, sources: Mapping[str, bytes]) -> set[str]:
    """The Python files that a file names: `python tools/train.py`."""
    found = _SCRIPT.findall(content) if b".py" in content else ()
    names = {posixpath.normpath(name.decode()).removeprefix("../") for name in found}
    return {path for path in sources if any(f"/{path}".endswith(f"/{name}") for name in names)}


def _naming(path: str, sources: Mapping[str, bytes]) -> set[str]:
    """The Python files of which the code has the name of a file, in whatever folder; hydra leaves out its ending."""
    name = posixpath.basename(path)
    stem = name.rpartition(".")[0]
    found = set()
    for other, source in sources.items():
        facts = read_facts(source, other) if stem and stem.encode() in source else None
        if facts is not None and (_has_name(facts, name) or (facts.imports_one_of(_HYDRA) and _has_name(facts, stem))):
            found.add(other)
    return found


def _has_name(facts: FileFacts, name: str) -> bool:
    return any(posixpath.basename(word) == name for word in (*facts.names, *facts.texts))


def _reading(path: str, sources: Mapping[str, bytes]) -> set[str]:
    kind = kind_of(path)
    libraries = _LIBRARIES.get(kind, frozenset()) if kind is not None else frozenset()
    found = set()
    for other, source in sources.items():
        facts = read_facts(source, other) if libraries else None
        if facts is not None and facts.imports_one_of(libraries) and (kind is not FileKind.JSON or _loads(facts)):
            found.add(other)
    return found


def _loads(facts: FileFacts) -> bool:
    """Return whether the code of a file has a name with "load" in it."""
    return any("load" in name for name in facts.names)
