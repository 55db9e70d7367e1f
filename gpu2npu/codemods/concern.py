"""The files that codemods may have to change, judged without parsing them all."""

from __future__ import annotations

from collections.abc import Mapping

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.program import TrainingProgram
from gpu2npu.engine import ProjectContext
from gpu2npu.engine.cards import imports_torch, names_device
from gpu2npu.python.facts.reading import read_facts
from gpu2npu.python.facts.record import FileFacts
from gpu2npu.python.project.imports import files_naming
from gpu2npu.support.releases import autoloads

DATA_PARALLEL = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)
APEX_AMP = frozenset({"apex.amp"})
DATA_PARALLEL_FUNCTION = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"})


def concerned_files(choice: CodemodChoice, sources: Mapping[str, bytes], context: ProjectContext) -> frozenset[str]:
    """The files that a codemod may have to change."""
    if choice.options:
        return frozenset(sources)
    found = {
        path
        for path, source in sources.items()
        if path == choice.main or is_silent(read_facts(source, path), context.version)
    }
    found.update(sources.keys() & choice.readers)
    if choice.apex_amp and names_apex(sources):
        found.update(files_naming(TrainingProgram.of(sources, context), APEX_AMP))
    if choice.data_parallel:
        program = TrainingProgram.of(sources, context)
        found.update(files_naming(program, DATA_PARALLEL), files_naming(program, DATA_PARALLEL_FUNCTION))
    return frozenset(found)


def names_apex(sources: Mapping[str, bytes]) -> bool:
    """Return whether some file may use apex."""
    return any(b"apex" in source for source in sources.values())


def is_silent(facts: FileFacts | None, version: str) -> bool:
    """Return whether a file names a card, and does not import torch, which does not load the plugin by itself."""
    return not autoloads(version) and names_device(facts) and not imports_torch(facts)
