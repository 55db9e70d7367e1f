"""DataParallel becomes DistributedDataParallel, and the program around it has one process for each card."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from gpu2npu.codemods.choice import Codemod, CodemodChoice
from gpu2npu.codemods.data_parallel.card_count import by_world_size, readers_by_world_size, tests_for_processes
from gpu2npu.codemods.data_parallel.certainty import (
    OTHER_PROGRAMS,
    Obstacle,
    is_part,
    obstacle,
    reader_obstacle,
    whole_model,
)
from gpu2npu.codemods.data_parallel.files.rank_zero import on_rank_zero
from gpu2npu.codemods.data_parallel.loaders.sharding import shard_loaders
from gpu2npu.codemods.data_parallel.one_npu import on_one_card, on_one_npu, reader_of_module
from gpu2npu.codemods.data_parallel.references import (
    DataParallelReference,
    find_references,
    follow,
    report_functions,
    report_rebound,
    report_required,
    report_subclass,
    requires,
    staying,
    uses_replicas,
)
from gpu2npu.codemods.data_parallel.reviews import is_called_twice, keep_on_card, parts_left_out, review
from gpu2npu.codemods.data_parallel.single_card import last_move, single_card_entry, wrap_below, wrap_target
from gpu2npu.codemods.data_parallel.spelling import DATA_PARALLEL, DATA_PARALLEL_FUNCTION, api_of
from gpu2npu.codemods.data_parallel.wrapping import (
    Wrap,
    distributed,
    escapes,
    find_wraps,
    is_stored,
    retained_name,
    target_of,
)
from gpu2npu.codemods.places import GroupEdit, Step, by_file, decided, reported, taken_over
from gpu2npu.codemods.program.card import bind_to_card
from gpu2npu.codemods.program.entries import Entries, Entry, find_entries, library_entry
from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.codemods.program.group_condition import (
    always_has_group,
    group_place,
    is_for_runner,
    is_test_file,
    runs_without_group,
)
from gpu2npu.codemods.program.process_group import set_up
from gpu2npu.python.tree.syntax import DEFINITIONS
from gpu2npu.records import FileRewrite, FindingKind

_MULTI_CARD = "multi-card"  # the trait that asks for a launcher
CODEMOD = Codemod(
    "data_parallel", rule="data-parallel", takes_main=True, names=DATA_PARALLEL | DATA_PARALLEL_FUNCTION, precedence=10
)


def data_parallel(program: TrainingProgram, choice: CodemodChoice) -> dict[str, FileRewrite]:
    """Rewrite the wraps of programs that train, and the script for one card that is to train on many, with all that
    follows from it; report the wraps that stay. Raises CodemodError if there is no such script."""
    is_wanted = "data_parallel" not in choice.skipped
    single = None if choice.main is None else single_card_entry(program, choice.main, choice.target_model)
    wraps = list(find_wraps(program)) if is_wanted else []
    running = _running(program, wraps)
    obstacles = _obstacles(program, running)
    steps = [
        reported(wrap.file, wrap.call, api_of(wrap.file, wrap.call.func), found.message, found.kind)
        for wrap, found in obstacles.items()
        if not found.one_npu
    ]
    steps += report_rebound(program) if is_wanted else ()
    rewritten = [wrap for wrap in wraps if wrap not in obstacles]
    started = sorted({entry for wrap in rewritten for entry in running[wrap]}, key=_by_path)
    if single is not None and all(entry.file is not single.file for entry in started):
        steps += wrap_target(program, single, choice.target_model)
        started.append(single)
    steps += _rewritten(program, choice, rewritten, Entries(started), single)
    if is_wanted:
        for reference in _references(program):
            if requires(reference) and (obstacles or not wraps or uses_replicas(reference)):
                steps += report_required(program, reference)
    single_npu = {wrap: found for wrap, found in obstacles.items() if found.one_npu}
    steps += taken_over(program, steps, by_file(_on_one_npu(program, single_npu, running, Entries(started))))
    if started:
        paths = list(dict.fromkeys(entry.file.path for entry in started))
        steps += taken_over(program, steps, shard_loaders(program, paths, partial(_is_run, started)))
        steps += taken_over(program, steps, on_rank_zero(program, paths))
    rewrites = by_file(_with_other_programs(steps, started, program))
    homes = {entry.file.path for entry in started if not entry.is_library}
    return {
        path: replace(rewrite, traits=frozenset({_MULTI_CARD})) if path in homes else rewrite
        for path, rewrite in rewrites.items()
    }


def _is_run(started: Sequence[Entry], file: ParsedFile, node: ast.AST) -> bool:
    """Return whether the programs run a node: of a library what is called where it wraps a model, and around that."""
    entries = [entry for entry in started if file.path in entry.files]
    return any(not entry.is_library or any(each.runs(file, node) for each in _with_callers(entry)) for entry in entries)


def _with_callers(entry: Entry) -> Sequence[Entry]:
    """The programs that call what calls a library's definition in the same file, with those that call it."""

    def find() -> list[Entry]:
        definitions = [each for each in entry.file.tree.body if isinstance(each, DEFINITIONS)]
        found = [library_entry(entry.program, entry.file, each) for each in definitions]
        return [entry, *(each for each in found if each is not None and entry.called in each.reached)]

    return entry.program.once((_with_callers, entry.called), find)


