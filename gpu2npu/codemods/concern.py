"""The files that codemods may have to change, judged without parsing them all."""

from __future__ import annotations

from collections.abc import Mapping

from gpu2npu.codemods.choice import CODEMODS, CodemodChoice, imported
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.engine import ProjectContext
from gpu2npu.engine.context import imports_torch, names_device
from gpu2npu.python.facts.reading import read_facts
from gpu2npu.python.facts.record import FileFacts
from gpu2npu.python.project.imports import files_naming
from gpu2npu.support.releases import autoloads


def candidate_files(choice: CodemodChoice, sources: Mapping[str, bytes], context: ProjectContext) -> frozenset[str]:
    """The files that a codemod may have to change; `choice.main` whatever is skipped."""
    found = {path for path in sources if path == choice.main}
    names: list[frozenset[str]] = []
    for codemod in CODEMODS:
        if not codemod.is_wanted(choice):
            continue
        if codemod.option is not None or not (codemod.names or codemod.files):
            return frozenset(sources)
        if codemod.files:
            found |= imported(codemod.files)(sources, context, choice)
        if codemod.names and _may_name(codemod.names, sources):
            names.append(codemod.names)
    if names:
        program = TrainingProgram.of(sources, context)
        found.update(*(files_naming(program, each) for each in names))
    return frozenset(found)


def _may_name(names: frozenset[str], sources: Mapping[str, bytes]) -> bool:
    """Return whether some file has the package of a name in it."""
    packages = {name.partition(".")[0].encode() for name in names}
    return any(package in source for source in sources.values() for package in packages)


def without_plugin(sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice) -> set[str]:
    """The files that may work on a device and get torch_npu from no other edit."""
    silent = {path for path, source in sources.items() if lacks_plugin(read_facts(source, path), context.version)}
    return silent | (sources.keys() & choice.readers)


def lacks_plugin(facts: FileFacts | None, version: str) -> bool:
    """Return whether a file names a card, and does not import torch, which does not load the plugin by itself."""
    return not autoloads(version) and names_device(facts) and not imports_torch(facts)
