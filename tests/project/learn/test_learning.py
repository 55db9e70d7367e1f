"""Rules that two migrations by hand speak for: which are proposed, and what they make of the project before."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from gpu2npu.project.learn.learning import Learned, amount, learn_rules
from gpu2npu.project.learn.proposals import rule_file
from gpu2npu.project.learn.python import aligned
from gpu2npu.project.migration import preview_project
from gpu2npu.project.rule_examples import run_examples
from gpu2npu.project.settings import Settings
from gpu2npu.rulebook import load_rulebook

VERSION = "2.1.0"
PROJECTS = Path(__file__).parent / "projects"
EXPECTED = {
    "teamlib": [
        ({"name": "teamlib.gpu"}, {"rename": "teamlib.npu"}),
        ({"member": "teamlib.Trainer.to_gpu"}, {"rename": "to_npu"}),
        ({"argument": "eps", "of": "teamlib.gpu.norm"}, {"replace": "epsilon={value}"}),
        ({"setting": "trainer.accelerator", "values": ["gpu-a100"]}, {"rename": "npu-910b"}),
        ({"decorator": "teamlib.capture"}, {"remove": True}),
        ({"code": "$X.on_gpu", "types": {"X": "teamlib.Batch"}}, {"replace": "$X.is_on('npu')"}),
        ({"code": "teamlib.compile(...)"}, {"replace": "teamlib.compile(..., level=2)"}),
        ({"environment": "TEAM_GPU_POOL"}, {"rename": "TEAM_NPU_POOL"}),
        ({"argument": "gpus", "of": "teamlib.start"}, {"replace": "npus={value}"}),
        ({"argument": "capturable", "of": "teamlib.gpu.optim.FusedAdam"}, {"remove": True}),
        ({"code": "teamlib.gpu.reset_graphs(...)"}, {"remove": True}),
        ({"argument": "pool", "of": "teamlib.save", "value": "gpu-pool"}, {"rename": "npu-pool"}),
    ],
    "pipeline": [
        ({"environment": "FASTDATA_GPU_LIMIT"}, {"rename": "FASTDATA_NPU_LIMIT"}),
        ({"class": "servekit.Model"}, {"add": {"base": "servekit.npu.Mixin"}}),
        (
            {"code": "fastdata.gpu.loader($X, $Y, workers=$Z)"},
            {"replace": "fastdata.npu_loader($X, batch=$Y, workers=$Z)"},
        ),
        ({"setting": "pool.kind", "values": ["gpu-pinned"]}, {"rename": "npu-pinned"}),
        ({"code": "fastdata.open_pool(...)"}, {"add": {"statement": "fastdata.warm_up()", "place": "after"}}),
        ({"code": "fastdata.tile($Y, $X, True)"}, {"replace": "fastdata.tiled($X, $Y)"}),
        ({"member": "fastdata.Table.upload"}, {"rename": "to_npu"}),
        ({"argument": "mode", "of": "fastdata.sync", "value": "stream"}, {"rename": "queue"}),
    ],
}
# The lines that differ: between the folders, after the built-in rules, and after the proposed ones.
NUMBERS = {"teamlib": (41, 32, 2), "pipeline": (25, 25, 5)}


@cache
def learned(project: str) -> Learned:
    return learn_rules(PROJECTS / project / "before", PROJECTS / project / "after", VERSION)


@pytest.mark.parametrize("project", EXPECTED)
def test_the_rules_that_are_proposed(project: str) -> None:
    rules = json.loads(rule_file(learned(project).proposals))["rules"]
    assert [(rule["match"], rule["then"]) for rule in rules] == EXPECTED[project]


@pytest.mark.parametrize("project", EXPECTED)
def test_they_pass_their_examples_and_make_most_of_the_project_after(project: str, tmp_path: Path) -> None:
    found = learned(project)
    assert (found.by_hand, found.without, amount(found.left)) == NUMBERS[project]
    file = tmp_path / "learned.json"
    file.write_text(rule_file(found.proposals), encoding="utf-8")
    rulebook = load_rulebook([file])
    assert [run.problem for run in run_examples(rulebook.rules[: len(found.proposals)], rulebook)].count(None) >= 10
    request = PROJECTS / project / "before", Settings(VERSION, rules=(file,), jobs=1)
    contents = {each.path: each.content for each in preview_project(*request).outcome.files}
    left = {each.path for each in found.left}
    for path in {"models.py", "conf.yaml", "config.json", "run.sh", "Dockerfile"} & contents.keys() - left:
        assert contents[path].replace(b"'", b'"') == (PROJECTS / project / "after" / path).read_bytes()


def test_what_no_rule_explains_is_reported() -> None:
    teamlib, pipeline = learned("teamlib"), learned("pipeline")
    assert [(each.path, each.line, each.after) for each in teamlib.left] == [
        ("train.py", 31, ('    print("it took", teamlib.clock(), "s")',))
    ]
    assert [each.line for each in pipeline.left] == [2, 5, 36]  # where an import stands, and a statement more
    assert (teamlib.unpaired, pipeline.unpaired) == ((), ("notes.py",))


def learned_from(folder: Path, before: str, after: str) -> Learned:
    for name, text in (("before", before), ("after", after)):
        (folder / name).mkdir()
        (folder / name / "a.py").write_text(text, encoding="utf-8")
    return learn_rules(folder / "before", folder / "after", VERSION)


def test_what_the_built_in_rules_make_needs_no_rule(tmp_path: Path) -> None:
    found = learned_from(
        tmp_path,
        "import torch\nx = torch.ones(2).cuda()\n",
        "import torch\nimport torch_npu\nx = torch.ones(2).npu()\n",
    )
    assert (found.proposals, found.left, found.without) == ((), (), 0)


def test_a_name_that_stays_speaks_against_a_rule_for_all_beside_it(tmp_path: Path) -> None:
    before = "from lib.gpu import a, b\na(1)\nb(2)\n"
    found = learned_from(tmp_path, before, "from lib.npu import a\nfrom lib.gpu import b\na(1)\nb(2)\n")
    assert [(each.rule.match.subject, each.rule.then.rename) for each in found.proposals] == [
        ("lib.gpu.a", "lib.npu.a")
    ]
    assert found.left == ()


def test_a_change_that_was_made_at_one_of_two_places_is_no_rule(tmp_path: Path) -> None:
    before = "import lib\nlib.run(mode='stream')\nlib.run(mode='stream')\n"
    found = learned_from(tmp_path, before, "import lib\nlib.run(mode='queue')\nlib.run(mode='stream')\n")
    assert (found.proposals, amount(found.left)) == ((), 2)


def test_calls_of_the_project_itself_are_no_rule(tmp_path: Path) -> None:
    before = "def own(a): ...\n\n\nown(1)\nown(a=2)\n"
    found = learned_from(tmp_path, before, "def own(b): ...\n\n\nown(1)\nown(b=2)\n")
    assert found.proposals == ()


def test_statements_are_paired_by_likeness() -> None:
    before = ast.parse("x = load(1)\ny = lib.gpu.f(x)\nz = 3\n").body
    after = ast.parse("x = load(1)\nwarm()\ny = lib.npu.f(x)\n").body
    pairs = [tuple(each and ast.unparse(each) for each in pair) for pair in aligned(before, after)]
    assert pairs == [
        ("x = load(1)", "x = load(1)"),
        (None, "warm()"),
        ("y = lib.gpu.f(x)", "y = lib.npu.f(x)"),
        ("z = 3", None),
    ]


def test_what_a_known_rule_does_is_not_proposed_and_an_unread_file_is_named(tmp_path: Path) -> None:
    files = {"before": ("import torch\nx = x.cuda()\n", "x = 1\n"), "after": ("x = x.npu()\n", "x = (\n")}
    for folder, (train, other) in files.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(train, encoding="utf-8")
        (tmp_path / folder / "other.py").write_text(other, encoding="utf-8")
    found = learn_rules(tmp_path / "before", tmp_path / "after", VERSION)
    assert (found.proposals, found.unread) == ((), ("other.py",))


def _learned_from(folder: Path, before: dict[str, str], after: dict[str, str]) -> list[tuple[object, object]]:
    for name, texts in (("before", before), ("after", after)):
        for path, text in texts.items():
            (folder / name).mkdir(exist_ok=True)
            (folder / name / path).write_text(text, encoding="utf-8")
    found = learn_rules(folder / "before", folder / "after", VERSION)
    entries = json.loads(rule_file(found.proposals))["rules"]
    return [(entry["match"], entry["then"]) for entry in entries]


def test_a_word_that_may_mean_anything_is_no_rule(tmp_path: Path) -> None:
    before = "x = 'gpu'\ny.gpu = y.gpu(1)\nprint(z.gpu)\n"
    assert _learned_from(tmp_path, {"a.py": before}, {"a.py": before.replace("gpu", "npu")}) == []


def test_a_string_that_stays_somewhere_is_no_rule(tmp_path: Path) -> None:
    before = {"a.py": "x = ['old-pool']\ny = ['old-pool', 2]\nz = ['old-pool', 3]\n", "a.yaml": "a: old-pool\n"}
    after = {"a.py": before["a.py"].replace("old-pool", "new-pool"), "a.yaml": before["a.yaml"]}
    assert _learned_from(tmp_path, before, after) == []


def test_a_string_with_a_meaning_of_its_own_is_a_rule(tmp_path: Path) -> None:
    before = "x = ['gpu-pinned', 'gpu']\n"
    found = _learned_from(tmp_path, {"a.py": before}, {"a.py": before.replace("gpu-p", "npu-p")})
    assert found == [({"string": "gpu-pinned"}, {"rename": "npu-pinned"})]


def test_settings_in_dictionaries_are_settings_and_lists_are_compared_by_place(tmp_path: Path) -> None:
    python = "settings = {'eng': {'kind': 'gpu'}, 'plot': {'kind': 'gpu'}}\n"
    yaml = "stages:\n  - kind: gpu\n  - kind: cpu\nenv:\n  LIB_GPU_A: 1\nrun: launch --gpus 4\n"
    before = {"a.py": python, "a.yaml": yaml}
    new_yaml = yaml.replace("kind: gpu", "kind: npu").replace("LIB_GPU_A", "LIB_NPU_A").replace("--gpus", "--npus")
    after = {"a.py": python.replace("'gpu'", "'npu'", 1), "a.yaml": new_yaml}
    settings = [({"setting": each, "values": ["gpu"]}, {"rename": "npu"}) for each in ("eng.kind", "stages.kind")]
    assert sorted(map(str, _learned_from(tmp_path, before, after))) == sorted(map(str, settings))


def test_files_in_other_encodings_and_statements_without_words(tmp_path: Path) -> None:
    for name, other in (("before", "---"), ("after", "===")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_bytes(b"# coding: latin-1\nimport torch\nx = torch.cuda.Event()  # \xe9\n")
        (tmp_path / name / "b.py").write_text(f'import torch\n"""{other}"""\n')
    assert not learn_rules(tmp_path / "before", tmp_path / "after", VERSION).proposals