def _by_path(entry: Entry) -> tuple[str, int]:
    return entry.file.path, min((node.lineno for node in entry.reached), default=0) if entry.is_library else 0


def _running(program: TrainingProgram, wraps: Sequence[Wrap]) -> dict[Wrap, Sequence[Entry]]:
    """Return the programs that run each wrap: where none of the project does, those elsewhere that may."""
    found = find_entries(program, {wrap.file.path for wrap in wraps})
    programs = Entries(entry for entry in found if not is_for_runner(entry.file))
    return {wrap: programs.that_run(wrap.file, wrap.call) or _library_entry(program, wrap) for wrap in wraps}


def _library_entry(program: TrainingProgram, wrap: Wrap) -> Sequence[Entry]:
    """The programs of others that use a library's trainer, as one; tests are not a library. For a model that is put
    into a container they are unknown."""
    above = [node for node in wrap.file.above(wrap.call) if isinstance(node, DEFINITIONS)]
    if not above or is_test_file(wrap.file.path) or is_stored(wrap):
        return ()
    called = above[-1] if escapes(wrap) else above[0]
    entry = program.once((library_entry, called), lambda: library_entry(program, wrap.file, called))
    return () if entry is None else (entry,)


def _obstacles(program: TrainingProgram, running: Mapping[Wrap, Sequence[Entry]]) -> dict[Wrap, Obstacle]:
    """Return what keeps wraps from being rewritten; where a program has to stay one process, all of its wraps."""
    found = {wrap: each for wrap in running if (each := _obstacle(program, wrap, running[wrap])) is not None}
    single_process = {entry: each for wrap, each in found.items() if each.one_process for entry in running[wrap]}
    for wrap in running:
        reasons = [single_process[entry] for entry in running[wrap] if entry in single_process]
        if reasons and not (wrap in found and found[wrap].one_npu):
            found[wrap] = reasons[0]
    return found


def _obstacle(program: TrainingProgram, wrap: Wrap, programs: Sequence[Entry]) -> Obstacle | None:
    """Return what keeps a wrap from being rewritten; also that code may read `.module`, which it would lose."""
    found = obstacle(program, wrap, programs)
    is_library = all(entry.is_library for entry in programs)
    if (found is None and not is_library) or (found is not None and not found.one_npu):
        return found
    place = reader_of_module(program, wrap, programs) if is_library or is_stored(wrap) else None
    return found if place is None else reader_obstacle(wrap, place)


def _on_one_npu(
    program: TrainingProgram,
    obstacles: Mapping[Wrap, Obstacle],
    running: Mapping[Wrap, Sequence[Entry]],
    started: Entries,
) -> Iterator[Step]:
    """The models that go to one NPU without a wrapper."""
    gone = {wrap.call.func for wrap in obstacles}
    named = {reference.file.path for reference in _references(program) if reference.node not in gone}
    for wrap, why in obstacles.items():
        yield from on_one_npu(program, wrap, why, running[wrap], started, wrap.file.path in named)


