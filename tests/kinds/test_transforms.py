"""A rule of a pack may take its new code from a function on LibCST's nodes: the sample of docs/writing-rules.md, and
what is refused."""

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu2npu.cli.main import cli
from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.kinds import call
from gpu2npu.project.rule_examples import check_user_examples
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.rule import RuleError

PAGE = (Path(__file__).parents[2] / "docs/writing-rules.md").read_text(encoding="utf-8")
(SECTION,) = re.findall(r"### A rule with a LibCST transform\n(.*?)\nEvery built-in rule", PAGE, re.DOTALL)
RULE = json.loads(re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL)[0])
CODE = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)[0]


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed pack with the rule of the page."""
    package, metadata = tmp_path / "site/teamlib_rules", tmp_path / "site/teamlib_gpu2npu-1.2.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").touch()
    (package / "transforms.py").write_text(CODE)
    (package / "rules.json").write_text(json.dumps({"rules": [RULE]}))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: teamlib-gpu2npu\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text("[gpu2npu.rules]\nteamlib = teamlib_rules\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in ("teamlib_rules", "teamlib_rules.transforms"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    call._loaded.cache_clear()
    return package


def migrate(pack: Path, source: str) -> MigratedFile:
    return migrate_source(source.encode(), "a.py", load_rulebook([pack / "rules.json"]), ProjectContext())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = [ teamlib.gpu.fuse(x.cuda(), (h), w) ]  # c\n",
         "y = [ teamlib.npu.fuse(x.npu(), shape=((h), w)) ]  # c\n"),
        ("teamlib.gpu.fuse(*x)\n", None),
        ("gpu.fuse(x, h, w)\n", None),
    ],
)  # fmt: skip
def test_what_the_function_keeps_stays_and_other_rules_apply_in_it(pack: Path, before: str, after: str | None) -> None:
    check_user_examples(load_rulebook([pack / "rules.json"]))
    result = migrate(pack, f"import teamlib\nimport torch_npu\n{before}")
    content = result.content.decode() if result.content is not None else None
    assert content == (after and f"import teamlib\nimport torch_npu\n{after}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1", "gives no expression, but int"),
        ("return call.nothing", "fails: AttributeError"),
        ("return cst.parse_statement('a = 1')", "gives no expression"),
    ],
)
def test_a_function_that_fails_is_reported(pack: Path, body: str, message: str) -> None:
    (pack / "transforms.py").write_text(f"import libcst as cst\ndef fuse(call, context):\n    {body}\n")
    result = migrate(pack, "import teamlib\nteamlib.gpu.fuse(x, h, w)\n")
    assert result.content is None
    assert [message in finding.message for finding in result.findings] == [True]


def test_the_context_knows_names_types_and_the_release(pack: Path) -> None:
    (pack / "transforms.py").write_text(
        "import libcst as cst\ndef fuse(call, context):\n"
        "    found = [context.qualified(call.func), context.release, *context.types(call.args[0].value)]\n"
        "    return cst.SimpleString(repr(' '.join(found)))\n"
    )
    result = migrate(pack, "import torch, teamlib as t\nx = t.gpu.fuse(torch.ones(2))\n")
    assert result.content == b"import torch, teamlib as t\nx = 'teamlib.gpu.fuse 2.1.0 tensor'\n"
    result = migrate(pack, "import teamlib\nclass Own: ...\nx = teamlib.gpu.fuse(Own())\n")
    assert (result.content or b"").endswith(b"x = 'teamlib.gpu.fuse 2.1.0 Own'\n")


def test_code_runs_for_an_installed_pack_alone_and_not_because_a_project_says_so(pack: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text((pack / "rules.json").read_text())
    with pytest.raises(RuleError, match="which only a rule of an installed pack may"):
        load_rulebook([own])
    text = (pack / "rules.json").read_text()
    (pack / "rules.json").write_text(text.replace("teamlib_rules.transforms", "os.path"))
    with pytest.raises(RuleError, match="must be in the package of its pack, teamlib_rules"):
        load_rulebook([pack / "rules.json"])
    (pack / "rules.json").write_text(text)
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("import torch\n")
    (project / "gpu2npu.toml").write_text('version = "2.1.0"\nrules = ["pack:teamlib"]\n')
    refused = CliRunner().invoke(cli, ["check", str(project)])
    assert "runs code ('codemod'): give it with -r" in str(refused.exception)
    listed = CliRunner().invoke(cli, ["rules", "list", "-r", "pack:teamlib"])
    assert "code that runs, teamlib_rules.transforms:fuse" in listed.output
