"""verdict(), rules, check, analyse and the emulator's support table say the same of every name of every table.

The names are those of every release of torch_npu on PyPI, post releases and candidates too. By default a release is
walked where it differs from the one before it; GPU2NPU_TEST_VERDICTS=all walks all names of all releases, and shows
that no verdict differs where `touched` means that nothing does: four minutes of one core.
"""

import os

import pytest

from gpu2npu.analysis.file_analysis import FileAnalyser, FileQuestion
from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.engine import ProjectContext
from gpu2npu.kinds.name import NameMatch
from gpu2npu.project.migrator import Migrator
from gpu2npu.records import FindingKind
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.in_code import NPU_LIMIT
from gpu2npu.support.behaviour import rows_of
from gpu2npu.support.facts import documented, documented_names
from gpu2npu.support.operators import has_kernel, torch_release
from gpu2npu.support.release_tables import npu_spelling, table_for
from gpu2npu.support.releases import VERSIONS, torch_npu_versions
from gpu2npu.support.spellings import is_for_other_device
from gpu2npu.support.verdicts import VerdictKind, verdict
from tests.support.differences import names, touched

WALKS_ALL = os.environ.get("GPU2NPU_TEST_VERDICTS") == "all"
RELEASED = torch_npu_versions()
RULES = load_rulebook()
GOOD = (VerdictKind.NATIVE, VerdictKind.COMPOSITE)
# The kinds of findings that go with a verdict. A review asks a person about what works, or about what no table knows.
FITTING = {
    VerdictKind.NATIVE: {FindingKind.REVIEW},
    VerdictKind.COMPOSITE: {FindingKind.REVIEW},
    VerdictKind.FALLBACK: {FindingKind.FALLBACK},
    VerdictKind.UNSUPPORTED: {FindingKind.UNSUPPORTED},
    VerdictKind.UNKNOWN: {FindingKind.UNKNOWN, FindingKind.REVIEW},
}


def walked(version: str) -> list[str]:
    """The names to look at in a release: those that differ from the release before."""
    before = RELEASED[RELEASED.index(version) - 1] if version in RELEASED[1:] else None
    return list(names()) if before is None or WALKS_ALL else sorted(touched(before, version))


def disagreeing(called: list[str], version: str) -> list[tuple[object, ...]]:
    """The names of which check and analyse, which is a part of it, say another thing than the verdict."""
    source = "import torch\nimport torch_npu\n" + "".join(f"{name}()\n" for name in called)
    context = ProjectContext(version=version)
    analyser = FileAnalyser(version, frozenset({FileQuestion.TORCH_APIS}), context.project)
    checked = Migrator(RULES, context, analyser=analyser)(source.encode(), "names.py")
    assert checked.failure is None
    kinds: dict[str, set[FindingKind]] = {name: set() for name in called}
    limited = set()
    for finding in checked.findings:
        name = called[finding.span.start_line - 3]
        kinds[name].add(finding.kind)
        limited |= {name} if finding.rule == NPU_LIMIT else set()
    moved = {called[change.span.start_line - 3] for change in checked.changes if change.span.start_line > 2}
    found: list[tuple[object, ...]] = []
    for name in called:
        kind = verdict(name, version).kind
        is_silent = not kinds[name]
        if name in limited:
            fits = bool(rows_of(name))
        elif is_silent:
            fits = name in moved or kind in GOOD or (kind is VerdictKind.UNKNOWN and is_for_other_device(name))
        else:
            fits = kinds[name] <= FITTING[kind]
        if not fits:
            found.append((version, name, sorted(kinds[name]), kind))
    return found


@pytest.mark.parametrize("version", [VERSIONS[0], *(RELEASED if WALKS_ALL else RELEASED[::4])])
def test_check_and_the_verdicts_agree(version):
    assert disagreeing(walked(version), version) == []


def test_every_name_is_walked():
    """All of them in the first release, and after that some in each but those that repeat another wheel."""
    assert len(names()) > 11_000 and len(RELEASED) >= 67
    assert walked(RELEASED[0]) == list(names())
    assert sum(bool(walked(version)) for version in RELEASED) > 50


@pytest.mark.skipif(not WALKS_ALL, reason="GPU2NPU_TEST_VERDICTS=all walks every name of every release")
@pytest.mark.parametrize("version", RELEASED[1:])
def test_no_verdict_differs_but_of_touched_names(version):
    before = RELEASED[RELEASED.index(version) - 1]
    others = set(names()) - touched(before, version)
    assert [name for name in others if verdict(name, before).kind is not verdict(name, version).kind] == []


def test_rules_rename_as_the_tables_spell():
    """A rule that moves a name of torch.cuda into torch.npu moves it where `npu_spelling` says."""
    moved = {
        rule.match.name: rule.then.rename.replace("torch_npu.npu", "torch.npu")
        for rule in RULES.rules
        if isinstance(rule.match, NameMatch) and rule.match.name.startswith("torch.cuda.") and rule.then.rename
    }
    moved = {name: target for name, target in moved.items() if target.startswith("torch.npu.")}
    assert len(moved) > 10
    assert {name: target for name, target in moved.items() if npu_spelling(name) != target} == {}


def test_the_emulator_and_the_verdicts_ask_one_table(monkeypatch):
    try:
        for version in (VERSIONS[0], *RELEASED):
            monkeypatch.setenv("GPU2NPU_TORCH_NPU", version)
            support_table._table.cache_clear()
            table = table_for(version)
            torch = torch_release(table.release)
            operators = torch.operators.keys() | table.supported
            known = [name for name in operators if support_table.is_supported(name)]
            assert known == [name for name in operators if has_kernel(name, table, torch)] and len(known) > 900
            custom = {name.removeprefix("npu::").partition(".")[0] for name in table.custom}
            judged = {name: verdict(f"torch_npu.{name}", version).kind for name in custom}
            assert all(support_table.has_custom(name) and kind is VerdictKind.NATIVE for name, kind in judged.items())
    finally:
        support_table._table.cache_clear()


def test_no_name_that_pytorch_has_is_reported_not_to_exist():
    """Check that no public name of PyTorch, and no API of torch_npu's documentation, is called misspelled."""
    for version in (*VERSIONS, RELEASED[-1]):
        public = torch_release(table_for(version).release).names | documented_names()
        assert [name for name in sorted(public) if "PyTorch has no public" in verdict(name, version).evidence] == []


def test_the_documentation_is_heard_where_no_operator_speaks():
    """Few names documented as unsupported are called good: docs/documented-unsupported.md has them."""
    good = [
        name for name in documented_names() if not documented(name).supported and verdict(name, "2.7.1").kind in GOOD
    ]
    assert len(good) <= 60
    bad = (VerdictKind.UNKNOWN, VerdictKind.UNSUPPORTED)
    wrong = [name for name in documented_names() if documented(name).supported and verdict(name, "2.7.1").kind in bad]
    assert len(wrong) <= 30
