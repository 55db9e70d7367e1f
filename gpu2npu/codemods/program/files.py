"""The Python files of a project as codemods see them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from gpu2npu.codemods.choice import Installation
from gpu2npu.engine import ProjectContext
from gpu2npu.python.meaning.library import Library
from gpu2npu.python.project.program import ParsedFile, Program
from gpu2npu.python.project.project import Project
from gpu2npu.python.project.search_path import search_folders

__all__ = ["FILE_CALLS", "MEMBERS", "SCALERS", "ParsedFile", "TrainingProgram", "names_scaler"]

# The calls of libraries that read or write files: `paths` are their arguments that are paths, and whether they write
# there; `writing_methods` are those of a TensorBoard writer, a figure, a table, a path, a file or a pretrained model.
FILE_CALLS = json.loads(Path(__file__).with_name("file_calls.json").read_bytes())
# Members of modules, of DistributedDataParallel and of objects of libraries, by what is known of them.
MEMBERS = json.loads(Path(__file__).with_name("members.json").read_bytes())
# Objects of these compute gradients and step when they are called with a loss and an optimizer:
# https://github.com/huggingface/pytorch-image-models/blob/v1.0.0/timm/utils/cuda.py
SCALERS = frozenset({"timm.utils.ApexScaler", "timm.utils.NativeScaler"})
_SCALERS = tuple(sorted(each.rpartition(".")[2] for each in SCALERS))
_GRADIENTS = (b".backward(", *(f"{each}(".encode() for each in _SCALERS))


def names_scaler(file: ParsedFile) -> bool:
    """Return whether the text of a file has the name of a class in SCALERS."""
    return any(each in file.text for each in _SCALERS)


class TrainingProgram(Program):
    """Files that are to be migrated. `version` is that of their PyTorch, `trains` is whether any file of the project
    computes gradients, `packages` are the folders of it with an `__init__.py`: of the files themselves, unless given.
    `installed` is what the project installs, `facts` those of files that another process has read, encoded.
    """

    def __init__(
        self,
        sources: Mapping[str, bytes],
        library: Library,
        version: str,
        trains: bool,
        packages: Set[str] | None = None,
        installed: Installation | None = None,
        facts: Mapping[str, bytes] | None = None,
    ) -> None:
        # Trees are kept out of the migration's own project, which is sent to its workers.
        folders = search_folders(sources)
        project = Project(frozenset(sources), sources.__getitem__, library=library, folders=folders, given=facts)
        super().__init__(sources, project)
        self.version = version
        self.trains = trains
        self.packages = packages_of(sources) if packages is None else packages
        self.installed = installed or Installation()

    @classmethod
    def of(cls, sources: Mapping[str, bytes], context: ProjectContext) -> TrainingProgram:
        """All files of a project."""
        return cls(sources, context.project.library, context.version, has_backward(sources))


def packages_of(paths: Iterable[str]) -> frozenset[str]:
    """The folders that are packages."""
    return frozenset(folder for folder, _, name in (path.rpartition("/") for path in paths) if name == "__init__.py")


def has_backward(sources: Mapping[str, bytes]) -> bool:
    """Return whether some file computes gradients."""
    return any(word in source for source in sources.values() for word in _GRADIENTS)
