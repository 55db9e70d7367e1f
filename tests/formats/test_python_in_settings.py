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
    ("before", "wanted"),
    [
        ('n: ${eval:"4 if torch.cuda.is_available() else 0"}\n', 'n: ${eval:"4 if torch.npu.is_available() else 0"}\n'),
        ("n: ${calc:torch.cuda.device_count()}\n", "n: ${calc:torch.npu.device_count()}\n"),
        ("device: ${pick:cuda}\n", "device: ${pick:npu}\n"),
        ("device: ${oc.select:main.device,'cuda:1'}\n", "device: ${oc.select:main.device,'npu:1'}\n"),
        (
            """a: "${eval:'torch.device(\\"cuda:0\\")'}"\n""",
            """a: "${eval:'torch.device(\\"npu:0\\")'}"\n""",
        ),
        ("sync: !!python/name:torch.cuda.synchronize\n", "sync: !!python/name:torch.npu.synchronize\n"),
        (
            "n: !!python/object/apply:torch.cuda.device_count []\n",
            "n: !!python/object/apply:torch.npu.device_count []\n",
        ),
        ("help: Call torch.cuda.is_available() first.\n", "help: Call torch.cuda.is_available() first.\n"),
    ],
)
def test_what_resolvers_and_tags_take_for_python_is_edited(before, wanted):
    assert after(before, "conf.yaml")[0] == wanted


def test_code_in_quotes_that_cannot_be_edited_is_reported():
    before = """a: '${eval:''torch.device("cuda:0")''}'\n"""
    text, messages = after(before, "conf.yaml")
    assert text == before
    assert len(messages) == 1


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


@pytest.mark.parametrize("given", ["DEVICE: ${{ matrix.device }}", "'DEVICE': \"${{matrix.device}}\""])
def test_a_matrix_that_is_compared_by_the_name_of_a_variable_is_only_reported(given):
    matrix = "jobs:\n  t:\n    strategy:\n      matrix: {device: [cpu, cuda]}\n"
    source = f"{matrix}    env:\n      {given}\n    if: env.DEVICE == 'cuda'\n"
    text, messages = after(source, ".github/workflows/a.yml")
    assert text == source
    assert any("Conditions of this workflow" in message for message in messages)


@pytest.mark.parametrize(
    "test", ["env.DEVICE == 'cuda'", "${{ env.DEVICE != 'cuda' }}", "contains(env.DEVICE, 'cuda')"]
)
def test_a_variable_that_conditions_compare_is_only_reported(test):
    source = f"env:\n  DEVICE: cuda\njobs:\n  test:\n    if: {test}\n"
    text, messages = after(source, ".github/workflows/a.yml")
    assert text == source
    assert any("Conditions of this workflow" in message for message in messages)


def test_a_variable_that_nothing_compares_is_renamed():
    assert after("env:\n  DEVICE: cuda\n", ".github/workflows/a.yml")[0] == "env:\n  DEVICE: npu\n"


def test_each_edit_of_an_expression_is_of_its_own_rule():
    source = b"""{"d": "$ torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')"}"""
    migrated = migrate_file(source, "a.json", RULEBOOK, ProjectContext(has_plugin=True))
    assert migrated.content == source.replace(b"cuda", b"npu")
    assert {(change.before, change.rule) for change in migrated.changes} == {
        ("'cuda:0'", "device-string"),
        ("cuda", "torch-cuda"),
    }
