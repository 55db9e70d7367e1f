"""DataParallel becomes DistributedDataParallel, and the program around it has one process for each card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu2npu.codemods.card_count import by_world_size
from gpu2npu.codemods.certainty import is_part, own_group, reason_to_stay, whole_model
from gpu2npu.codemods.choice import CodemodChoice
from gpu2npu.codemods.cpu_moves import keep_on_card
from gpu2npu.codemods.entry import Entry, find_entries
from gpu2npu.codemods.loaders import shard_loaders
from gpu2npu.codemods.own_card import on_own_card
from gpu2npu.codemods.places import Step, by_file, reported, taken_over
from gpu2npu.codemods.process_group import set_up
from gpu2npu.codemods.program import Program
from gpu2npu.codemods.rank_zero import on_rank_zero
from gpu2npu.codemods.references import find_references, follow, report_functions, report_subclass, staying
from gpu2npu.codemods.reviews import is_called_twice, review
from gpu2npu.codemods.single_card import last_move, single_card_entry, wrap_below, wrap_target
from gpu2npu.codemods.spelling import api_of
from gpu2npu.codemods.unused_parameters import parts_left_out
from gpu2npu.codemods.wrapping import Wrap, distributed, find_wraps, kept_name, target_of
from gpu2npu.records import FileRewrite, FindingKind, StructuralEdit

_ASKS_RANK = re.compile(r"\bif ([\w.]+)\.get_rank\(\) == 0")
_NEEDS_GROUP = re.compile(r"\.get_world_size\(|\bDistributedSampler\(|\bDistributedDataParallel\(|\.barrier\(")
_ASKS = re.compile(f"{_ASKS_RANK.pattern}|{_NEEDS_GROUP.pattern}")


def data_parallel(program: Program, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Rewrite the wraps of programs that train, and the script for one card that is to train on many, with all that
    follows from it; report the wraps that stay. Raises CodemodError if there is no such script."""
    single = None if choice.main is None else single_card_entry(program, choice.main, choice.target_model)
    wraps = list(find_wraps(program)) if choice.data_parallel else []
    entries = find_entries(program, {wrap.file.path for wrap in wraps}) if wraps else []
    reasons = [(wrap, reason_to_stay(program, wrap, entries)) for wrap in wraps]
    rewritten = [wrap for wrap, reason in reasons if reason is None]
    started = [entry for entry in entries if any(entry.runs(wrap.file, wrap.call) for wrap in rewritten)]
    steps = [
        reported(wrap.file, wrap.call, api_of(wrap.file, wrap.call.func), reason, FindingKind.UNSUPPORTED)
        for wrap, reason in reasons
        if reason is not None
    ]
    if single is not None and all(entry.file is not single.file for entry in started):
        steps += wrap_target(program, single, choice.target_model)
        started.append(single)
    for entry in started:
        steps += set_up(entry)
    steps += review(program, rewritten, started)
    targets = [(wrap.file, target_of(wrap)) for wrap in rewritten]
    wrapped = frozenset(file.code(target) for file, target in targets if target is not None)
    steps += keep_on_card(started, wrapped, choice.target_model if single is not None else None)
    for wrap in rewritten:
        steps += parts_left_out(program, wrap)
    around = list(on_own_card(started))
    if choice.data_parallel:
        steps += _whole_models(program, rewritten, started)
        steps += _wrapped(program, rewritten, started, around)
    steps += _outside(rewritten, around)
    for codemod in (shard_loaders, on_rank_zero) if started else ():
        steps += taken_over(program, steps, codemod(program, [entry.file.path for entry in started]))
    return by_file(_with_other_programs(program, steps, started))


def _with_other_programs(program: Program, steps: Sequence[Step], started: Sequence[Entry]) -> Iterator[Step]:
    """The steps, for programs besides that run the same code: what needs a process group gets one there too, and to
    write files takes none."""
    asking = [(file, step) for file, step in steps if isinstance(step, StructuralEdit) and _ASKS.search(step.text)]
    done = {entry.file.path for entry in started}
    others = [
        entry
        for entry in find_entries(program, {file.path for file, _ in asking})
        if entry.file.path not in done and own_group(entry) is None
    ]
    for file, step in steps:
        if not isinstance(step, StructuralEdit) or not _ASKS_RANK.search(step.text):
            yield file, step
        elif any(entry.runs_at(file, step.start) for entry in others):
            yield (
                file,
                replace(step, text=_ASKS_RANK.sub(r"if not \1.is_initialized() or \1.get_rank() == 0", step.text)),
            )
        else:
            yield file, step
    for entry in others:
        if any(_NEEDS_GROUP.search(step.text) and entry.runs_at(file, step.start) for file, step in asking):
            yield from set_up(entry)


def _wrapped(program: Program, wraps: Sequence[Wrap], entries: Sequence[Entry], around: list[Step]) -> Iterator[Step]:
    """The wraps, and what else names DataParallel. What changes around the wraps is added to `around`."""
    yield from report_functions(program)
    references = list(find_references(program))
    stays = staying(references, [wrap.call for wrap in wraps])
    for reference in references:
        yield from report_subclass(reference)
        if reference.is_test and wraps:
            yield from follow(reference, reference.file.path in stays)
    for wrap in wraps:
        around += by_world_size(wrap)
    for wrap in wraps:
        if is_part(wrap):
            yield from kept_name(wrap)
            continue
        inside = [step for file, step in around if file is wrap.file and isinstance(step, StructuralEdit)]
        running = {file for entry in entries if entry.runs(wrap.file, wrap.call) for file in entry.files.values()}
        twice = is_called_twice(program, wrap, running)
        yield from distributed(wrap, wrap.file.path in stays, twice, inside)


def _whole_models(program: Program, wraps: Sequence[Wrap], entries: Sequence[Entry]) -> Iterator[Step]:
    """Wrap the models of which only parts were wrapped."""
    models = {}
    for wrap in wraps:
        whole = whole_model(wrap) if is_part(wrap) else None
        if whole is not None:
            models[wrap.file.scope_of(wrap.call), whole[0]] = wrap, whole[1]
    for (_, name), (wrap, statement) in models.items():
        below = last_move(wrap.file, statement, name)
        for entry in entries:
            if entry.runs(wrap.file, wrap.call):
                yield from wrap_below(program, entry, wrap.file, below, name)


def _outside(wraps: Sequence[Wrap], around: Sequence[Step]) -> Iterator[Step]:
    """What changes around the wraps, but for what is in the new code of a wrap already."""
    wholes = [(wrap.file, *wrap.file.bounds(wrap.whole)) for wrap in wraps]
    for file, step in around:
        if not isinstance(step, StructuralEdit) or not any(
            file is other and start <= step.start and step.end <= end for other, start, end in wholes
        ):
            yield file, step
