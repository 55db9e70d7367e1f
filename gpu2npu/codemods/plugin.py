"""Programs whose device stands in no file that imports torch and is changed: nothing else loads torch_npu for them.

Where a changed file imports torch, the rules add `import torch_npu` to it. From PyTorch 2.5 on torch loads the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.concern import is_silent
from gpu2npu.codemods.entry import Entry, entry_of, find_entries
from gpu2npu.codemods.places import Step, by_file, of_rule
from gpu2npu.codemods.program import TrainingProgram
from gpu2npu.codemods.spellings import spelling
from gpu2npu.engine.cards import gets_plugin, imports_torch
from gpu2npu.records import FileRewrite
from gpu2npu.rulebook.in_code import PLUGIN


def plugin(program: TrainingProgram, choice: CodemodChoice) -> Mapping[str, FileRewrite]:
    """`import torch_npu` where a program starts, if none of its files gets it otherwise."""
    silent = {path for path, source in program.sources.items() if is_silent(source, program.version)}
    readers = program.sources.keys() & choice.readers
    entries = find_entries(program, silent | readers)
    entries += _by_themselves(program, readers.difference(*(entry.files for entry in entries)))
    return of_rule(PLUGIN, by_file(step for entry in entries if _lacks_plugin(entry) for step in _imported(entry)))


def _by_themselves(program: TrainingProgram, paths: Set[str]) -> list[Entry]:
    """Files that no script of the project loads, as those of a package whose command is made when it is installed."""
    entries = (entry_of(program, path) for path in sorted(paths) if imports_torch(program.sources[path]))
    return [entry for entry in entries if entry is not None]


def _lacks_plugin(entry: Entry) -> bool:
    """Return whether a program imports torch, in files that name no card, and the plugin nowhere."""
    sources = [entry.program.sources[path] for path in entry.files]
    with_torch = [source for source in sources if imports_torch(source)]
    return bool(with_torch) and not any(map(gets_plugin, with_torch))


def _imported(entry: Entry) -> list[Step]:
    return [(entry.file, edit) for edit in spelling(entry.file, "torch_npu").edits]
