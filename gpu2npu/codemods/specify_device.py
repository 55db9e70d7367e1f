"""`-s`: the number of the card that a program works on comes from the environment variable DEVICE_ID."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.codemods.choice import Codemod, CodemodChoice, Option
from gpu2npu.codemods.data_parallel.wrapping import find_wraps
from gpu2npu.codemods.places import Step, by_file, of_rule, quoted
from gpu2npu.codemods.program.card import bind_to_card
from gpu2npu.codemods.program.entries import Entries, Entry, find_entries
from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.program.group_condition import group_place
from gpu2npu.codemods.program.process_group import at_start_and_end
from gpu2npu.codemods.spellings import spelling
from gpu2npu.python.text.templates import code
from gpu2npu.records import FileRewrite

VARIABLE = "DEVICE_ID"
_MESSAGE = f"The program works on the NPU whose number {VARIABLE} has, or on the first."
CODEMOD = Codemod(
    "specify_device",
    option=Option(("-s", "--specify-device"), "Take the number of the NPU from the environment variable DEVICE_ID."),
    precedence=40,
)


def specify_device(program: TrainingProgram, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Programs that use a card, each as one process, choose it where they start, and name no other later."""
    using = {file.path for file in program.with_word(rb"\bcuda\b", b"cuda")}
    wrapping = {wrap.file.path for wrap in find_wraps(program)}
    # Where there are several processes, each has a card of its own already.
    entries = [
        entry
        for entry in find_entries(program, using)
        if group_place(entry) is None and wrapping.isdisjoint(entry.files) and entry.file.path != choice.main
    ]
    steps = [step for entry in entries for step in _set_up(entry)]
    return of_rule("specify-device", by_file((*steps, *bind_to_card(Entries(entries), VARIABLE))))


def _set_up(entry: Entry) -> Iterator[Step]:
    file = entry.file
    os, torch = spelling(file, "os"), spelling(file, "torch")
    yield from ((file, edit) for found in (os, torch) for edit in found.edits)
    names = {"os": os.name, "torch": torch.name, "variable": quoted(file, VARIABLE), "zero": quoted(file, "0")}
    lines = [
        code("{os}.environ.setdefault({variable}, {zero})", **names),
        code("{torch}.npu.set_device(int({os}.environ[{variable}]))", **names),
    ]
    yield from at_start_and_end(entry, lines, _MESSAGE)
