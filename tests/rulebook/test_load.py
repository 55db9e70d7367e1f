"""Rule files of users: what they can do, and what a wrong one says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpu2npu.builtin_rules import builtin_rules_dir
from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.rulebook import RuleError, load_rulebook

RULE = {
    "id": "fuse",
    "why": "The library has an NPU build.",
    "match": {"name": "fastlib.gpu.fuse"},
    "then": {"rename": "fastlib.npu.fuse"},
    "examples": [
        {
            "before": "import fastlib.gpu\nfastlib.gpu.fuse(x)\n",
            "after": "import fastlib.gpu\nimport fastlib.npu\nfastlib.npu.fuse(x)\n",
        }
    ],
}


def write(folder: Path, *rules: dict, name: str = "mine.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"rules": list(rules)}), encoding="utf-8")
    return path


def migrate(text: str, *files: Path) -> str:
    result = migrate_source(text.encode(), "a.py", load_rulebook(files), ProjectContext())
    return text if result.content is None else result.content.decode()


def test_the_built_in_files_are_read_once(tmp_path: Path) -> None:
    with_own = load_rulebook([write(tmp_path, RULE)])
    built_in = {rule.id: rule for rule in load_rulebook().rules}
    assert [rule.id for rule in with_own.rules if built_in.get(rule.id) is not rule] == ["fuse"]


def test_a_users_rule_works(tmp_path: Path) -> None:
    path = write(tmp_path, RULE)
    assert migrate("from fastlib.gpu import fuse\nfuse(x)\n", path) == "from fastlib.npu import fuse\nfuse(x)\n"
    before = "import fastlib.gpu as g\ng.fuse(x)\n"
    assert migrate(before, path) == "import fastlib.gpu as g\nimport fastlib.npu\nfastlib.npu.fuse(x)\n"


def test_a_name_that_moves_is_spelled_through_the_files_own_alias(tmp_path: Path) -> None:
    rule = {**RULE, "match": {"name": "torch.cuda.OutOfMemoryError"}, "then": {"rename": "torch.OutOfMemoryError"}}
    path = write(tmp_path, rule)
    assert migrate("import torch as T\nT.cuda.OutOfMemoryError\n", path) == "import torch as T\nT.OutOfMemoryError\n"
    before = "from torch.cuda import OutOfMemoryError as OOM, Event\ntry: ...\nexcept OOM: Event()\n"
    after = "from torch import OutOfMemoryError as OOM\nfrom torch.npu import Event\ntry: ...\nexcept OOM: Event()\n"
    assert migrate(before, path) == "import torch_npu\n" + after


def test_a_users_rule_comes_before_the_built_in_ones(tmp_path: Path) -> None:
    keep = {
        "id": "keep-seed",
        "why": "Our launcher patches this one.",
        "match": {"name": "torch.cuda.manual_seed"},
        "then": {"keep": True},
        "examples": [{"keep": "import torch\ntorch.cuda.manual_seed(1)\n"}],
    }
    text = "import torch\ntorch.cuda.manual_seed(1)\n"
    assert "npu" in migrate(text)
    assert migrate(text, write(tmp_path, keep)) == text


def test_a_shorter_name_of_the_user_beats_a_longer_built_in_one(tmp_path: Path) -> None:
    keep = {**RULE, "id": "keep-nn", "match": {"name": "torch.nn"}, "then": {"keep": True}}
    path = write(tmp_path, keep)
    source = b"import torch\ntorch.nn.DataParallel(m)\n"
    assert migrate_source(source, "a.py", load_rulebook(), ProjectContext()).findings
    assert not migrate_source(source, "a.py", load_rulebook([path]), ProjectContext()).findings


def test_rules_bound_to_versions(tmp_path: Path) -> None:
    path = write(tmp_path, {**RULE, "since": "2.2.0", "until": "2.10.0"})
    source = b"import fastlib.gpu\nfastlib.gpu.fuse(x)\n"
    changed = {
        version: migrate_source(source, "a.py", load_rulebook([path]), ProjectContext(version=version)).content
        is not None
        for version in ("2.1.0", "2.2.0", "2.9.0", "2.10.0", "2.11.0")
    }
    assert changed == {"2.1.0": False, "2.2.0": True, "2.9.0": True, "2.10.0": True, "2.11.0": False}


def test_a_role_of_a_known_name_is_added_to_it(tmp_path: Path) -> None:
    path = tmp_path / "role.json"
    path.write_text(json.dumps({"roles": {"device": {"words": ["target_chip"]}}}), encoding="utf-8")
    text = "target_chip = 'cuda'\ndevice = 'cuda'\n"
    assert migrate(text, path) == "target_chip = 'npu'\ndevice = 'npu'\n"


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"id": "Fuse It"}, "$.rules[0].id", "does not match"),
        ({"examples": []}, "$.rules[0].examples", "is empty"),
        ({"match": {"method": "a b"}}, "$.rules[0].match.method", "does not match"),
        ({"match": {"string": "cuda", "role": "gadget"}}, "$.rules[0].match.role", "no role is called 'gadget'"),
        ({"then": {}}, "$.rules[0].then", "is empty"),
        ({"then": {"renmae": "x"}}, "$.rules[0].then", "'renmae' is not a key here"),
        (
            {"then": {"report": {"kind": "bad", "message": "m"}}},
            "$.rules[0].then.report.kind",
            "is not a value of this key",
        ),
        ({"id": "torch-cuda"}, "$.rules", "is a built-in rule's id"),
    ],
)
def test_errors_name_the_file_the_path_and_the_reason(tmp_path: Path, change: dict, where: str, reason: str) -> None:
    path = write(tmp_path, {**RULE, **change})
    with pytest.raises(RuleError) as caught:
        load_rulebook([path])
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    assert where in text
    assert reason in text


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, {key: value for key, value in RULE.items() if key != "why"})
    with pytest.raises(RuleError, match=re.escape("$.rules[0]: these keys are missing: 'why'.")):
        load_rulebook([path])


def test_a_file_that_is_no_json_says_where(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"rules": [\n  {,\n', encoding="utf-8")
    with pytest.raises(RuleError, match=re.escape(f"{path}:2:4: is not JSON")):
        load_rulebook([path])


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="cannot be read"):
        load_rulebook([tmp_path / "none.json"])
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="is not UTF-8"):
        load_rulebook([tmp_path / "bytes.json"])


@pytest.mark.parametrize("name", ["devices.json", "distributed.json"])
def test_a_built_in_file_that_is_given_stands_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(builtin_rules_dir())
    given = load_rulebook([Path(name)])
    assert sorted(rule.id for rule in given.rules) == sorted(rule.id for rule in load_rulebook().rules)
    assert all(rule.builtin for rule in given.rules) and given.rules[0].file == name
    assert given.roles == load_rulebook().roles


def test_a_file_that_is_given_twice_stands_once(tmp_path: Path) -> None:
    path = write(tmp_path, RULE)
    assert load_rulebook([path, path]).rules == load_rulebook([path]).rules


def test_the_id_of_a_built_in_rule_is_the_users_to_change(tmp_path: Path) -> None:
    path = write(tmp_path, RULE, RULE | {"id": "cuda-method"})
    with pytest.raises(RuleError, match=re.escape(f"{path}: $.rules[1].id: 'cuda-method' is a built-in rule's id")):
        load_rulebook([path])
