"""Rules for settings, by the paths of their keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import load_rulebook


def migrated(
    folder: Path,
    match: dict[str, object],
    then: dict[str, object],
    path: str,
    text: str,
    context: ProjectContext | None = None,
) -> MigratedFile:
    rule = {"id": "own", "why": "Because.", "match": match, "then": then, "examples": [{"keep": ""}]}
    file = folder / "own.json"
    file.write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
    return migrate_file(text.encode(), path, load_rulebook([file]), context or ProjectContext())


@pytest.mark.parametrize(
    ("setting", "path", "before", "after"),
    [
        ("run.*.kind", "a.yaml", "run:\n  one:\n    kind: 'old' # x\n", "run:\n  one:\n    kind: 'new' # x\n"),
        ("run.*.kind", "a.yaml", "run:\n  - one:\n      kind: old\n", "run:\n  - one:\n      kind: new\n"),
        ("run.*.kind", "a.yaml", "run:\n  kind: old\n", None),
        ("run.**.kind", "a.yaml", "run:\n  kind: old\n", "run:\n  kind: new\n"),
        ("**.kind", "a.yaml", "a: {b: {kind: old}}\n", "a: {b: {kind: new}}\n"),
        ("run.kind", "a.yaml", "run:\n  kind: older\n", None),
        ("run.kind", "a.yaml", "run:\n  kind: [old, other]\n", "run:\n  kind: [new, other]\n"),
        ("run.kind", "a.json", '{"run": {"kind": "old", "x": 1}}', '{"run": {"kind": "new", "x": 1}}'),
        ("run.kind", "a.toml", "[run]\nkind = 'old'\n", "[run]\nkind = 'new'\n"),
        ("run.kind", "a.toml", "run.kind = 'old'\n", "run.kind = 'new'\n"),
        ("run.kind", "a.sh", "tool run.kind=old other.kind=old\n", "tool run.kind=new other.kind=old\n"),
    ],
)
def test_a_value_is_found_by_the_path_of_its_keys(
    tmp_path: Path, setting: str, path: str, before: str, after: str | None
) -> None:
    result = migrated(tmp_path, {"setting": setting, "values": ["old"]}, {"rename": "new"}, path, before)
    assert result.failure is None
    assert result.content == (after.encode() if after is not None else None)


def test_a_value_that_is_not_a_string_is_reported(tmp_path: Path) -> None:
    then = {"report": {"kind": "review", "message": "Choose fewer."}}
    result = migrated(
        tmp_path, {"setting": "run.workers"}, then, "a.yaml", "run:\n  workers: 8\nother:\n  workers: 8\n"
    )
    assert [(finding.message, finding.span.start_line) for finding in result.findings] == [("Choose fewer.", 2)]


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.json", '{"zero": {"stage": 3},\n "other": {"stage": 3}}', [1]),
        ("a.json", '{"zero": {"stage": 33}}', []),
        ("a.yaml", "zero:\n  stage: 3\n", [2]),
        ("a.yaml", "zero:\n  stage: '3'\n", [2]),
        ("a.toml", "[zero]\nstage = 3\n", [2]),
        ("a.py", "config = {\n    'zero': {'stage': 3},\n    'other': {'stage': 3},\n}\n", [2]),
        ("a.py", "config = {'zero': {'stage': 2}}\nstage = 3\n", []),
    ],
)
def test_a_number_is_found_as_it_is_written(tmp_path: Path, path: str, text: str, lines: list[int]) -> None:
    then = {"report": {"kind": "review", "message": "Choose another."}}
    result = migrated(tmp_path, {"setting": "**.zero.stage", "values": ["3"]}, then, path, text)
    assert [finding.span.start_line for finding in result.findings] == lines


def test_a_device_of_a_users_library_needs_no_plugin(tmp_path: Path) -> None:
    match, then = {"setting": "orchid.backend", "values": ["gpu"]}, {"rename": "npu"}
    for text, findings in (("orchid: {backend: gpu}\n", []), ("orchid: {device: cuda}\n", ["import-torch-npu"])):
        result = migrated(tmp_path, match, then, "a.yaml", text, ProjectContext(has_plugin=False))
        assert result.changes
        assert [found.rule for found in result.findings] == findings


@pytest.mark.parametrize(
    ("line", "is_reported"),
    [
        ("if cfg['orchid']['backend'] == 'gpu': ...", True),
        ("if 'gpu' != cfg.get('orchid').get('backend'): ...", True),
        ("if cfg.orchid.backend in ('gpu', 'cpu'): ...", True),
        ("backend = cfg['orchid'].get('backend', 'gpu')", True),
        ("backend = getattr(cfg.orchid, 'backend', 'gpu')", True),
        ("OmegaConf.update(cfg, 'orchid.backend', 'gpu')", True),
        ("cfg.orchid.update(backend='gpu')", True),
        ("cfg['orchid'].update({'backend': 'gpu'})", True),
        ("cfg.merge(['orchid.backend', 'gpu'])", True),
        ("match cfg.orchid.backend:\n    case 'gpu': ...", True),
        ("o = cfg['orchid']\nb = o.backend\nif b == 'gpu': ...", True),
        (
            "class A:\n  def a(self):\n    o = orchid\n    self.b = o['backend']\n  def b(self): self.b == 'gpu'",
            True,
        ),
        ("a = a['orchid']\nif a['backend'] == 'gpu': ...", True),
        ("a = b\nb = a.orchid\nif a.backend == 'gpu': ...", True),
        ("a = b\nb = a\nif a == 'gpu': ...", False),
        ("a0 = cfg.orchid\n" + "".join(f"a{n + 1} = a{n}\n" for n in range(30)) + "if a30.backend == 'gpu': ...", True),
        ("if plot.backend == 'gpu': ...", False),
        ("plot.get('backend', 'gpu')", False),
        ("plot(cfg.orchid, 'backend', 'gpu')", False),
        ("f(cfg.orchid.backend, 'gpu')", False),
        ("f(backend='gpu')\nx = {'backend': 'gpu'}", False),
        ("orchid.update(plot={'backend': 'gpu'})", False),
    ],
)
def test_python_that_reads_or_writes_a_setting_is_reported(tmp_path: Path, line: str, is_reported: bool) -> None:
    match, then = {"setting": "orchid.**.backend", "values": ["gpu"]}, {"rename": "npu"}
    result = migrated(tmp_path, match, then, "a.py", f"{line}\n# orchid backend\n")
    assert not result.changes
    assert [found.rule for found in result.findings] == ["own"] * is_reported


def test_the_default_of_a_setting_is_changed(tmp_path: Path) -> None:
    match, then = {"setting": "orchid.backend", "values": ["gpu"]}, {"rename": "npu"}
    result = migrated(tmp_path, match, then, "a.yaml", "orchid:\n  backend: ${oc.env:BACKEND,gpu}\n")
    assert result.content == b"orchid:\n  backend: ${oc.env:BACKEND,npu}\n"
