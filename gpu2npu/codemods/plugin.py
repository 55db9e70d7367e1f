"""Programs whose device is in no file that imports torch and is changed: nothing else loads torch_npu for them.

Where a changed file imports torch, the rules add `import torch_npu` to it. From PyTorch 2.5 on torch loads the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu2npu.codemods.choice import Codemod, CodemodChoice
from gpu2npu.codemods.places import Step, by_file, of_rule
from gpu2npu.codemods.program.entries import started_files
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.spellings import spelling
from gpu2npu.engine import ProjectContext
from gpu2npu.engine.context import gets_plugin, imports_torch, names_device
from gpu2npu.python.facts.reading import read_facts
from gpu2npu.python.facts.record import FileFacts
from gpu2npu.python.project.imports import ImportGraph
from gpu2npu.records import FileRewrite
from gpu2npu.rulebook.in_code import PLUGIN
from gpu2npu.support.releases import autoloads

CODEMOD = Codemod("plugin", files="plugin:without_plugin", precedence=70)


def without_plugin(sources: Mapping[str, bytes], context: ProjectContext, choice: CodemodChoice) -> set[str]:
    """The files that may work on a device and get torch_npu from no other edit."""
    silent = {path for path, source in sources.items() if _lacks_plugin(read_facts(source, path), context.version)}
    return silent | (sources.keys() & choice.readers)


def plugin(program: TrainingProgram, choice: CodemodChoice) -> Mapping[str, FileRewrite]:
    """`import torch_npu` where a program starts, if none of its files gets it otherwise."""
    facts = {path: program.project.facts(path, path) for path in program.sources}
    readers = program.sources.keys() & choice.readers
    graph = ImportGraph.of(program)
    started = started_files(program, {path for path in facts if _lacks_plugin(facts[path], program.version)} | readers)
    loaded = {path: graph.loaded_by(path) for path in started}
    # Files that no script of the project loads, as those of a package whose command is made when it is installed.
    unloaded = readers.difference(*loaded.values())
    loaded |= {path: graph.loaded_by(path) for path in sorted(unloaded) if imports_torch(facts[path])}
    with_torch = {path for path in facts if imports_torch(facts[path])}
    with_plugin = {path for path in with_torch if gets_plugin(facts[path])}
    lacking = (path for path, files in loaded.items() if files & with_torch and not files & with_plugin)
    return of_rule(PLUGIN, by_file(step for file in program.parsed(lacking) for step in _imported(file)))


def _lacks_plugin(facts: FileFacts | None, version: str) -> bool:
    """Return whether a file names a card, and does not import torch, which does not load the plugin by itself."""
    return not autoloads(version) and names_device(facts) and not imports_torch(facts)


def _imported(file: ParsedFile) -> list[Step]:
    return [(file, edit) for edit in spelling(file, "torch_npu").edits]
