"""DataParallel becomes DistributedDataParallel, and the program around it has one process for each card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu2npu.codemods.card_count import by_world_size
from gpu2npu.codemods.certainty import reason_to_stay
from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.entry import Entry, find_entries
from gpu2npu.codemods.own_card import on_own_card
from gpu2npu.codemods.places import Step, by_file, reported
from gpu2npu.codemods.process_group import set_up
from gpu2npu.codemods.program import Program
from gpu2npu.codemods.references import find_references, follow, report_functions, report_subclass, staying
from gpu2npu.codemods.wrapping import Wrap, distributed, find_wraps
from gpu2npu.records import FileRewrite, FindingKind, StructuralEdit


def data_parallel(program: Program, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Rewrite the wraps of programs that train, with all that follows from it; report those that stay."""
    if not choice.data_parallel:
        return {}
    return by_file(_steps(program))


def _steps(program: Program) -> Iterator[Step]:
    yield from report_functions(program)
    wraps = list(find_wraps(program))
    references = list(find_references(program))
    for reference in references:
        yield from report_subclass(reference)
    if not wraps:
        return
    entries = find_entries(program, {wrap.file.path for wrap in wraps})
    reasons = {wrap: reason_to_stay(wrap, entries) for wrap in wraps}
    for wrap, reason in reasons.items():
        if reason is not None:
            yield reported(wrap.file, wrap.call, "torch.nn.DataParallel", reason, FindingKind.UNSUPPORTED)
    rewritten = [wrap for wrap, reason in reasons.items() if reason is None]
    if rewritten:
        stays = staying(references, [wrap.call for wrap in rewritten])
        for reference in references:
            if reference.is_test:
                yield from follow(reference, reference.file.path in stays)
        yield from _distribute(rewritten, entries, stays)


def _distribute(wraps: Sequence[Wrap], entries: Sequence[Entry], stays: frozenset[str]) -> Iterator[Step]:
    """One process for each card in the programs that come to these wraps."""
    started = [entry for entry in entries if any(entry.runs(wrap.file, wrap.call) for wrap in wraps)]
    for entry in started:
        yield from set_up(entry)
    small = list(on_own_card(started))
    for wrap in wraps:
        small += by_world_size(wrap)
        inside = [step for file, step in small if file is wrap.file and isinstance(step, StructuralEdit)]
        yield from distributed(wrap, stays=wrap.file.path in stays, others=inside)
    wholes = [(wrap.file, *wrap.file.positions.of(wrap.whole)) for wrap in wraps]
    for file, step in small:
        within = isinstance(step, StructuralEdit) and any(
            file is other and start <= step.start and step.end <= end for other, start, end in wholes
        )
        if not within:
            yield file, step
