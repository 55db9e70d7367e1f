"""Python in the strings of configurations."""

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.rulebook import load_rulebook

RULEBOOK = load_rulebook()


def after(text, path):
    migrated = migrate_file(text.encode(), path, RULEBOOK, ProjectContext(has_plugin=True))
    return (migrated.content or text.encode()).decode(), [finding.message for finding in migrated.findings]


@pytest.mark.parametrize(
    ("path", "before", "wanted"),
    [
        ("a.json", """{"d": "$torch.device('cuda:1')"}""", """{"d": "$torch.device('npu:1')"}"""),
        ("a.yaml", "go: $dist.init_process_group('nccl')\n", "go: $dist.init_process_group('hccl')\n"),
        ("a.yml", "net:\n- '$@net_def.to(@device).cuda()'\n", "net:\n- '$@net_def.to(@device).npu()'\n"),
        ("b.json", """{"price": "$5 for cuda"}""", """{"price": "$5 for cuda"}"""),
    ],
)
def test_expressions_of_bundles_are_edited_as_python(path, before, wanted):
    assert after(before, path)[0] == wanted


@pytest.mark.parametrize(
    "entries", ['{include: [{device: "cuda"}]}', "{device: [cpu, cuda]}", "\n        device:\n        - cuda"]
)
@pytest.mark.parametrize(
    "test", ["matrix.device == 'cuda'", "'cuda' != matrix.device", "startsWith(matrix.device, 'cuda')"]
)
def test_a_matrix_that_conditions_compare_is_only_reported(entries, test):
    source = f"""jobs:
  test:
    strategy:
      matrix: {entries}
    if: "${{{{ {test} }}}}"
"""
    text, messages = after(source, ".github/workflows/a.yml")
    assert text == source
    assert any("Conditions of this workflow" in message for message in messages)


def test_each_edit_of_an_expression_is_of_its_own_rule():
    source = b"""{"d": "$ torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')"}"""
    migrated = migrate_file(source, "a.json", RULEBOOK, ProjectContext(has_plugin=True))
    assert migrated.content == source.replace(b"cuda", b"npu")
    assert {(change.before, change.rule) for change in migrated.changes} == {
        ("'cuda:0'", "device-string"),
        ("cuda", "torch-cuda"),
    }
