"""The hand-labelled set: which places there are, and what the tool did at each.

A place counts as edited when what stands there afterwards differs, found by comparing the text before and after: what
the tool says about itself is not used, except for its findings.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from benchmarks.archives import Package, fetch_package, tree_of
from gpu2npu.project.migration import preview_project
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.session import Session
from gpu2npu.project.settings import Settings
from gpu2npu.records import Finding, MigratedFile

LABELLED = Path(__file__).parent.parent / "tests" / "labelled"
TREES = Path(__file__).parent.parent / "bench-trees"
# Packages of each round that are small and have many labels: those that `make test` looks at.
QUICK = frozenset(
    {"catalyst", "mosaicml"}
    | {"effdet", "litgpt", "pytorch_toolbelt"}
    | {"cleanrl", "openrlhf", "yolox"}
    | {"asteroid", "petals", "torchreid"}
    | {"demucs", "tortoise_tts"}
    | {"lama_cleaner", "recbole"}
    | {"avalanche_lib", "swissarmytransformer"}
    | {"llm_foundry", "torchserve"}
    | {"skrl", "surya_ocr"}
    | {"auto_gptq", "mmrotate"}
    | {"cellbender", "torchkge"}
    | {"lightweight_gan", "pytorch_wavelets", "open_clip_torch"}
    | {"laion_clap"}
    | {"torch_fourier_filter"}
    | {"openpifpaf"}
    | {"torch_pruning"}
    | {"stabilityguard"}
    | {"detonation", "torchblocks_chen"}
    | {"llmreport", "nerorl", "simplepytorch"}
    | {"irisml_tasks_training"}
    | {"torchdiff"}
)
LABELS_ARE_FOR = "2.1.0.post0"
MIGRATE, KEEP, REPORT = "migrate", "keep", "report"

_TOKEN = re.compile(r"\w+|\W")


@dataclass(frozen=True)
class Label:
    """The right outcome at one place: one or more of migrate, keep and report (see tests/labelled/README.md)."""

    package: str
    path: str
    line: int
    column: int
    word: str
    answers: frozenset[str]
    expected: str
    round: int

    @property
    def place(self) -> str:
        return f"{self.package}/{self.path}:{self.line}:{self.column + 1}"


@dataclass(frozen=True)
class Judged:
    """A labelled place after the migration: what stands there now, and whether a finding is about it."""

    label: Label
    now: str
    reported: bool
    text: str

    @property
    def edited(self) -> bool:
        return self.now != self.label.word

    @property
    def right_edit(self) -> bool:
        return self.edited and self.now == self.label.expected

    @property
    def missed(self) -> bool:
        """Migrating was the only right answer, and did not happen."""
        return self.label.answers == {MIGRATE} and not self.right_edit

    @property
    def silent(self) -> bool:
        """Something had to be said or done, and nothing was; where only a finding is right, an edit says nothing."""
        if KEEP in self.label.answers or self.reported:
            return False
        return not self.edited or self.label.answers == {REPORT}


@dataclass(frozen=True)
class Score:
    """Counts over the labelled places."""

    places: int
    edits: int
    right_edits: int
    to_migrate: int
    migrated: int
    silent: int
    reported_though_fine: int

    @property
    def precision(self) -> float:
        """Edits that are right, of the edits made."""
        return self.right_edits / self.edits if self.edits else 1.0

    @property
    def recall(self) -> float:
        """Places edited rightly, of those where that is the only right answer."""
        return self.migrated / self.to_migrate if self.to_migrate else 1.0


def read_packages(folder: Path = LABELLED) -> list[Package]:
    return [Package(**entry) for entry in json.loads((folder / "packages.json").read_text())]


def chosen_packages() -> list[Package]:
    """The quick packages, or all where GPU2NPU_TEST_LABELS is "all", as in `make test-labels`; repositories only where
    they were fetched before, by `python -m benchmarks.labels`."""
    packages = [each for each in read_packages() if each.archive or tree_of(each, TREES).is_dir()]
    if os.environ.get("GPU2NPU_TEST_LABELS") == "all":
        return packages
    return [package for package in packages if package.name in QUICK]


def read_labels(folder: Path = LABELLED) -> list[Label]:
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        return [
            Label(
                row["package"],
                row["path"],
                int(row["line"]),
                int(row["column"]),
                row["word"],
                frozenset(row["label"].split("+")),
                row["expected"],
                int(row["round"]),
            )
            for row in csv.DictReader(file)
        ]


def judge_packages(cache: Path, jobs: int | None = None, packages: Iterable[Package] | None = None) -> list[Judged]:
    """Migrate the labelled files, each within its whole project, and look at every labelled place; of all packages
    unless some are given.

    Raises ArchiveError when a package cannot be fetched.
    """
    judged = []
    labels = read_labels()
    for package in read_packages() if packages is None else packages:
        own = [label for label in labels if label.package == package.name]
        judged += _judge_tree(fetch_package(package, cache), own, jobs)
    return judged


def _judge_tree(tree: Path, labels: list[Label], jobs: int | None) -> list[Judged]:
    paths = frozenset(label.path for label in labels)

    def prepare(session: Session) -> _Only:
        return _Only(session.migrator(frozenset()), paths)

    preview = preview_project(tree, Settings(LABELS_ARE_FOR, jobs=jobs), prepare=prepare)
    files = {file.path: file for file in preview.outcome.files}
    judged = []
    for path in sorted(paths):
        before = (tree / path).read_bytes()
        file = files.get(path, MigratedFile(path))
        after = before if file.content is None else file.content
        here = [label for label in labels if label.path == path]
        judged += judge(here, before.decode(), after.decode(), file.findings)
    return judged


@dataclass(frozen=True)
class _Only:
    """Migrates the named files of a project and leaves the others: only the former are looked at."""

    migrator: Migrator
    paths: frozenset[str]

    @property
    def new_files(self) -> Mapping[str, bytes]:
        return {}

    def concerns(self, source: bytes, path: str) -> bool:
        return path in self.paths and self.migrator.concerns(source, path)

    def __call__(self, source: bytes, path: str) -> MigratedFile:
        return self.migrator(source, path) if path in self.paths else MigratedFile(path)


def judge(labels: Iterable[Label], before: str, after: str, findings: Iterable[Finding]) -> list[Judged]:
    """Judge the labelled places of one file by its migrated text and the findings about it.

    Raises ValueError where a label does not fit the file.
    """
    old = before.split("\n")
    new = _lines_after(old, after.split("\n"))
    spans = [finding.span for finding in findings]
    judged = []
    for label in labels:
        line, start, end = old[label.line - 1], label.column, label.column + len(label.word)
        if line[start:end] != label.word:
            raise ValueError(f"{label.place}: there is no {label.word}")
        reported = any(
            (span.start_line, span.start_column) < (label.line, end)
            and (label.line, start) < (span.end_line, span.end_column)
            for span in spans
        )
        judged.append(Judged(label, _text_after(line, new[label.line - 1], start, end), reported, line.strip()))
    return judged


def _lines_after(old: list[str], new: list[str]) -> list[str]:
    """For each old line, the line that it became; empty where it was taken out."""
    result = [""] * len(old)
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or end - start == last - first:
            result[start:end] = new[first:last]
        elif tag == "replace":
            for index in range(start, end):  # lines were put in between: take the most similar one
                ratios = [SequenceMatcher(None, old[index], line).ratio() for line in new[first:last]]
                result[index] = new[first + ratios.index(max(ratios))]
    return result


def _text_after(old: str, new: str, start: int, end: int) -> str:
    """Return the text that stands in the new line where the old one has [start, end)."""
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    old_offsets, new_offsets = _offsets(before), _offsets(after)
    pieces = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            shift = new_offsets[j1] - old_offsets[i1]
            low, high = max(start, old_offsets[i1]), min(end, old_offsets[i2])
            pieces.append(new[low + shift : high + shift] if low < high else "")
        elif old_offsets[i1] < end and start < old_offsets[i2]:
            pieces.append(new[new_offsets[j1] : new_offsets[j2]])
    return "".join(pieces)


def _offsets(tokens: list[str]) -> list[int]:
    offsets = [0]
    for token in tokens:
        offsets.append(offsets[-1] + len(token))
    return offsets


def score(judged: Iterable[Judged]) -> Score:
    places = list(judged)
    to_migrate = [place for place in places if place.label.answers == {MIGRATE}]
    return Score(
        places=len(places),
        edits=sum(place.edited for place in places),
        right_edits=sum(place.right_edit for place in places),
        to_migrate=len(to_migrate),
        migrated=sum(place.right_edit for place in to_migrate),
        silent=sum(place.silent for place in places),
        reported_though_fine=sum(place.reported and place.label.answers == {KEEP} for place in places),
    )


def format_scores(judged: Iterable[Judged]) -> str:
    """The score of each round of labelling."""
    places = list(judged)
    rounds = sorted({place.label.round for place in places})
    parts = []
    for number in rounds:
        result = score(place for place in places if place.label.round == number)
        parts.append(f"round {number}: {format_score(result)}")
    return "\n".join(parts)


def format_score(result: Score) -> str:
    """The score as lines of text."""
    return "\n".join(
        [
            f"{result.places} occurrences of cuda and nccl, labelled by hand",
            f"precision of edits  {result.precision:7.2%}  {result.right_edits} of {result.edits} are right",
            f"recall              {result.recall:7.2%}  {result.migrated} of {result.to_migrate} are migrated",
            f"passed in silence   {result.silent:7}  places that needed an edit or a finding",
            f"needless findings   {result.reported_though_fine:7}  at places to be kept",
        ]
    )


def format_problems(judged: Iterable[Judged]) -> str:
    """One line for each place that is wrong, missed or passed in silence: where, what, and the line's text."""
    lines = []
    for place in judged:
        wrong = place.edited and not place.right_edit
        problem = "wrong" if wrong else "missed" if place.missed else "silent" if place.silent else None
        if problem is not None:
            lines.append(f"{problem:6}  {place.label.place}  {place.label.word} is now {place.now}  |  {place.text}")
    return "\n".join(lines)


def main() -> int:
    """Print the score and what is wrong: `python -m benchmarks.labels`."""
    judged = judge_packages(TREES)
    print(format_problems(judged))
    print(format_scores(judged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
