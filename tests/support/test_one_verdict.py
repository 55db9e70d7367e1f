"""Rules, verdict(), analyse and the emulator's support table say the same of every name of every table."""

import pytest

from gpu2npu.analysis.torch_apis.calls import known_verdict
from gpu2npu.emulator.device.dispatch import support_table
from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.kinds.name import NameMatch
from gpu2npu.records import FindingKind
from gpu2npu.rulebook import load_rulebook
from gpu2npu.support.documented import documented, documented_names
from gpu2npu.support.operators import has_kernel, torch_release
from gpu2npu.support.release_tables import cuda_names, npu_spelling, table_for
from gpu2npu.support.verdicts import VerdictKind, verdict

# The newest of an old and of a new PyTorch, and an old post release of one.
JUDGED = ("2.1.0", "2.7.1.post2", "2.13.0")
CUDA = sorted(name for name in cuda_names() if not any(part.startswith("_") for part in name.split(".")))
RULES = load_rulebook()
GOOD = (VerdictKind.NATIVE, VerdictKind.COMPOSITE)


def judged_by_rules(version: str) -> dict[str, tuple[str, set[FindingKind]]]:
    """Return what the rules make of each name of torch.cuda, and the kinds of their findings about it."""
    source = "import torch\n" + "".join(f"_ = {name}\n" for name in CUDA)
    result = migrate_source(source.encode(), "names.py", RULES, ProjectContext(version=version))
    assert result.content is not None
    lines = [line for line in result.content.decode().splitlines() if not line.startswith("import ")]
    kinds: dict[str, set[FindingKind]] = {name: set() for name in CUDA}
    for finding in result.findings:
        kinds[CUDA[finding.span.start_line - 2]].add(finding.kind)
    return {name: (line.removeprefix("_ = "), kinds[name]) for name, line in zip(CUDA, lines, strict=True)}


@pytest.mark.parametrize("version", JUDGED)
def test_rules_and_verdicts_agree_about_torch_cuda(version):
    disagreeing = []
    for name, (written, kinds) in judged_by_rules(version).items():
        kind = verdict(name, version).kind
        moved = written != name and FindingKind.UNSUPPORTED not in kinds
        if (moved and kind is VerdictKind.UNSUPPORTED) or (FindingKind.UNSUPPORTED in kinds and kind in GOOD):
            disagreeing.append((name, written, sorted(kinds), kind))
    assert disagreeing == []


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


@pytest.mark.parametrize("version", JUDGED)
def test_the_emulator_and_the_verdicts_ask_one_table(version, monkeypatch):
    monkeypatch.setenv("GPU2NPU_TORCH_NPU", version)
    support_table._table.cache_clear()
    table = table_for(version)
    torch = torch_release(table.release)
    try:
        operators = torch.operators.keys() | table.supported
        assert [name for name in operators if support_table.is_supported(name) != has_kernel(name, table, torch)] == []
    finally:
        support_table._table.cache_clear()
    assert len(operators) > 2000


@pytest.mark.parametrize("version", JUDGED)
def test_analyse_says_what_the_verdict_says(version):
    """Check that both agree; where analyse knows another spelling of a name, that has a verdict of its own."""
    names = documented_names() | torch_release(table_for(version).release).names
    differing = [
        name for name in names if (judged := known_verdict(name, version)).kind is not verdict(judged.api, version).kind
    ]
    assert differing == [] and len(names) > 8000


@pytest.mark.parametrize("version", JUDGED)
def test_no_name_that_pytorch_has_is_said_not_to_exist(version):
    """Check that no public name of PyTorch, and no API of torch_npu's documentation, is called misspelled."""
    names = torch_release(table_for(version).release).names | documented_names()
    assert [name for name in sorted(names) if "PyTorch has no public" in verdict(name, version).evidence] == []


def test_the_documentation_is_heard_where_no_operator_speaks():
    """Of names documented as unsupported few are called good: docs/documented-unsupported.md has them."""
    good = [
        name for name in documented_names() if not documented(name).supported and verdict(name, "2.7.1").kind in GOOD
    ]
    assert len(good) <= 60
    bad = (VerdictKind.UNKNOWN, VerdictKind.UNSUPPORTED)
    wrong = [name for name in documented_names() if documented(name).supported and verdict(name, "2.7.1").kind in bad]
    assert len(wrong) <= 30