def _rewritten(
    program: TrainingProgram, choice: CodemodChoice, wraps: Sequence[Wrap], started: Entries, single: Entry | None
) -> Iterator[Step]:
    """The programs with one process for each card, and the wraps in DistributedDataParallel."""
    own = [entry for entry in started.all if not entry.is_library]
    for entry in own:
        yield from set_up(entry, own)
    yield from review(program, wraps, started)
    targets = [(wrap.file, target_of(wrap)) for wrap in wraps]
    wrapped = frozenset(file.code(target) for file, target in targets if target is not None)
    yield from keep_on_card(started, wrapped, choice.target_model if single is not None else None)
    for wrap in wraps:
        yield from parts_left_out(program, wrap)
    yield from bind_to_card(started)
    if "data_parallel" not in choice.skipped:
        for wrap in wraps:
            yield from by_world_size(wrap)
        yield from readers_by_world_size(wraps, started)
        yield from _whole_models(program, wraps, started)
        yield from _named_otherwise(program, wraps)
        yield from _wrapped(program, wraps, started)


def _named_otherwise(program: TrainingProgram, wraps: Sequence[Wrap]) -> Iterator[Step]:
    """Yield the steps for what names DataParallel, or its function, without being one of the wraps."""
    yield from report_functions(program)
    stays = _staying(program, wraps)
    for reference in _references(program):
        yield from report_subclass(program, reference)
        if reference.is_test and wraps and not (requires(reference) and uses_replicas(reference)):
            yield from follow(reference, reference.file.path in stays)


def _references(program: TrainingProgram) -> Sequence[DataParallelReference]:
    return program.once(find_references, lambda: list(find_references(program)))


def _staying(program: TrainingProgram, wraps: Sequence[Wrap]) -> frozenset[str]:
    return staying(_references(program), [wrap.call for wrap in wraps])


def _wrapped(program: TrainingProgram, wraps: Sequence[Wrap], started: Entries) -> Iterator[Step]:
    """The wraps in DistributedDataParallel."""
    stays = _staying(program, wraps)
    for wrap in wraps:
        if is_part(wrap):
            yield from retained_name(wrap)
            continue
        programs = started.that_run(wrap.file, wrap.call)
        running = {file for entry in programs for file in entry.files.values()}
        imports: list[Step] = []
        single_process = None
        if runs_without_group(program, wrap.file, wrap.file.bounds(wrap.call)[0]) and not tests_for_processes(wrap):
            imports, single_process = on_one_card(program, wrap, programs)
        yield from imports
        yield from distributed(wrap, wrap.file.path in stays, is_called_twice(program, wrap, running), single_process)
        if all(entry.is_library for entry in programs):
            yield reported(wrap.file, wrap.call, api_of(wrap.file, wrap.call.func), OTHER_PROGRAMS, FindingKind.REVIEW)


def _whole_models(program: TrainingProgram, wraps: Sequence[Wrap], started: Entries) -> Iterator[Step]:
    """Wrap the models of which only parts were wrapped."""
    models = {}
    for wrap in wraps:
        whole = whole_model(wrap) if is_part(wrap) else None
        if whole is not None:
            models[wrap.file.scope_of(wrap.call), whole[0]] = wrap, whole[1]
    for (_, name), (wrap, statement) in models.items():
        below = last_move(wrap.file, statement, name)
        for entry in started.that_run(wrap.file, wrap.call):
            yield from wrap_below(program, entry, wrap.file, below, name)


def _with_other_programs(steps: Sequence[Step], started: Sequence[Entry], program: TrainingProgram) -> Iterator[Step]:
    """The steps, for programs besides that run the same code: what needs a process group gets one there too, and to
    write files takes none. Code that tests call works without a group."""
    group_edits = [(file, step) for file, step in steps if isinstance(step, GroupEdit)]
    done = {entry.file.path for entry in started if not entry.is_library}
    found = find_entries(program, {file.path for file, _ in group_edits})
    running = [entry for entry in found if entry.file.path not in done and not is_for_runner(entry.file)]
    others = Entries(entry for entry in running if group_place(entry) is None)
    perhaps = Entries(entry for entry in running if group_place(entry) is not None and not always_has_group(entry))
    needing: set[Entry] = set()
    for file, step in steps:
        if not isinstance(step, GroupEdit):
            yield file, step
            continue
        run_by = others.that_run_at(file, step.place[0])
        if not step.optional:
            needing.update(run_by)
        has_none = bool(perhaps.that_run_at(file, step.place[0])) or (step.optional and bool(run_by))
        without = has_none or runs_without_group(program, file, step.place[0])
        yield file, decided(step, step.single_process if step.single_process is not None and without else step.text)
    for entry in others.all:
        if entry in needing:
            yield from set_up(entry, needing)
