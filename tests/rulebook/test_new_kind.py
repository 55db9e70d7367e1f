"""A kind of match is one file: one that is put beside the others works in every place where rules are used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpu2npu.kinds
from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.project.explain import explain_line
from gpu2npu.project.rule_examples import run_examples
from gpu2npu.rulebook import Rulebook, load_rulebook
from gpu2npu.rulebook import match as matches
from gpu2npu.rulebook.describe import one_line
from gpu2npu.rulebook.document import schema, starter
from gpu2npu.rulebook.entries import encode_rule

MODULE = '''
"""Rules for statements that delete a name."""
import ast

from gpu2npu.records import Edit
from gpu2npu.rulebook.match import Match


class DeletedMatch(Match, frozen=True):
    deleted: str

    key = "deleted"
    shape = {"deleted": {"$ref": "#/$defs/identifier"}}
    actions = ("rename",)
    starter = {
        "why": "It has another name.",
        "match": {"deleted": "gpu_pool"},
        "then": {"rename": "npu_pool"},
        "examples": [{"before": "del gpu_pool\\n", "after": "del npu_pool\\n"}, {"keep": "x = gpu_pool\\n"}],
    }

    @property
    def text(self):
        return f"`{self.deleted}` where it is deleted"

    @property
    def subject(self):
        return f"del {self.deleted}"

    @classmethod
    def handlers(cls, work):
        def delete(node, scope):
            for target in node.targets:
                for rule in work.rules(cls.key).get(target.id, ()):
                    work.matches.edit(Edit(work.file.bounds(target), rule.then.rename, rule.id, rule.why))

        return {ast.Delete: delete}
'''

IN_CONFIGURATIONS = '''
"""Rules for the port that a program listens on, wherever a key says that it is one."""

from gpu2npu.engine.knowledge import CommandLine, KeyedValue
from gpu2npu.engine.marks import applied
from gpu2npu.rulebook.match import Match


class PortMatch(Match, frozen=True):
    port: str

    key = "port"
    shape = {"port": {"type": "string"}}
    actions = ("rename",)
    starter = {
        "why": "The NPU service listens elsewhere.",
        "match": {"port": "gpu:71"},
        "then": {"rename": "npu:72"},
        "examples": [{"file": "a.yaml", "before": "port: gpu:71\\n", "after": "port: npu:72\\n"}],
    }
    subject = property(lambda self: f"port {self.port}")
    text = property(lambda self: f"the port `{self.port}`")

    @classmethod
    def place_handlers(cls, rules):
        def value(place):
            (rule,) = rules.table.of(cls.key)["gpu:71"]
            is_port = (place.key or "").lstrip("-").lower() == "port" and place.value == rule.match.port
            return applied(rule, place.start, place.start + len(place.value), place.value) if is_port else None

        return {KeyedValue: value}
'''


@pytest.fixture
def rulebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rulebook]:
    """The built-in rules and those of kinds that two new files define."""
    (tmp_path / "kinds").mkdir()
    for name, text in (("deleted", MODULE), ("port", IN_CONFIGURATIONS)):
        (tmp_path / "kinds" / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"gpu2npu.kinds.{name}", raising=False)
    monkeypatch.setattr(matches, "_known", dict(matches.kinds()))
    monkeypatch.setattr(gpu2npu.kinds, "__path__", [*gpu2npu.kinds.__path__, str(tmp_path / "kinds")])
    for made in (matches.kinds, schema):
        made.cache_clear()
    own = tmp_path / "own.json"
    own.write_text(starter("own", "deleted"), encoding="utf-8")
    port = tmp_path / "port.json"
    port.write_text(starter("port", "port"), encoding="utf-8")
    yield load_rulebook([own, port])
    for made in (matches.kinds, schema):
        made.cache_clear()


def test_a_new_file_is_a_kind(rulebook: Rulebook) -> None:
    rule = rulebook.rules[0]
    assert (rule.match.key, one_line(rule)) == ("deleted", "del gpu_pool -> npu_pool")
    assert encode_rule(rule)["match"] == {"deleted": "gpu_pool"}
    assert "deleted" in json.dumps(schema()["$defs"]["match"])
    assert [run.problem for run in run_examples([rule], rulebook)] == [None, None]
    context = ProjectContext()
    changed = migrate_file(b"del gpu_pool\n", "a.py", rulebook, context)
    assert [(change.rule, change.after) for change in changed.changes] == [("own", "npu_pool")]
    (_, reason), *_ = explain_line(b"x = gpu_pool\n", "a.py", 1, rulebook, context).others
    assert reason == "the code here is other than the rule's: it matches `gpu_pool` where it is deleted"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("conf.yaml", "serve:\n  port: gpu:71\n  name: gpu:71\n", "serve:\n  port: npu:72\n  name: gpu:71\n"),
        ("conf.toml", '[serve]\nport = "gpu:71"\n', '[serve]\nport = "npu:72"\n'),
        ("run.sh", "export PORT=gpu:71\nserve --port gpu:71\n", "export PORT=npu:72\nserve --port npu:72\n"),
        ("Dockerfile", "FROM a\nENV PORT gpu:71\n", "FROM a\nENV PORT npu:72\n"),
    ],
)
def test_a_new_file_is_a_kind_for_configurations(rulebook: Rulebook, path: str, before: str, after: str) -> None:
    rule = rulebook.rules[1]
    assert [run.problem for run in run_examples([rule], rulebook)] == [None]
    changed = migrate_file(before.encode(), path, rulebook, ProjectContext())
    assert (changed.content or b"").decode() == after
    assert {change.rule for change in changed.changes} == {"port"}
