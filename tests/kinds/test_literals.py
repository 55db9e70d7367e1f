"""Rules about texts, patterns, environment variables and commands in Python code."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.python.tree import nodes
from gpu2npu.rulebook import load_rulebook

RULES = [
    {"id": "visible", "match": {"environment": "GPU_SET"}, "then": {"rename": "NPU_SET"}},
    {
        "id": "family",
        "match": {"environment": "GPUX_*"},
        "then": {"report": {"kind": "review", "message": "No counterpart."}},
    },
    {"id": "tool", "match": {"command": "gpu-smi"}, "then": {"rename": "npu-smi info"}},
    {"id": "text", "match": {"string": "gpu://pool"}, "then": {"rename": "npu://pool"}},
    {"id": "pattern", "match": {"pattern": r"tesla-(\w+)"}, "then": {"rename": r"ascend-\1"}},
]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("os.environ['GPU_SET'] = '0'", "os.environ['NPU_SET'] = '0'"),
        ("n = os.getenv('GPU_SET', '')", "n = os.getenv('NPU_SET', '')"),
        ("env = dict(os.environ, GPU_SET='0')", "env = dict(os.environ, NPU_SET='0')"),
        ("os.system('GPU_SET=0 python a.py')", "os.system('NPU_SET=0 python a.py')"),
        ("os.system(f'GPU_SET={i} python $GPU_SET')", "os.system(f'NPU_SET={i} python $NPU_SET')"),
        ("os.system(f'{a}  # $GPU_SET')", "os.system(f'{a}  # $NPU_SET')"),
        ("os.system('echo ${GPU_SET}')", "os.system('echo ${NPU_SET}')"),
        ("run('export MY_GPU_SET=1 GPU_SET=2')", "run('export MY_GPU_SET=1 NPU_SET=2')"),
        ("if 'GPU_SET' in os.environ: ...", "if 'NPU_SET' in os.environ: ..."),
        ("pool = connect('gpu://pool')", "pool = connect('npu://pool')"),
        ("kind = 'on tesla-v100'", "kind = 'on ascend-v100'"),
    ],
)  # fmt: skip
def test_strings_are_renamed(migrate_with, before: str, after: str) -> None:
    result = migrate_with(RULES, before)
    assert (result.content or before.encode()).decode() == after


@pytest.mark.parametrize(
    "text",
    [
        '"""Set GPU_SET=1 before."""',
        "print('GPU_SET=1 helps')",
        "raise ValueError('GPU_SET')",
        "parser.add_argument('-x', help='like GPU_SET=1')",
        "x = 'MY_GPU_SET'",
        "x = 'gpu-smith'",
        "logger.info('gpu-smi not found')",
        "x = 'see gpu://pool'",
        '"""Runs on tesla-v100."""',
        "args['gpu-smi'].append(1)",
        "slow = getattr(kernels, 'GPUX_KERNEL', True)",
        "__all__ = ['GPUX_KERNEL']",
    ],
)
def test_prose_and_other_names_stay_in_silence(migrate_with, text: str) -> None:
    result = migrate_with(RULES, text)
    assert (result.content, result.findings) == (None, ())


def test_a_family_and_a_command_are_reported(migrate_with) -> None:
    text = "os.environ['GPUX_DEBUG'] = '1'\nsubprocess.run(['gpu-smi', '-L'])\nos.popen('/usr/bin/gpu-smi -q')\n"
    result = migrate_with(RULES, text)
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["family", "tool", "tool"]


def test_a_file_that_knows_the_new_variable_is_left_and_reported(migrate_with) -> None:
    text = "keys = ['NPU_SET', 'GPU_SET']\n"
    result = migrate_with(RULES, text)
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["visible"]


def test_a_replacement_that_would_end_the_string_is_reported(migrate_with) -> None:
    rule = {"id": "quote", "match": {"pattern": "gpu"}, "then": {"rename": "n'pu"}}
    result = migrate_with([rule], "x = 'gpu'\n")
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["quote"]


def test_a_text_of_several_lines_keeps_them(migrate_with) -> None:
    before = "def f():\n    g(\n        '''\n  on tesla-v100\n\n''')\n"
    result = migrate_with(RULES, before)
    assert result.content.decode() == before.replace("tesla", "ascend")


def test_what_prints_a_variable_reads_it(migrate) -> None:
    before = (
        "print('CUDA_VISIBLE_DEVICES=', os.environ['CUDA_VISIBLE_DEVICES'], 'CUDA_VISIBLE_DEVICES' in os.environ)\n"
    )
    after = before.replace("'CUDA_VISIBLE_DEVICES'", "'ASCEND_RT_VISIBLE_DEVICES'")
    assert migrate(before) == after


def test_the_name_of_an_error_is_no_variable_of_its_family(migrate_with) -> None:
    found = migrate_with([], "import torch\nlost = 'CUBLAS_STATUS_ALLOC_FAILED' in str(error)\n").findings
    assert [finding.rule for finding in found] == ["cuda-error-text"]
    found = migrate_with([], "import os\nos.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\n").findings
    assert [finding.rule for finding in found] == ["env-cublas"]


def test_a_backslash_in_a_new_text_stays_one(migrate_with) -> None:
    rule = {"id": "disk", "match": {"pattern": "D:/gpu"}, "then": {"rename": r"D:\\npu"}}
    assert migrate_with([rule], 'x = r"D:/gpu"\n').content == b'x = r"D:\\npu"\n'
    result = migrate_with([rule], 'x = "D:/gpu"\n')
    assert result.content is None and [finding.rule for finding in result.findings] == ["disk"]


@pytest.mark.parametrize(
    ("call", "new", "read"),
    [
        ("p.add_argument('--max-gpus', type=int)", "--max-npus", "reads this option as `.max_gpus`"),
        ("p.add_argument('--max-gpus', type=int)", "--the-max-gpus", "reads this option as `.max_gpus`"),
        ("p.add_argument('--max-gpus', type=int)", "--max_gpus", None),
        ("p.add_argument('-g', '--max-gpus')", "--max-npus", "dest='max_gpus'"),
        ("p.add_argument(short, '--max-gpus', default='--max-gpus')", "--max-npus", "dest='max_gpus'"),
        ("p.add_argument('--max-gpus', dest='cards')", "--max-npus", None),
        ("@click.option('--max-gpus', default=1)\ndef main(max_gpus): ...", "--max-npus", "parameter `max_gpus`"),
        ("@click.option('--max-gpus', 'cards')\ndef main(cards): ...", "--max-npus", None),
        ("run('--max-gpus')", "--max-npus", None),
    ],
)
def test_a_renamed_option_is_reported_since_its_attribute_stays(
    migrate_with, call: str, new: str, read: str | None
) -> None:
    rule = {"id": "o", "match": {"string": "--max-gpus"}, "then": {"rename": new}}
    result = migrate_with([rule], f"{call}\nprint(args.max_gpus)\n")
    assert result.content.decode() == f"{call}\nprint(args.max_gpus)\n".replace("--max-gpus", new)
    reported = [(each.span.start_line, each.rule, each.api, read in each.message) for each in result.findings]
    assert reported == ([] if read is None else [(1, "o", "--max-gpus", True)])


@pytest.mark.parametrize("search", ["'CUDA_LAUNCH_BLOCKING=1' in log", "log.find('CUDA_LAUNCH_BLOCKING=1')"])
def test_a_setting_that_is_looked_for_in_a_text_stays_and_is_reported(migrate_with, search: str) -> None:
    result = migrate_with([], f"found = {search}\n")
    assert result.content is None
    assert ["Looked for in another text" in finding.message for finding in result.findings] == [True]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 'GPU_LIST=1 run'", "x = 'NPU_CARDS=1 run'"),  # the variable that the pattern has written
        ("x = 'gpu://pool'", "x = 'npu://pool'"),  # a rule for the whole text ends the search
    ],
)
def test_whole_texts_come_before_patterns_and_these_before_variables(migrate_with, before: str, after: str) -> None:
    rules = [
        {"id": "variable", "match": {"environment": "NPU_LIST"}, "then": {"rename": "NPU_CARDS"}},
        {"id": "pattern", "match": {"pattern": "(?i)gpu(_LIST|://pool)"}, "then": {"rename": r"NPU\1"}},
        {"id": "text", "match": {"string": "gpu://pool"}, "then": {"rename": "npu://pool"}},
    ]
    assert migrate_with(rules, before).content.decode() == after


def test_a_file_is_not_searched_anew_for_each_variable(migrate_with, monkeypatch: pytest.MonkeyPatch) -> None:
    children, visits = nodes.child_nodes, []

    def counted(node):
        visits.append(node)
        return children(node)

    def visits_of(lines: int) -> int:
        visits.clear()
        result = migrate_with(RULES, "import os\n" + "x = os.environ['GPU_SET']\n" * lines)
        assert result.content.decode().count("'NPU_SET'") == lines
        return len(visits)

    monkeypatch.setattr(nodes, "child_nodes", counted)
    assert 0 < visits_of(40) < 5 * visits_of(10)


@pytest.mark.parametrize(
    ("known", "renames"), [("y = 'NPU_SET=1 run'", False), ("y = 'NPU_SETS MY_NPU_SET'", True), ("# NPU_SET", True)]
)
def test_a_variable_that_the_code_knows_under_its_new_name_stays(migrate_with, known: str, renames: bool) -> None:
    result = migrate_with(RULES, f"x = os.environ['GPU_SET']\n{known}\n")
    assert (result.content is not None) == renames
    assert [finding.message for finding in result.findings] == (
        [] if renames else ["This file knows NPU_SET already; left as it is."]
    )


def test_a_text_with_a_role_is_no_regular_expression(migrate_with) -> None:
    rule = {"id": "pool", "match": {"string": "gpu(0", "role": "device"}, "then": {"rename": "npu(0"}}
    result = migrate_with([rule], 'import torch\ndevice = "GPU(0"\nx = torch.zeros(1, device=device)\n')
    assert result.failure is None and b'device = "NPU(0"' in result.content


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        *(("Образ/train", "Образ/train"), ("(?i)образ/train", "Образ/train"), ("镜像", "镜像"), ("镜*像?/", "/")),
        *((r"(?:a\镜|镜)", "镜"), (r"\u955c\N{SPACE}", "镜 "), ("镜.像", "镜的像"), (r"a-\w+", "a-镜像")),
    ],
)
def test_a_pattern_with_letters_outside_ascii_matches_in_any_file(migrate_with, tmp_path, pattern, image) -> None:
    rule = {"id": "image", "match": {"pattern": rf"{pattern}:cu\d+"}, "then": {"rename": "cann"}}
    assert migrate_with([rule], f"x = '{image}:cu118'\n").content.decode() == "x = 'cann'\n"
    own = load_rulebook([tmp_path / "own.json"])
    assert migrate_file(f"x: {image}:cu118\n".encode(), "a.yaml", own, ProjectContext()).content == b"x: cann\n"


@pytest.mark.parametrize("pattern", ["образ", r"[o]br", "(?x) o b r"])
def test_a_pattern_that_requires_no_text_leaves_the_other_rules(migrate_with, pattern: str) -> None:
    rule = {"id": "image", "match": {"pattern": pattern}, "then": {"rename": "npu"}}
    text = 'import torch\nx = torch.zeros(1, device="cuda")\ny = "образ", "obr"\n'
    written = migrate_with([rule], text).content.decode()
    assert 'device="npu"' in written and '"npu"' in written.splitlines()[-1]


def test_a_pattern_is_looked_for_in_a_file_of_another_encoding(migrate_with, tmp_path) -> None:
    rule = {"id": "image", "match": {"pattern": r"caf\xe9-gpu\d+"}, "then": {"rename": "cann"}}
    assert migrate_with([rule], "x = 1\n").content is None
    source, own = "# coding: latin-1\nx = 'café-gpu30'\n".encode("latin-1"), load_rulebook([tmp_path / "own.json"])
    assert migrate_file(source, "a.py", own, ProjectContext()).content == b"# coding: latin-1\nx = 'cann'\n"
